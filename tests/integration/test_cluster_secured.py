"""Three brokers with every lock, on a ZooKeeper with every lock: what changes is known everywhere.

SASL_SSL for clients and among the brokers, access control lists, log-ins to ZooKeeper over TLS, and
nodes that are the brokers' own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AclBindingFilter,
    AlterConfigOpType,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from moldau.security.password_encoding import PasswordEncoder
from moldau.testing.broker_process import BrokerProcess
from tests.support.eventually import eventually
from tests.support.fire import SETTINGS
from tests.support.secured_brokers import (
    ENCODER_SECRET,
    SecuredBrokers,
    change_setting,
    change_user,
    denial,
    locks_and_exits,
)
from tests.support.secured_cluster import CLIENT, SecuredCluster
from tests.support.secured_zookeeper import looking

SECONDS_MAX = 30
BOB = "bob"
SESSION = {**SETTINGS, "zookeeper.session.timeout.ms": "6000"}


class Secured(SecuredBrokers):
    def __init__(self, directory: Path, locks: SecuredCluster) -> None:
        super().__init__(directory, locks, dict.fromkeys(range(3), BrokerProcess), SESSION)

    def isr(self, topic: str) -> list[int]:
        found = self.admin().list_topics(topic, timeout=SECONDS_MAX).topics[topic]
        return [len(partition.isrs) for partition in found.partitions.values()]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    with locks_and_exits(directory) as (locks, running):
        made = Secured(directory, locks)
        for broker in made.brokers.values():
            running.callback(broker.kill)
            broker.spawn()
        for broker in made.brokers.values():
            broker.wait_until_it_answers()
        admin = made.admin()
        eventually(lambda: len(admin.list_topics(timeout=SECONDS_MAX).brokers) == 3)
        placed = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
        topic = NewTopic("orders", 3, replica_assignment=placed)
        admin.create_topics([topic])["orders"].result(SECONDS_MAX)
        eventually(lambda: made.isr("orders") == [3, 3, 3])
        yield made


def test_transactions_are_written_and_replicated(secured: Secured) -> None:
    producer = secured.producer(**{"transactional.id": "t", "acks": "all"})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    for partition in range(3):
        producer.produce("orders", b"x" * 1000, partition=partition)
    producer.commit_transaction(SECONDS_MAX)
    eventually(lambda: secured.isr("__transaction_state") == [3, 3, 3])


def refusal(producer: Producer, partition: int) -> int:
    """What the leader of the partition says of one record. A producer that was refused believes
    it of the whole topic for a while."""
    told: list[KafkaError | None] = []
    producer.produce("orders", b"?", partition=partition, on_delivery=lambda f, _: told.append(f))
    producer.flush(SECONDS_MAX)
    assert len(told) == 1
    return 0 if told[0] is None else told[0].code()


def seconds_until(checks: list[Callable[[], bool]]) -> float:
    """Until all of them have come true, asked one after the other; printed for people."""
    began = time.monotonic()
    for check in checks:
        eventually(check, SECONDS_MAX)
    return time.monotonic() - began


def test_access_control_lists_reach_every_broker(secured: Secured) -> None:
    admin = secured.admin()
    everyone = [secured.producer(acks="1") for _ in range(3)]
    assert [refusal(each, n) for n, each in enumerate(everyone)] == [0, 0, 0]
    deny = denial("orders")
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    admin.create_acls([deny])[deny].result(SECONDS_MAX)
    took = seconds_until(
        [lambda p=p: refusal(everyone[p], p) == denied for p in range(3)]  # type: ignore[misc]
    )
    print(f"a denial was known to all brokers after {took:.3f} s")
    wanted = AclBindingFilter(*[getattr(deny, name) for name in FIELDS])
    (gone,) = admin.delete_acls([wanted]).values()
    assert gone.result(SECONDS_MAX) == [deny]
    took = seconds_until(
        [lambda p=p: refusal(secured.producer(acks="1"), p) == 0 for p in range(3)]  # type: ignore[misc]
    )
    print(f"its end was known to all brokers after {took:.3f} s")


FIELDS = (
    "restype",
    "name",
    "resource_pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
)


def test_users_and_their_passwords_reach_every_broker(secured: Secured) -> None:
    admin = secured.admin()
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)

    def everywhere(password: str, expected: bool, what: str) -> None:
        took = seconds_until(
            [
                lambda b=b: secured.is_let_in(b, BOB, password) is expected  # type: ignore[misc]
                for b in secured.brokers.values()
            ]
        )
        print(f"{what} was known to all brokers after {took:.3f} s")

    assert not secured.is_let_in(secured.brokers[0], BOB, "first")
    change_user(admin, UserScramCredentialUpsertion(BOB, info, b"first"))
    everywhere("first", True, "a user")
    change_user(admin, UserScramCredentialUpsertion(BOB, info, b"second"))
    everywhere("second", True, "another password")
    everywhere("first", False, "the end of the first")
    change_user(admin, UserScramCredentialDeletion(BOB, ScramMechanism.SCRAM_SHA_512))
    everywhere("second", False, "the end of the user")


def test_the_log_of_a_stopped_broker_is_repaired_from_secured_ones(
    secured: Secured, tmp_path: Path
) -> None:
    rolls = {"internal.segment.bytes": "3000"}
    topic = NewTopic("scrubbed", 1, replica_assignment=[[0, 1, 2]], config=rolls)
    admin = secured.admin()
    admin.create_topics([topic])["scrubbed"].result(SECONDS_MAX)
    producer = secured.producer(acks="all")
    for _ in range(20):
        producer.produce("scrubbed", b"x" * 1000)
        producer.flush(SECONDS_MAX)
    eventually(lambda: secured.isr("scrubbed") == [3])
    broker = secured.brokers[2]
    broker.stop()
    log = min((broker.data / "scrubbed-0").glob("*.log"))
    whole = log.read_bytes()
    log.write_bytes(whole[:500] + b"?" + whole[501:])
    reach = secured.locks.reach(secured.bootstrap, CLIENT).moldau
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in reach.items()))
    words = [sys.executable, "-m", "moldau.main", "log-scrub", "--log-dir", str(broker.data)]
    words += ["--topic", "scrubbed", "--repair", "--bootstrap-server", secured.brokers[0].bootstrap]
    for more, code in (([], 3), (["--command-config", str(file)], 0)):
        done = subprocess.run([*words, *more], capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stdout + done.stderr
    assert log.read_bytes() == whole
    broker.start()
    eventually(lambda: secured.isr("scrubbed") == [3])


def test_a_password_that_is_set_at_run_time_is_encrypted_in_zookeeper(secured: Secured) -> None:
    key = "listener.name.sasl_ssl.ssl.key.password"
    admin = secured.admin()

    change_setting(admin, 1, key, AlterConfigOpType.SET, "dyn4mic")
    with looking(secured.locks.access) as tree:
        data, _ = tree.get("/config/brokers/1")
    assert b"dyn4mic" not in data and b"encryptedPassword:" in data
    text = json.loads(data)["config"][key]
    assert PasswordEncoder(ENCODER_SECRET, bytes).decode(text) == "dyn4mic"
    assert "dyn4mic" not in "".join(broker.log_text for broker in secured.brokers.values())
    change_setting(admin, 1, key, AlterConfigOpType.DELETE, None)
