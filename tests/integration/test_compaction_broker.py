"""A real broker compacts while it is used: the coordinators' own topics, and kills in between."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from moldau.testing.broker_process import BrokerProcess
from tests.support.eventually import eventually

SETTINGS = {
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "num.partitions": "3",
    # Many small segments.
    "log.roll.ms": "50",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "0",
}
COMMITS = 300
TRANSACTIONS = 60
LARGE_RECORDS = 5_000
KEYS = 40


@pytest.fixture
def broker(tmp_path: Path) -> BrokerProcess:
    return BrokerProcess(tmp_path / "broker", overrides=SETTINGS)


def cleaned(broker: BrokerProcess, topic: str) -> int:
    """How far the cleaner says it got."""
    ends = re.findall(rf"Log {topic}-0 cleaned up to offset (\d+)", broker.log_text)
    return int(ends[-1]) if ends else 0


def children(pid: int) -> list[int]:
    paths = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in paths for child in path.read_text().split()]


def read_all(bootstrap: str, topic: str) -> dict[bytes, bytes]:
    """The newest value of each key."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    partition = TopicPartition(topic, 0, 0)
    end = consumer.get_watermark_offsets(partition, timeout=30)[1]
    consumer.assign([partition])
    found: dict[bytes, bytes] = {}
    offset: int | None = -1
    while offset is not None and offset < end - 1:
        message = consumer.poll(30)
        assert message is not None, "the log ended early"
        assert message.error() is None
        key, value, offset = message.key(), message.value(), message.offset()
        assert isinstance(key, bytes)
        assert isinstance(value, bytes)
        found[key] = value
    consumer.close()
    return found


def knows_coordinator(consumer: Consumer) -> bool:
    try:
        consumer.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
    except KafkaException:
        return False
    return True


def test_coordinators_load_what_compaction_left(broker: BrokerProcess) -> None:
    broker.start()
    try:
        client = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        first = Producer(client)
        first.produce("t", "makes the topic")
        assert first.flush(30) == 0
        consumer = Consumer({**client, "group.id": "g", "enable.auto.commit": False})
        eventually(lambda: knows_coordinator(consumer))
        for i in range(COMMITS):
            consumer.commit(offsets=[TopicPartition("t", i % 3, i)], asynchronous=False)
        producer = Producer({**client, "transactional.id": "x", "linger.ms": 0})
        producer.init_transactions(30)
        for i in range(TRANSACTIONS):
            producer.begin_transaction()
            producer.produce("t", f"{i}", f"k{i % 5}")
            if i % 3:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
        last = TopicPartition("t", (COMMITS - 1) % 3, COMMITS - 1)

        def is_compacted() -> bool:
            # A segment is rolled by the next write: on a fast machine all went into the first.
            consumer.commit(offsets=[last], asynchronous=False)
            producer.begin_transaction()
            producer.produce("t", "one more", "k")
            producer.commit_transaction(30)
            return (
                cleaned(broker, "__consumer_offsets") > COMMITS // 2
                and cleaned(broker, "__transaction_state") > TRANSACTIONS
            )

        eventually(is_compacted, seconds_max=30)
        broker.kill()
        broker.start()
        found = consumer.committed([TopicPartition("t", p) for p in range(3)], timeout=30)
        assert [each.offset for each in found] == [COMMITS - 3, COMMITS - 2, COMMITS - 1]
        producer.begin_transaction()
        producer.produce("t", "after", "k")
        producer.commit_transaction(30)
        consumer.close()
        assert "is not compacted from now on" not in broker.log_text
        assert "Traceback" not in broker.log_text
    finally:
        broker.kill()


def test_the_compacting_process_goes_with_its_broker_and_nothing_is_lost(
    broker: BrokerProcess,
) -> None:
    broker.settings["log.cleanup.policy"] = "compact"
    broker.settings["num.partitions"] = "1"
    broker.settings["log.segment.bytes"] = str(1 << 20)
    broker.settings["log.cleaner.enable"] = "false"
    broker.start()
    try:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        newest: dict[bytes, bytes] = {}
        for i in range(LARGE_RECORDS):
            key, value = b"%d" % (i % KEYS), b"%d" % i + bytes(1000)
            producer.produce("large", value, key)
            newest[key] = value
            if i % 500 == 0:
                assert producer.flush(30) == 0
        assert producer.flush(30) == 0
        assert broker.stop() == 0
        broker.settings["log.cleaner.enable"] = "true"
        broker.settings["log.cleaner.io.max.bytes.per.second"] = "100000"
        broker.start()
        eventually(lambda: bool(children(broker.pid)))
        [child] = children(broker.pid)
        broker.kill()
        eventually(lambda: not Path(f"/proc/{child}").exists())
        del broker.settings["log.cleaner.io.max.bytes.per.second"]
        broker.start()
        eventually(lambda: cleaned(broker, "large") > LARGE_RECORDS // 2)
        eventually(lambda: not children(broker.pid))
        assert read_all(broker.bootstrap, "large") == newest
        kept = (broker.data / "large-0").glob("*.log")
        assert sum(path.stat().st_size for path in kept) < LARGE_RECORDS * 1000 // 2
        assert not list((broker.data / "large-0").glob("*.cleaned"))
        assert "failed" not in broker.log_text
        assert broker.stop() == 0
    finally:
        broker.kill()
