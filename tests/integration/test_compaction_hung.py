"""A compacting process that hangs, on a real broker: it is ended, nothing is lost, and the log is
compacted later."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from moldau.testing.broker_process import BrokerProcess
from tests.support.eventually import eventually
from tests.support.impatient_cleaner import PATIENCE

ROOT = str(Path(__file__).parents[2])
TOPIC = "states"
KEYS, RECORDS, VALUE_BYTES = 50, 3_000, 1_000
PACE = "log.cleaner.io.max.bytes.per.second"


def children_of(pid: int) -> set[int]:
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        found |= set(map(int, (task / "children").read_text().split()))
    return found


def is_at(directory: Path, pid: int) -> bool:
    """Whether the process has begun: it keeps its claim on the directory open."""
    return directory in (path.resolve() for path in Path(f"/proc/{pid}/fd").iterdir())


def fill(bootstrap: str) -> dict[bytes, bytes]:
    """Enough for a process; the newest value of each key."""
    producer, newest = Producer({"bootstrap.servers": bootstrap, "log_level": 0}), {}
    for number in range(RECORDS):
        key, value = b"key-%d" % (number % KEYS), b"%d " % number + b"x" * VALUE_BYTES
        producer.produce(TOPIC, value, key, partition=0)
        newest[key] = value
    assert producer.flush(60) == 0
    return newest


def read(bootstrap: str) -> dict[bytes, bytes]:
    """The newest value of each key."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: dict[bytes, bytes] = {}
    while (message := consumer.poll(60)) is not None and message.error() is None:
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        assert isinstance(value, bytes)
        found[key] = value
    consumer.close()
    return found


def alter(admin: AdminClient, kind: ResourceType, name: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_a_compacting_process_that_hangs_is_ended_and_its_log_is_compacted_later(
    tmp_path: Path,
) -> None:
    broker = BrokerProcess(
        tmp_path,
        overrides={"log.cleaner.backoff.ms": "100", PACE: "20000"},
        main="tests.support.impatient_cleaner",
        environment={PATIENCE: "3", "PYTHONPATH": ROOT},
    )
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        configs = {"internal.segment.bytes": "1000000", "min.cleanable.dirty.ratio": "0.01"}
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=configs)])[TOPIC].result(30)
        newest = fill(broker.bootstrap)
        # Not before: the first round shall be a large one, which a process does.
        alter(admin, ResourceType.TOPIC, TOPIC, "cleanup.policy", "compact")
        directory = broker.data / f"{TOPIC}-0"
        eventually(lambda: any(map(partial(is_at, directory), children_of(broker.pid))), 60)
        (child,) = children_of(broker.pid)
        os.kill(child, signal.SIGSTOP)
        # Later rounds go as fast as they can.
        alter(admin, ResourceType.BROKER, "0", PACE, "1e12")
        sentence = "its process made no progress for 3 s and was ended"
        eventually(lambda: sentence in broker.log_text, seconds_max=60)
        (line,) = [row for row in broker.log_text.splitlines() if sentence in row]
        assert " WARN " in line
        assert f"cleaning of log {TOPIC}-0 failed" in line
        eventually(lambda: child not in children_of(broker.pid), seconds_max=30)
        eventually(lambda: "cleaned up to offset" in broker.log_text, seconds_max=60)
        assert read(broker.bootstrap) == newest
        assert broker.stop() == 0
        assert not list(directory.glob("*.cleaned"))
        assert "Traceback" not in broker.log_text
    finally:
        broker.kill()
