"""Broker settings: TLS, SASL, authorization and delegation tokens."""

from __future__ import annotations

import re

from moldau.config.setting_definition import (
    DAY,
    HOUR,
    KIB,
    ClassName,
    Long,
    Names,
    Password,
    Scope,
    Settings,
    setting,
)

NO_JAVA_TLS = "TLS comes from OpenSSL, not from a JVM"
NO_PLUG_INS = "classes of the JVM cannot be loaded"
OTHER_NAMES = "such a class cannot be loaded, and users would have other names; leave it out"
OTHER_TLS = "such a class cannot be loaded, and TLS would not be what it makes; leave it out"
PYTHON_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
ANY_NAME = "a certificate that is read anew may carry any name"
JAAS_PLACE = "brokers read it for one listener and mechanism only"

AUTHORIZERS = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)


def authorizer_fault(name: str) -> str | None:
    if name in ("", *AUTHORIZERS) or PYTHON_CLASS.fullmatch(name):
        return None
    return (
        f"classes of the JVM cannot be loaded; {' and '.join(AUTHORIZERS)} are known, and a class "
        "of your own in Python is written as module:Class"
    )


# Rows stay compact, so that the table can be read as one.
# fmt: off


class SecuritySettings(Settings):
    # Authorization
    authorizer_class_name: str = setting(
        "authorizer.class.name", "", check=authorizer_fault,
        doc="kafka.security.authorizer.AclAuthorizer or "
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer switch access control lists "
            "on; module:Class is an authorizer of your own in Python (moldau.authorization); empty "
            "leaves everything open.")
    super_users: str = setting(
        "super.users", "", hidden=True,
        doc="Principals that may do everything, separated by semicolons: User:alice;User:bob.")
    allow_everyone_if_no_acl_found: bool = setting(
        "allow.everyone.if.no.acl.found", False, hidden=True,
        doc="Leave resources open for which no access control list exists.")
    principal_builder_class: ClassName = setting(
        "principal.builder.class",
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        scope=Scope.PER_BROKER, refused=OTHER_NAMES,
        doc="Class that names the user behind a connection.")
    ssl_principal_mapping_rules: str = setting(
        "ssl.principal.mapping.rules", "DEFAULT",
        doc="Rules that turn the name in a client's certificate into a user name.")
    security_providers: str | None = setting(
        "security.providers", no_effect=NO_PLUG_INS,
        doc="Classes that add security algorithms.")

    # TLS
    ssl_keystore_type: str = setting(
        "ssl.keystore.type", "JKS", scope=Scope.PER_BROKER,
        doc="Form of the broker's key and certificate: PEM, PKCS12 or JKS.")
    ssl_keystore_location: str | None = setting(
        "ssl.keystore.location", scope=Scope.PER_BROKER,
        doc="File with the broker's key and certificate.")
    ssl_keystore_password: Password | None = setting(
        "ssl.keystore.password", scope=Scope.PER_BROKER,
        doc="Password of that file.")
    ssl_keystore_key: Password | None = setting(
        "ssl.keystore.key", scope=Scope.PER_BROKER,
        doc="The broker's private key itself, in PEM form.")
    ssl_keystore_certificate_chain: Password | None = setting(
        "ssl.keystore.certificate.chain", scope=Scope.PER_BROKER,
        doc="The broker's certificate and its issuers, in PEM form.")
    ssl_key_password: Password | None = setting(
        "ssl.key.password", scope=Scope.PER_BROKER,
        doc="Password of the private key.")
    ssl_truststore_type: str = setting(
        "ssl.truststore.type", "JKS", scope=Scope.PER_BROKER,
        doc="Form of the trusted certificates: PEM, PKCS12 or JKS.")
    ssl_truststore_location: str | None = setting(
        "ssl.truststore.location", scope=Scope.PER_BROKER,
        doc="File with the certificates that the broker trusts.")
    ssl_truststore_password: Password | None = setting(
        "ssl.truststore.password", scope=Scope.PER_BROKER,
        doc="Password of that file.")
    ssl_truststore_certificates: Password | None = setting(
        "ssl.truststore.certificates", scope=Scope.PER_BROKER,
        doc="The trusted certificates themselves, in PEM form.")
    ssl_client_auth: str = setting(
        "ssl.client.auth", "none", one_of=("required", "requested", "none"), scope=Scope.PER_BROKER,
        doc="Whether clients must show a certificate.")
    ssl_enabled_protocols: Names = setting(
        "ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), scope=Scope.PER_BROKER,
        doc="Versions of TLS that clients may use.")
    ssl_protocol: str = setting(
        "ssl.protocol", "TLSv1.3", scope=Scope.PER_BROKER,
        doc="Version of TLS that the broker prefers.")
    ssl_cipher_suites: Names = setting(
        "ssl.cipher.suites", (), scope=Scope.PER_BROKER,
        doc="Cipher suites that clients may use; empty means the library's choice.")
    ssl_endpoint_identification_algorithm: str = setting(
        "ssl.endpoint.identification.algorithm", "https", scope=Scope.PER_BROKER,
        doc="Check that another broker's certificate names its host; empty switches that off.")
    ssl_allow_dn_changes: bool = setting(
        "ssl.allow.dn.changes", False, no_effect=ANY_NAME,
        doc="Let a new certificate carry another name than the one before.")
    ssl_allow_san_changes: bool = setting(
        "ssl.allow.san.changes", False, no_effect=ANY_NAME,
        doc="Let a new certificate carry other alternative names than the one before.")
    ssl_provider: str | None = setting(
        "ssl.provider", scope=Scope.PER_BROKER, no_effect=NO_JAVA_TLS,
        doc="Security provider of the JVM.")
    ssl_keymanager_algorithm: str = setting(
        "ssl.keymanager.algorithm", "SunX509", scope=Scope.PER_BROKER, no_effect=NO_JAVA_TLS,
        doc="Algorithm of the JVM's key manager.")
    ssl_trustmanager_algorithm: str = setting(
        "ssl.trustmanager.algorithm", "PKIX", scope=Scope.PER_BROKER, no_effect=NO_JAVA_TLS,
        doc="Algorithm of the JVM's trust manager.")
    ssl_secure_random_implementation: str | None = setting(
        "ssl.secure.random.implementation", scope=Scope.PER_BROKER, no_effect=NO_JAVA_TLS,
        doc="Random number generator of the JVM.")
    ssl_engine_factory_class: ClassName | None = setting(
        "ssl.engine.factory.class", scope=Scope.PER_BROKER, refused=OTHER_TLS,
        doc="Class that makes TLS engines.")

    # SASL
    sasl_enabled_mechanisms: Names = setting(
        "sasl.enabled.mechanisms", ("GSSAPI",), scope=Scope.PER_BROKER,
        doc="Ways to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI (Kerberos). "
            "Others stop the start of a listener that asks for a log-in.")
    sasl_mechanism_inter_broker_protocol: str = setting(
        "sasl.mechanism.inter.broker.protocol", "GSSAPI", scope=Scope.PER_BROKER,
        doc="How brokers log in to one another: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, "
            "OAUTHBEARER or GSSAPI.")
    java_security_auth_login_config: str | None = setting(
        "java.security.auth.login.config",
        doc="Moldau's own: the JAAS file that a JVM is told of by a flag of this name. Its "
            "sections are KafkaServer (or <listener in lower case>.KafkaServer) and Client, for "
            "ZooKeeper; without the setting KAFKA_OPTS is looked at.")
    java_security_krb5_conf: str | None = setting(
        "java.security.krb5.conf",
        doc="Moldau's own, likewise: the file that says where the KDC is; without it the Kerberos "
            "library looks where KRB5_CONFIG says, or in /etc/krb5.conf.")
    sasl_mechanism_controller_protocol: str = setting(
        "sasl.mechanism.controller.protocol", "GSSAPI",
        no_effect="the controller uses the listener of the brokers",
        doc="How brokers log in to controllers.")
    sasl_jaas_config: Password | None = setting(
        "sasl.jaas.config", scope=Scope.PER_BROKER, no_effect=JAAS_PLACE,
        doc="Users and passwords in JAAS form, usually set per listener and mechanism as "
            "listener.name.<name>.<mechanism>.sasl.jaas.config.")
    sasl_server_max_receive_size: int = setting(
        "sasl.server.max.receive.size", 512 * KIB, at_least=1,
        doc="Largest message that a client may send while it logs in.")
    connections_max_reauth_ms: Long = setting(
        "connections.max.reauth.ms", 0,
        doc="Clients must log in again after this time; 0 never asks them to.")
    sasl_server_callback_handler_class: ClassName | None = setting(
        "sasl.server.callback.handler.class",
        doc="Who checks log-ins: for OAUTHBEARER Kafka's OAuthBearerValidatorCallbackHandler, "
            "which wants signed tokens. Any other stops the start.")
    sasl_client_callback_handler_class: ClassName | None = setting(
        "sasl.client.callback.handler.class", refused=NO_PLUG_INS,
        doc="Class that answers the questions of a log-in.")
    sasl_login_class: ClassName | None = setting(
        "sasl.login.class", refused=NO_PLUG_INS,
        doc="Class that logs in.")

    sasl_kerberos_principal_to_local_rules: Names = setting(
        "sasl.kerberos.principal.to.local.rules", ("DEFAULT",), scope=Scope.PER_BROKER,
        doc="Rules that turn a Kerberos name into a user name.")

    # Delegation tokens
    delegation_token_secret_key: Password | None = setting(
        "delegation.token.secret.key", aliases=("delegation.token.master.key",),
        doc="Secret that signs delegation tokens, the same on all brokers; without it there are "
            "none.")
    delegation_token_max_lifetime_ms: Long = setting(
        "delegation.token.max.lifetime.ms", 7 * DAY, at_least=1,
        doc="A token cannot be renewed beyond this age.")
    delegation_token_expiry_time_ms: Long = setting(
        "delegation.token.expiry.time.ms", 1 * DAY, at_least=1,
        doc="A token is good for this long unless it is renewed.")
    delegation_token_expiry_check_interval_ms: Long = setting(
        "delegation.token.expiry.check.interval.ms", 1 * HOUR, at_least=1,
        doc="How often expired tokens are looked for.")
