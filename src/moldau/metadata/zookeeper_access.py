"""Where ZooKeeper is and how to be let in: the settings, and the kazoo client they make.

A broker shows who it is by a log-in (from the section `Client` of the JAAS file: a user and a
password, or Kerberos), by ZooKeeper's scheme digest, by its certificate, or by several of these.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from moldau.config.setting_definition import ConfigError
from moldau.metadata.zookeeper_nodes import Access, access_of
from moldau.net.sasl.login_modules import JAAS_FILE, sections_of
from moldau.net.tls.contexts import client_context
from moldau.net.tls.pem_blocks import StoreFault
from moldau.security.jaas import KERBEROS_MODULE, LoginModule
from moldau.security.sasl.sasl_mechanism import GSSAPI

if TYPE_CHECKING:
    import ssl

    from kazoo.client import KazooClient
    from kazoo.security import ACL

    from moldau.config.broker_config import BrokerConfig
    from moldau.net.sasl.kerberos import Initiator
    from moldau.security.sasl.sasl_mechanism import SaslClient

DIGEST_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
SET_ACL = "zookeeper.set.acl"
SERVICE = "zookeeper.sasl.client.username"
PROTOCOLS = ("TLSv1.2", "TLSv1.3")
DIGEST_SERVICE, DIGEST_HOST = "zookeeper", "zk-sasl-md5"
"""What ZooKeeper calls itself at a log-in by DIGEST-MD5, on whatever host."""
NONCE_BYTES = 24


class LogsIn(Protocol):
    """As whom somebody logs in to ZooKeeper."""

    @property
    def name(self) -> str:
        """For the log."""

    def machine(self, host: str) -> SaslClient:
        """For one log-in at that server; may block. Raises SaslFailure."""


class ZooKeeperLogin(NamedTuple):
    """By a password (DIGEST-MD5)."""

    name: str
    password: str

    def __repr__(self) -> str:
        return f"ZooKeeperLogin({self.name}, [hidden])"

    def machine(self, host: str) -> SaslClient:
        import secrets

        from moldau.security.sasl.digest_md5 import DigestMd5Client

        nonce = secrets.token_urlsafe(NONCE_BYTES)
        return DigestMd5Client(
            self.name, self.password, nonce, service=DIGEST_SERVICE, host=DIGEST_HOST
        )


class ZooKeeperTicket(NamedTuple):
    """By Kerberos (GSSAPI)."""

    name: str
    initiator: Initiator

    def machine(self, host: str) -> SaslClient:
        from moldau.security.sasl.gssapi import GssapiClient

        return GssapiClient(self.initiator.context(host))


class ZooKeeperTls(NamedTuple):
    """Stores and choices, under the names that a listener's have."""

    ssl_keystore_location: str | None = None
    ssl_keystore_type: str = "JKS"
    ssl_keystore_password: str | None = None
    ssl_keystore_key: str | None = None
    ssl_keystore_certificate_chain: str | None = None
    ssl_key_password: str | None = None
    ssl_truststore_location: str | None = None
    ssl_truststore_type: str = "JKS"
    ssl_truststore_password: str | None = None
    ssl_truststore_certificates: str | None = None
    ssl_protocol: str = "TLSv1.3"
    ssl_enabled_protocols: tuple[str, ...] = PROTOCOLS
    ssl_cipher_suites: tuple[str, ...] = ()
    ssl_endpoint_identification_algorithm: str = "https"

    def __repr__(self) -> str:
        return "ZooKeeperTls([hidden])"


class ZooKeeperAccess(NamedTuple):
    """Where the ensemble is and how to be let in."""

    connect: str
    """host:port,host:port/chroot"""
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int = 18_000
    digest: str = ""
    """user:password, or nothing."""
    login: LogsIn | None = None
    protects_nodes: bool = False
    """Give nodes an ACL, so that only those who are let in as this broker can change them."""
    tls: ssl.SSLContext | None = None

    @classmethod
    def of(cls, config: BrokerConfig) -> ZooKeeperAccess:
        """Raises ConfigError."""
        assert config.zookeeper_connect is not None
        login = zookeeper_login(config)
        is_encrypted = config.zookeeper_ssl_client_enable
        has_certificate = is_encrypted and config.zookeeper_ssl_keystore_location is not None
        if config.zookeeper_set_acl and not (login or has_certificate or config.zookeeper_digest):
            limit = (
                "nodes are protected for whoever made them, so the broker must show who it is: by "
                f"a section {config.zookeeper_sasl_clientconfig} in the file that {JAAS_FILE} "
                "names, or by zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location"
            )
            raise ConfigError(SET_ACL, "true", limit)
        return cls(
            config.zookeeper_connect,
            config.zookeeper_session_timeout_ms,
            config.zookeeper_connection_timeout_ms or config.zookeeper_session_timeout_ms,
            config.zookeeper_digest or "",
            login,
            config.zookeeper_set_acl,
            tls_context(_tls_of(config)) if is_encrypted else None,
        )


