"""A ZooKeeper that knows users by passwords and certificates, and what brokers need to log in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kazoo.client import KazooClient

from moldau.metadata.zookeeper_access import (
    ZooKeeperAccess,
    ZooKeeperLogin,
    ZooKeeperTls,
    acls_of,
    new_client,
    tls_context,
)
from moldau.testing.broker_process import free_port
from moldau.testing.zookeeper_process import ZooKeeperProcess, zookeeper
from tests.support.certificates import Authority

USERS = {"kafka": "rivers-own", "operator": "operators-own"}
CA = Authority("ZooKeeper's CA")
DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
SASL = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
STORE_PASSWORD = "store-secret"


class SecuredZooKeeper(NamedTuple):
    process: ZooKeeperProcess
    secure_port: int
    jaas_file: Path
    """For brokers: the section Client."""
    key_store: Path
    trust_store: Path

    @property
    def plain(self) -> str:
        return self.process.connect

    @property
    def encrypted(self) -> str:
        return f"127.0.0.1:{self.secure_port}"

    @property
    def log_in_settings(self) -> Mapping[str, str]:
        return {"java.security.auth.login.config": str(self.jaas_file)}

    @property
    def tls_settings(self) -> Mapping[str, str]:
        return {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": str(self.key_store),
            "zookeeper.ssl.keystore.password": STORE_PASSWORD,
            "zookeeper.ssl.keystore.type": "PKCS12",
            "zookeeper.ssl.truststore.location": str(self.trust_store),
            "zookeeper.ssl.truststore.type": "PEM",
        }

    def access(self, user: str = "kafka", chroot: str = "") -> ZooKeeperAccess:
        login = ZooKeeperLogin(user, USERS[user])
        return ZooKeeperAccess(self.plain + chroot, login=login)

    def encrypted_access(self, chroot: str = "") -> ZooKeeperAccess:
        tls = ZooKeeperTls(
            ssl_keystore_location=str(self.key_store),
            ssl_keystore_password=STORE_PASSWORD,
            ssl_truststore_location=str(self.trust_store),
            ssl_truststore_type="PEM",
        )
        return ZooKeeperAccess(self.encrypted + chroot, tls=tls_context(tls))


def client_jaas(user: str = "kafka", password: str | None = None) -> str:
    secret = USERS[user] if password is None else password
    return f'Client {{\n  {DIGEST} required username="{user}" password="{secret}";\n}};\n'


def server_lines(directory: Path, secure_port: int) -> tuple[str, str]:
    """Further lines of zoo.cfg, and options of the JVM."""
    directory.mkdir(parents=True, exist_ok=True)
    store = directory / "zookeeper.p12"
    CA.issue_broker().write_pkcs12(store, STORE_PASSWORD)
    trusted = directory / "ca.pem"
    trusted.write_text(CA.certificate_pem)
    jaas = directory / "server-jaas.conf"
    users = " ".join(f'user_{name}="{secret}"' for name, secret in USERS.items())
    jaas.write_text(f"Server {{\n  {DIGEST} required {users};\n}};\n")
    more = (
        f"{SASL}\nsecureClientPort={secure_port}\n"
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
        f"ssl.keyStore.location={store}\nssl.keyStore.type=PKCS12\n"
        f"ssl.keyStore.password={STORE_PASSWORD}\n"
        f"ssl.trustStore.location={trusted}\nssl.trustStore.type=PEM\n"
    )
    return more, f"-Djava.security.auth.login.config={jaas}"


def brokers_side(directory: Path, process: ZooKeeperProcess, port: int) -> SecuredZooKeeper:
    jaas = directory / "client-jaas.conf"
    jaas.write_text(client_jaas())
    keys = directory / "broker.p12"
    CA.issue_user("kafka").write_pkcs12(keys, STORE_PASSWORD)
    return SecuredZooKeeper(process, port, jaas, keys, directory / "ca.pem")


@contextmanager
def secured_zookeeper(directory: Path) -> Iterator[SecuredZooKeeper]:
    port = free_port()
    more, options = server_lines(directory, port)
    with zookeeper(directory / "data", more=more, java_options=options) as process:
        yield brokers_side(directory, process, port)


@contextmanager
def looking(access: ZooKeeperAccess) -> Iterator[KazooClient]:
    """The tree as that user sees it."""
    client = new_client(access)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def put(client: KazooClient, path: str, data: bytes = b"") -> None:
    """As a broker that protects its nodes makes it, with what is missing above."""
    parent = path.rpartition("/")[0]
    if parent and client.exists(parent) is None:
        put(client, parent)
    client.create(path, data, acl=acls_of(path, is_protected=True))
