"""Where ZooKeeper is and how to be let in: the settings, and the kazoo client they make."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from moldau.config.broker_config import BrokerConfig


class ZooKeeperAccess(NamedTuple):
    """Where the ensemble is and how to be let in."""

    connect: str
    """host:port,host:port/chroot"""
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int = 18_000
    digest: str = ""
    """user:password, or nothing."""
    protects_nodes: bool = False
    """Give nodes an ACL, so that only those who know the password can change them."""
    tls: ZooKeeperTls | None = None

    @classmethod
    def of(cls, config: BrokerConfig) -> ZooKeeperAccess:
        assert config.zookeeper_connect is not None
        keys = config.zookeeper_ssl_keystore_location
        password = config.zookeeper_ssl_keystore_password
        tls = ZooKeeperTls(
            trusted=config.zookeeper_ssl_truststore_location,
            certificate=keys,
            key=keys,
            key_password=password,
            verifies_host=bool(config.zookeeper_ssl_endpoint_identification_algorithm),
        )
        digest = config.zookeeper_digest
        return cls(
            config.zookeeper_connect,
            config.zookeeper_session_timeout_ms,
            config.zookeeper_connection_timeout_ms or config.zookeeper_session_timeout_ms,
            digest or "",
            config.zookeeper_set_acl,
            tls if config.zookeeper_ssl_client_enable else None,
        )


class ZooKeeperTls(NamedTuple):
    """Files in PEM form."""

    trusted: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = None
    verifies_host: bool = True


def new_client(access: ZooKeeperAccess) -> KazooClient:
    from kazoo.client import KazooClient
    from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

    logging.getLogger("kazoo").setLevel(logging.ERROR)
    options: dict[str, Any] = {}
    if access.tls is not None:
        tls = access.tls
        options = {
            "use_ssl": True,
            "ca": tls.trusted,
            "certfile": tls.certificate,
            "keyfile": tls.key,
            "keyfile_password": tls.key_password,
            "verify_certs": True,
            "check_hostname": tls.verifies_host,
        }
    if access.digest:
        options["auth_data"] = [("digest", access.digest)]
    if access.protects_nodes:
        options["default_acl"] = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
    return KazooClient(
        hosts=access.connect,
        timeout=access.session_timeout_ms / 1000,
        # Reconnecting never ends by itself: the broker lives as long as its operator wants.
        connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1},
        **options,
    )