def zookeeper_login(config: BrokerConfig) -> LogsIn | None:
    """From the JAAS file; None if it says nothing of ZooKeeper. Raises ConfigError."""
    section = config.zookeeper_sasl_clientconfig
    modules = sections_of(config).get(section)
    if modules is None:
        return None
    file = config.java_security_auth_login_config
    if not config.zookeeper_sasl_client:
        limit = f"{file} has a section {section}, which this would leave unused"
        raise ConfigError("zookeeper.sasl.client", "false", limit)
    if len(modules) == 1 and modules[0].class_name == DIGEST_MODULE:
        return _by_password(modules[0], file, section)
    if len(modules) == 1 and modules[0].serves(GSSAPI):
        return _by_ticket(modules[0], config)
    wanted = f"{DIGEST_MODULE} or {KERBEROS_MODULE}"
    limit = f"section {section} must have one login module, {wanted}"
    raise ConfigError(JAAS_FILE, file, limit)


def _by_password(module: LoginModule, file: str | None, section: str) -> ZooKeeperLogin:
    options = module.options
    if not options.get("username") or not options.get("password"):
        limit = f"section {section} must have a username and a password"
        raise ConfigError(JAAS_FILE, file, limit)
    return ZooKeeperLogin(options["username"], options["password"])


def _by_ticket(module: LoginModule, config: BrokerConfig) -> ZooKeeperTicket:
    from moldau.net.sasl.kerberos import Initiator, kerberos_options

    options = kerberos_options(
        JAAS_FILE,
        module.options,
        config.zookeeper_sasl_client_username,
        config.java_security_krb5_conf,
        service_key=SERVICE,
    )
    return ZooKeeperTicket(options.principal or "Kerberos", Initiator(JAAS_FILE, options))


def tls_context(tls: ZooKeeperTls) -> ssl.SSLContext:
    """Raises ConfigError."""
    try:
        return client_context(tls)
    except StoreFault as fault:
        limit = f"the settings zookeeper.ssl.* cannot be used: {fault}"
        raise ConfigError("zookeeper.ssl.client.enable", "true", limit) from None


def _tls_of(config: BrokerConfig) -> ZooKeeperTls:
    """Without a type a file is what its name says, as ZooKeeper reads it."""
    keys, trusted = (
        config.zookeeper_ssl_keystore_location,
        config.zookeeper_ssl_truststore_location,
    )
    keys_type = config.zookeeper_ssl_keystore_type or _type_of(keys)
    password = config.zookeeper_ssl_keystore_password
    is_pem = keys_type == "PEM"
    chosen = config.zookeeper_ssl_enabled_protocols
    if not chosen and "zookeeper.ssl.protocol" in config.given:
        chosen = (config.zookeeper_ssl_protocol,)
    return ZooKeeperTls(
        ssl_keystore_location=keys,
        ssl_keystore_type=keys_type,
        ssl_keystore_password=None if is_pem else password,
        ssl_key_password=password if is_pem else None,
        ssl_truststore_location=trusted,
        ssl_truststore_type=config.zookeeper_ssl_truststore_type or _type_of(trusted),
        ssl_truststore_password=config.zookeeper_ssl_truststore_password,
        ssl_enabled_protocols=chosen or PROTOCOLS,
        ssl_cipher_suites=config.zookeeper_ssl_cipher_suites,
        ssl_endpoint_identification_algorithm=(
            config.zookeeper_ssl_endpoint_identification_algorithm
        ),
    )


def _type_of(location: str | None) -> str:
    return "PEM" if (location or "").lower().endswith(".pem") else "JKS"


def new_client(access: ZooKeeperAccess) -> KazooClient:
    from kazoo.client import KazooClient

    from moldau.metadata.zookeeper_connection import LoggingIn, Sockets

    logging.getLogger("kazoo").setLevel(logging.ERROR)
    client = KazooClient(
        hosts=access.connect,
        timeout=access.session_timeout_ms / 1000,
        handler=Sockets(access.tls),
        use_ssl=access.tls is not None,
        auth_data=[("digest", access.digest)] if access.digest else None,
        # Reconnecting never ends by itself: the broker lives as long as its operator wants.
        connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1},
    )
    if access.login is not None:
        client._connection = LoggingIn(client, access.login)
    return client


def acls_of(path: str, *, is_protected: bool) -> list[ACL]:
    """What ZooKeeper is told of a node."""
    from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

    match access_of(path, is_protected=is_protected):
        case Access.OPEN:
            return OPEN_ACL_UNSAFE  # type: ignore[no-any-return]
        case Access.READABLE:
            return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
        case Access.SECRET:
            return CREATOR_ALL_ACL  # type: ignore[no-any-return]
