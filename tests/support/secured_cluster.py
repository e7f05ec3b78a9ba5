"""Three brokers with every lock: SASL_SSL for clients and among themselves, access control lists,
and a ZooKeeper that they log in to over TLS and whose nodes are theirs.

What users there are and what they may do stands in ZooKeeper before the first broker starts.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from moldau.metadata import acl_paths
from moldau.metadata.zookeeper_access import ZooKeeperAccess
from moldau.security.acl.acl_model import (
    CLUSTER_NAME,
    Entry,
    Operation,
    Permission,
    ResourcePattern,
    ResourceType,
)
from moldau.security.sasl.scram_keys import credential_text, make_credential
from moldau.testing.broker_process import free_ports
from moldau.testing.zookeeper_process import ZooKeeperProcess, ensemble
from tests.support.certificates import Authority
from tests.support.reach import Reach
from tests.support.secured_zookeeper import brokers_side, looking, put, server_lines

MECHANISM = "SCRAM-SHA-512"
BROKER, OPERATOR, CLIENT = "broker", "operator", "alice"
PASSWORDS = {BROKER: "brokers-own", OPERATOR: "operators-own", CLIENT: "wonderland"}
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
RIGHTS = {
    ResourceType.TOPIC: ("*", (Operation.ALL,)),
    ResourceType.GROUP: ("*", (Operation.READ, Operation.DESCRIBE)),
    ResourceType.TRANSACTIONAL_ID: ("*", (Operation.WRITE, Operation.DESCRIBE)),
    ResourceType.CLUSTER: (CLUSTER_NAME, (Operation.CREATE, Operation.DESCRIBE)),
}
"""Of the client under fire: by name, none by being a super user."""


class SecuredCluster:
    def __init__(
        self, directory: Path, servers: Sequence[ZooKeeperProcess], ports: Sequence[int]
    ) -> None:
        self.zookeeper_ports = list(ports)
        self._ca = Authority("The cluster's CA")
        self._ca_file = directory / "cluster-ca.pem"
        self._ca_file.write_text(self._ca.certificate_pem)
        self._keys = self._ca.issue_broker().write(directory / "broker.pem")
        self.zookeeper = brokers_side(directory, servers[0], ports[0])

    @property
    def access(self) -> ZooKeeperAccess:
        """To ZooKeeper as the brokers have it."""
        return self.zookeeper.access(chroot="/kafka")

    def write_first_users(self) -> None:
        with looking(self.zookeeper.access()) as tree:
            put(tree, "/kafka")
        with looking(self.access) as tree:
            for name, password in PASSWORDS.items():
                put(tree, f"/config/users/{name}", scram_node(password))
            for kind, (name, operations) in RIGHTS.items():
                entries = {
                    Entry(f"User:{CLIENT}", "*", operation, Permission.ALLOW)
                    for operation in operations
                }
                path = acl_paths.acl_path(ResourcePattern(kind, name))
                put(tree, path, acl_paths.encode_entries(entries))

    def issue_store(self, path: Path, password: str) -> str:
        """Of one more broker."""
        return self._ca.issue_broker().write_pkcs12(path, password)

    def broker_settings(self, port: int, advertised: int) -> dict[str, str]:
        return {
            **self.zookeeper.log_in_settings,
            **self.zookeeper.tls_settings,
            "zookeeper.set.acl": "true",
            "listeners": f"SASL_SSL://127.0.0.1:{port}",
            "advertised.listeners": f"SASL_SSL://127.0.0.1:{advertised}",
            "security.inter.broker.protocol": "SASL_SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._keys,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._ca_file),
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": (
                f'{SCRAM_MODULE} required username="{BROKER}" password="{PASSWORDS[BROKER]}";'
            ),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:{BROKER};User:{OPERATOR}",
        }

    @property
    def probe_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self._ca_file))

    def reach(self, bootstrap: str, user: str = CLIENT, password: str | None = None) -> Reach:
        both = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": PASSWORDS[user] if password is None else password,
        }
        trusted = str(self._ca_file)
        own = {"ssl.truststore.type": "PEM", "ssl.truststore.location": trusted}
        return Reach(bootstrap, {**both, **own}, {**both, "ssl.ca.location": trusted})


def scram_node(password: str) -> bytes:
    credential = credential_text(make_credential(MECHANISM, password, b"salt"))
    return json.dumps({"version": 1, "config": {MECHANISM: credential}}).encode()


@contextmanager
def secured_ensemble(
    directory: Path, size: int = 3
) -> Iterator[tuple[list[ZooKeeperProcess], SecuredCluster]]:
    ports = free_ports(size)
    lines = [server_lines(directory, port) for port in ports]
    more, options = [each for each, _ in lines], lines[-1][1]
    with ensemble(directory, size, more=more, java_options=options) as servers:
        secured = SecuredCluster(directory, servers, ports)
        secured.write_first_users()
        yield servers, secured
