"""Brokers with every lock on one secured ZooKeeper, Moldau's and others, and clients of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from moldau import Admin
from moldau.errors import SaslAuthenticationError
from moldau.testing.broker_process import BrokerProcess, free_ports
from tests.support.secured_cluster import CLIENT, OPERATOR, SecuredCluster
from tests.support.secured_zookeeper import secured_zookeeper

SECONDS_MAX = 60
ENCODER_SECRET = "encoders-own"


class SecuredBrokers:
    """By number; none is started."""

    def __init__(
        self,
        directory: Path,
        locks: SecuredCluster,
        kinds: Mapping[int, type[BrokerProcess]],
        settings: Mapping[str, str],
    ) -> None:
        self.locks = locks
        self.brokers: dict[int, BrokerProcess] = {}
        for (number, kind), port in zip(kinds.items(), free_ports(len(kinds)), strict=True):
            overrides = {
                **settings,
                "broker.id": str(number),
                "zookeeper.connect": f"{locks.zookeeper.encrypted}/kafka",
                "password.encoder.secret": ENCODER_SECRET,
                **locks.broker_settings(port, port),
            }
            broker = kind(directory / f"broker-{number}", port=port, overrides=overrides)
            broker.probe_context = locks.probe_context
            self.brokers[number] = broker
        self.bootstrap = ",".join(broker.bootstrap for broker in self.brokers.values())

    def admin(self, user: str = OPERATOR) -> AdminClient:
        return AdminClient({**self.locks.reach(self.bootstrap, user).librdkafka, "log_level": 0})

    def producer(self, **more: str) -> Producer:
        reach = self.locks.reach(self.bootstrap, CLIENT).librdkafka
        return Producer({**reach, "log_level": 0, **more})

    def is_let_in(self, broker: BrokerProcess, name: str, password: str) -> bool:
        try:
            with Admin(self.locks.reach(broker.bootstrap, name, password).moldau) as admin:
                admin.describe_cluster()
        except SaslAuthenticationError:
            return False
        return True


@contextmanager
def locks_and_exits(directory: Path) -> Iterator[tuple[SecuredCluster, ExitStack]]:
    """A secured ZooKeeper that knows the first users; the stack ends before it does."""
    with secured_zookeeper(directory) as server, ExitStack() as running:
        locks = SecuredCluster(directory, [server.process], [server.secure_port])
        locks.write_first_users()
        yield locks, running


def denial(topic: str, pattern: ResourcePatternType = ResourcePatternType.LITERAL) -> AclBinding:
    """Of the client to write there."""
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        pattern,
        f"User:{CLIENT}",
        "*",
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )


def change_user(
    admin: AdminClient, change: UserScramCredentialUpsertion | UserScramCredentialDeletion
) -> None:
    for done in admin.alter_user_scram_credentials([change]).values():
        done.result(SECONDS_MAX)


def change_setting(
    admin: AdminClient, broker: int, key: str, operation: AlterConfigOpType, value: str | None
) -> None:
    """Of one broker."""
    entry = ConfigEntry(key, value, incremental_operation=operation)
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker), incremental_configs=[entry])
    (done,) = admin.incremental_alter_configs([resource]).values()
    done.result(SECONDS_MAX)
