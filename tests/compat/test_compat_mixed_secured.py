"""A secured Apache Kafka 3.9.1 and a secured Moldau are one cluster on one secured ZooKeeper.

SASL_SSL for clients and between the brokers, log-ins to ZooKeeper over TLS, nodes that belong to
the brokers. Users, access control lists and passwords that one writes are obeyed and read by the
other.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kazoo.client import KazooClient

from moldau.metadata.zookeeper_access import new_client
from moldau.security.password_encoding import PasswordEncoder
from moldau.testing.broker_process import BrokerProcess
from tests.support.apache_kafka_39 import java39_command
from tests.support.eventually import eventually
from tests.support.mixed_cluster import SETTINGS, Kafka39Process, with_heap
from tests.support.secured_brokers import (
    ENCODER_SECRET,
    SecuredBrokers,
    change_setting,
    change_user,
    denial,
    locks_and_exits,
)
from tests.support.secured_cluster import CLIENT, SecuredCluster
from tests.support.secured_zookeeper import looking, put

pytestmark = pytest.mark.compat

APACHE, MOLDAU = 1, 3
SECONDS_MAX = 60
STORE_PASSWORD = "stores-own"
KEY = "listener.name.sasl_ssl.ssl.keystore.password"


class SecuredKafka39(Kafka39Process):
    def spawn(self) -> None:
        """As any other, and a flag names the JAAS file."""
        assert self.process is None
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        java, *rest = java39_command("kafka.Kafka", self.directory, "INFO")
        jaas = self.settings["java.security.auth.login.config"]
        flag = f"-Djava.security.auth.login.config={jaas}"
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [java, flag, *with_heap(rest), str(file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def start(self) -> None:
        self.spawn()
        self.wait_until_it_answers()


class Mixed(SecuredBrokers):
    def __init__(self, directory: Path, locks: SecuredCluster) -> None:
        settings = {
            **SETTINGS,
            "offsets.topic.replication.factor": "2",
            "transaction.state.log.replication.factor": "2",
            "zookeeper.ssl.protocol": "TLSv1.3",
            # On a busy machine Apache Kafka needs longer than a session lasts.
            "zookeeper.connection.timeout.ms": "60000",
        }
        super().__init__(
            directory, locks, {APACHE: SecuredKafka39, MOLDAU: BrokerProcess}, settings
        )
        self.tree: KazooClient = new_client(locks.access)

    def lock_apaches_store(self, directory: Path) -> None:
        """Its password stands in ZooKeeper alone, encrypted as Moldau does it."""
        keys = self.locks.issue_store(directory / "apache.p12", STORE_PASSWORD)
        self.brokers[APACHE].settings["ssl.keystore.location"] = keys
        self.brokers[APACHE].settings["ssl.keystore.type"] = "PKCS12"
        text = PasswordEncoder(ENCODER_SECRET, os.urandom).encode(STORE_PASSWORD)
        node = json.dumps({"version": 1, "config": {KEY: text}}).encode()
        put(self.tree, f"/config/brokers/{APACHE}", node)

    def put_in_office(self, number: int) -> None:
        """The other one is started anew, if it holds the office."""
        (other,) = self.brokers.keys() - {number}
        if self.controller() == other:
            self.brokers[other].stop()
            eventually(lambda: self.controller() == number, SECONDS_MAX)
            self.brokers[other].start()
        admin = self.admin()
        eventually(lambda: len(admin.list_topics(timeout=SECONDS_MAX).brokers) == 2, SECONDS_MAX)
        eventually(
            lambda: admin.list_topics(timeout=SECONDS_MAX).controller_id == number, SECONDS_MAX
        )
        self.until_in_sync()

    def controller(self) -> int:
        if self.tree.exists("/controller") is None:
            return -1
        return int(json.loads(self.tree.get("/controller")[0])["brokerid"])

    def until_in_sync(self) -> None:
        def is_so() -> bool:
            return all(
                len(json.loads(self.tree.get(f"{PARTITIONS}/{n}/state")[0])["isr"]) == 2
                for n in range(2)
            )

        eventually(is_so, SECONDS_MAX)


PARTITIONS = "/brokers/topics/orders/partitions"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    directory = tmp_path_factory.mktemp("mixed-secured")
    with locks_and_exits(directory) as (locks, running):
        made = Mixed(directory, locks)
        made.tree.start()
        running.callback(made.tree.close)
        running.callback(made.tree.stop)
        made.lock_apaches_store(directory)
        for broker in made.brokers.values():
            running.callback(broker.kill)
            broker.start()
        admin = made.admin()
        eventually(lambda: len(admin.list_topics(timeout=SECONDS_MAX).brokers) == 2, SECONDS_MAX)
        topic = NewTopic("orders", 2, replica_assignment=[[APACHE, MOLDAU], [MOLDAU, APACHE]])
        admin.create_topics([topic])["orders"].result(SECONDS_MAX)
        made.until_in_sync()
        yield made


def log_bytes(mixed: Mixed, number: int, partition: int) -> bytes:
    folder = mixed.brokers[number].data / f"orders-{partition}"
    return b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))


def test_each_replicates_the_other_to_the_byte_and_transactions_span_both(mixed: Mixed) -> None:
    producer = mixed.producer(**{"transactional.id": "t"})
    producer.init_transactions(SECONDS_MAX)
    for _ in range(5):
        producer.begin_transaction()
        for partition in range(2):
            for number in range(20):
                producer.produce("orders", str(number).encode() * 50, partition=partition)
        producer.commit_transaction(SECONDS_MAX)
    for partition in range(2):

        def agree(partition: int = partition) -> bool:
            logs = {log_bytes(mixed, number, partition) for number in mixed.brokers}
            return len(logs) == 1 and b"" not in logs

        eventually(agree, SECONDS_MAX)
    reach = mixed.locks.reach(mixed.bootstrap, CLIENT).librdkafka
    consumer = Consumer({**reach, "group.id": "g", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition("orders", partition, 0) for partition in range(2)])
    found = 0
    while found < 200:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None and message.error() is None
        found += 1
    consumer.close()


@pytest.mark.parametrize("writer", [APACHE, MOLDAU], ids=["apache", "moldau"])
def test_what_one_writes_about_users_and_rights_the_other_obeys(mixed: Mixed, writer: int) -> None:
    mixed.put_in_office(writer)
    admin, name = mixed.admin(), f"user-of-{writer}"
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change_user(admin, UserScramCredentialUpsertion(name, info, b"pw"))
    for broker in mixed.brokers.values():
        eventually(lambda b=broker: mixed.is_let_in(b, name, "pw"), SECONDS_MAX)  # type: ignore[misc]
    for pattern in (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED):
        deny = denial("orders", pattern)
        admin.create_acls([deny])[deny].result(SECONDS_MAX)
        for partition in range(2):
            eventually(lambda p=partition: is_denied(mixed, p), SECONDS_MAX)  # type: ignore[misc]
        only = AclBindingFilter(ResourceType.TOPIC, "orders", pattern, *deny_fields(deny))
        (gone,) = admin.delete_acls([only]).values()
        assert gone.result(SECONDS_MAX) == [deny]
        for partition in range(2):
            eventually(lambda p=partition: not is_denied(mixed, p), SECONDS_MAX)  # type: ignore[misc]
    change_user(admin, UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_512))
    for broker in mixed.brokers.values():
        eventually(lambda b=broker: not mixed.is_let_in(b, name, "pw"), SECONDS_MAX)  # type: ignore[misc]


LINE = re.compile(
    r"INFO (Principal = \S+ is Denied) [oO]peration = (\w+) (from host = \S+ on resource = \S+ "
    r"for request = \w+ with resourceRefCount = \d+)( based on rule .*)? \(kafka\.authorizer\."
)


def denials(broker: BrokerProcess) -> dict[tuple[str, str, str], bool]:
    """What the audit log tells, and whether it tells the rule."""
    return {
        (who, operation.replace("_", "").lower(), rest): rule is not None
        for who, operation, rest, rule in (
            found.groups() for found in LINE.finditer(broker.log_text)
        )
    }


def test_both_write_the_same_line_about_a_denial(mixed: Mixed) -> None:
    """Apart from the case of a word and Moldau's rule, which Apache Kafka has since 4.0."""
    admin, deny = mixed.admin(), denial("orders")
    admin.create_acls([deny])[deny].result(SECONDS_MAX)
    for partition in range(2):
        eventually(lambda p=partition: is_denied(mixed, p), SECONDS_MAX)  # type: ignore[misc]
    line = (
        f"Principal = User:{CLIENT} is Denied",
        "write",
        "from host = 127.0.0.1 on resource = Topic:LITERAL:orders for request = Produce with "
        "resourceRefCount = 1",
    )
    assert denials(mixed.brokers[APACHE])[line] is False
    assert denials(mixed.brokers[MOLDAU])[line] is True
    only = AclBindingFilter(
        ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, *deny_fields(deny)
    )
    (gone,) = admin.delete_acls([only]).values()
    assert gone.result(SECONDS_MAX) == [deny]


