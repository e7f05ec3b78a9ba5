"""Settings of the clients that say how connections are secured: TLS, and the log-in (SASL).

They are read where `security.protocol` asks for them and left alone elsewhere, as in Kafka: one
file may serve clients of both kinds. What is known of Kafka and not built is refused there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.config.kerberos_settings import KerberosSettings
from moldau.config.setting_definition import (
    HIDDEN,
    ConfigError,
    Names,
    Password,
    setting,
)
from moldau.config.token_settings import TokenLoginSettings

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = PROTOCOLS = (
    "PLAINTEXT",
    "SSL",
    "SASL_PLAINTEXT",
    "SASL_SSL",
)
TLS_PROTOCOLS = (SSL, SASL_SSL)
SASL_PROTOCOLS = (SASL_PLAINTEXT, SASL_SSL)

_NO_CLASSES = "classes of Java are not loaded"
_NO_CHECK = "tokens are checked by the broker"
_NO_JAVA_TLS = "TLS is OpenSSL's here, not the JVM's"
NOT_BUILT: Mapping[str, str] = {
    "sasl.oauthbearer.jwks.": _NO_CHECK,
    "sasl.oauthbearer.expected.": _NO_CHECK,
    "sasl.oauthbearer.clock.": _NO_CHECK,
    "sasl.client.callback.handler.class": _NO_CLASSES,
    "sasl.login.class": _NO_CLASSES,
    "ssl.engine.factory.class": _NO_CLASSES,
    "ssl.provider": _NO_JAVA_TLS,
    "ssl.keymanager.algorithm": _NO_JAVA_TLS,
    "ssl.trustmanager.algorithm": _NO_JAVA_TLS,
    "ssl.secure.random.implementation": _NO_JAVA_TLS,
}
"""Keys, and families of keys that end with a dot, to the reason why they are refused."""


def _https_or_nothing(value: str) -> str | None:
    return None if value.lower() in ("https", "") else "must be https, or empty"


class SecuritySettings(KerberosSettings, TokenLoginSettings):
    security_protocol: str = setting(
        "security.protocol",
        PLAINTEXT,
        one_of=PROTOCOLS,
        ignore_case=True,
        doc="How to speak to brokers: in plain text or by TLS (SSL), with a log-in (SASL) or not.",
    )
    ssl_truststore_type: str = setting(
        "ssl.truststore.type", "JKS", doc="Form of the trusted certificates: PEM, PKCS12 or JKS."
    )
    ssl_truststore_location: str | None = setting(
        "ssl.truststore.location",
        None,
        doc="File with the certificates that are trusted; without one, those of the system.",
    )
    ssl_truststore_password: Password | None = setting(
        "ssl.truststore.password", None, doc="Password of that file."
    )
    ssl_truststore_certificates: Password | None = setting(
        "ssl.truststore.certificates", None, doc="The trusted certificates themselves, in PEM form."
    )
    ssl_keystore_type: str = setting(
        "ssl.keystore.type", "JKS", doc="Form of the client's key: PEM, PKCS12 or JKS."
    )
    ssl_keystore_location: str | None = setting(
        "ssl.keystore.location",
        None,
        doc="File with the client's key and certificate, for brokers that ask for one.",
    )
    ssl_keystore_password: Password | None = setting(
        "ssl.keystore.password", None, doc="Password of that file."
    )
    ssl_keystore_key: Password | None = setting(
        "ssl.keystore.key", None, doc="The client's private key itself, in PEM form."
    )
    ssl_keystore_certificate_chain: Password | None = setting(
        "ssl.keystore.certificate.chain",
        None,
        doc="The client's certificate and its issuers, in PEM form.",
    )
    ssl_key_password: Password | None = setting(
        "ssl.key.password", None, doc="Password of the private key."
    )
    ssl_enabled_protocols: Names = setting(
        "ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), doc="Versions of TLS that may be used."
    )
    ssl_protocol: str = setting(
        "ssl.protocol", "TLSv1.3", doc="Version of TLS that is preferred; TLSv1.2 leaves 1.3 out."
    )
    ssl_cipher_suites: Names = setting(
        "ssl.cipher.suites", (), doc="Cipher suites that may be used; empty means OpenSSL's choice."
    )
    ssl_endpoint_identification_algorithm: str = setting(
        "ssl.endpoint.identification.algorithm",
        "https",
        check=_https_or_nothing,
        doc="Check that a broker's certificate names its host; empty switches that off.",
    )
    sasl_mechanism: str = setting(
        "sasl.mechanism",
        "GSSAPI",
        aliases=("sasl.mechanisms",),
        doc="How to log in: GSSAPI (Kerberos), PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
    )
    sasl_jaas_config: Password | None = setting(
        "sasl.jaas.config", None, doc="The log-in module with its user name and password."
    )
    sasl_username: str | None = setting(
        "sasl.username", None, doc="User name, in the place of sasl.jaas.config."
    )
    sasl_password: Password | None = setting("sasl.password", None, doc="Password of that user.")


def settle_protocol(values: dict[str, Any], given: Mapping[str, Any]) -> None:
    """The protocol in capitals; ConfigError for what it would need and nobody has built."""
    protocol = values["security_protocol"] = values["security_protocol"].upper()
    for key, value in given.items():
        reason = not_built(key)
        if reason is None or value is None or value == "":
            continue
        if protocol in (SASL_PROTOCOLS if key.startswith("sasl.") else TLS_PROTOCOLS):
            raise ConfigError(key, HIDDEN, reason)


def not_built(key: str) -> str | None:
    for name, reason in NOT_BUILT.items():
        if key == name or (name.endswith(".") and key.startswith(name)):
            return reason
    return None
