"""kill -9 in the middle of a topic's first compaction, on real processes: no key is lost. The topic
is compacted by its own setting, which a start must know before it looks at the gaps in its log."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.broker_process import BrokerProcess
from moldau.testing.zookeeper_process import zookeeper
from tests.support.eventually import eventually

SETTINGS = {
    "log.cleaner.backoff.ms": "50",
    # A round in a thread reads at this pace, so that the kill meets the middle of it.
    "log.cleaner.io.max.bytes.per.second": "400000",
}
RECORDS, KEYS = 4_000, 100
TOPIC = "states"


@pytest.fixture(params=["alone", "on ZooKeeper"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrokerProcess]:
    with contextlib.ExitStack() as stack:
        settings = dict(SETTINGS)
        if request.param != "alone":
            # Its one broker coordinates groups too: a client that is closed waits for that.
            settings["offsets.topic.replication.factor"] = "1"
            settings["zookeeper.session.timeout.ms"] = "4000"
            settings["zookeeper.connect"] = stack.enter_context(zookeeper(tmp_path / "zk")).connect
        broker = BrokerProcess(tmp_path / "broker", overrides=settings)
        stack.callback(broker.kill)
        yield broker


def create_compacted(bootstrap: str) -> None:
    configs = {"cleanup.policy": "compact", "internal.segment.bytes": "20000"}
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=configs)])[TOPIC].result(30)


def fill(bootstrap: str) -> dict[bytes, bytes]:
    """One record a batch, all acknowledged; the newest value of each key."""
    options = {"bootstrap.servers": bootstrap, "log_level": 0, "batch.num.messages": 1}
    producer, newest = Producer({**options, "acks": "all"}), {}
    for i in range(RECORDS):
        key, value = b"key-%d" % (i % KEYS), b"%d" % i
        producer.produce(TOPIC, value, key, partition=0)
        newest[key] = value
        if i % 1000 == 0:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0
    return newest


def read(bootstrap: str) -> dict[bytes, bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "log_level": 0,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: dict[bytes, bytes] = {}
    while (message := consumer.poll(60)) is not None and message.error() is None:
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        assert isinstance(value, bytes)
        found[key] = value
    consumer.close()
    return found


def test_a_compacted_topic_survives_a_kill_in_its_first_compaction(broker: BrokerProcess) -> None:
    broker.settings["log.cleaner.enable"] = "false"
    broker.start()
    create_compacted(broker.bootstrap)
    newest = fill(broker.bootstrap)
    # Killed, not stopped: there is no recovery point on disk.
    broker.kill()
    broker.settings["log.cleaner.enable"] = "true"
    broker.start()
    directory = broker.data / f"{TOPIC}-0"

    def has_begun() -> bool:
        return any(name.endswith(".log.deleted") for name in os.listdir(directory))

    eventually(has_begun)
    broker.kill()
    assert "cleaned up to offset" not in broker.log_text, "the round was over before the kill"
    broker.start()
    assert read(broker.bootstrap) == newest
    eventually(lambda: "cleaned up to offset" in broker.log_text)
    assert read(broker.bootstrap) == newest