def deny_fields(deny: AclBinding) -> tuple[str, str, AclOperation, AclPermissionType]:
    return deny.principal, deny.host, deny.operation, deny.permission_type


def is_denied(mixed: Mixed, partition: int) -> bool:
    """By the leader of the partition."""
    told: list[KafkaError | None] = []
    producer = mixed.producer()
    try:
        producer.produce(
            "orders", b"?", partition=partition, on_delivery=lambda f, _: told.append(f)
        )
    except KafkaException as fault:
        told.append(fault.args[0])
    producer.flush(SECONDS_MAX)
    (fault,) = told
    assert fault is None or fault.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, fault
    return fault is not None


def test_a_password_that_apache_kafka_encrypts_is_read_by_moldau(mixed: Mixed) -> None:
    # That the broker of Apache Kafka runs at all shows the other way: its key store has a
    # password, which stands in ZooKeeper alone, as Moldau has encrypted it.
    admin = mixed.admin()
    before = mixed.tree.get(f"/config/brokers/{APACHE}")[0]
    change_setting(admin, APACHE, KEY, AlterConfigOpType.SET, STORE_PASSWORD)
    eventually(lambda: mixed.tree.get(f"/config/brokers/{APACHE}")[0] != before, SECONDS_MAX)
    text = json.loads(mixed.tree.get(f"/config/brokers/{APACHE}")[0])["config"][KEY]
    assert PasswordEncoder(ENCODER_SECRET, bytes).decode(text) == STORE_PASSWORD


def test_both_own_the_nodes_that_either_has_made(mixed: Mixed) -> None:
    with looking(mixed.locks.access) as tree:
        for path in ("/brokers/topics/orders", "/config/users", f"/brokers/ids/{APACHE}"):
            owners = {(acl.id.scheme, acl.id.id) for acl in tree.get_acls(path)[0]}
            assert ("sasl", "kafka") in owners, path
            assert (("world", "anyone") in owners) is not path.startswith("/config/users")
