"""Records deleted from the front of a partition, and kill -9. As with Apache Kafka, DeleteRecords
is for good once log-start-offset-checkpoint has it; until then a kill may bring the records back,
all of them as they were. What is not deleted is never touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from moldau.testing.broker_process import BrokerProcess
from tests.support.eventually import eventually

TOPIC, RECORDS, START = "front", 500, 300


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "broker", overrides={"num.partitions": "1"})
    yield broker
    broker.kill()


def fill_and_delete(broker: BrokerProcess) -> None:
    client = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    producer = Producer({**client, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(TOPIC, f"{number}")
    assert producer.flush(60) == 0
    admin = AdminClient(client)
    [answer] = admin.delete_records([TopicPartition(TOPIC, 0, START)]).values()
    assert answer.result(60).low_watermark == START


def values(bootstrap: str) -> list[tuple[int, bytes]]:
    options = {"group.id": "g", "log_level": 0, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, **options, "auto.offset.reset": "error"})
    start, _ = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=60)
    consumer.assign([TopicPartition(TOPIC, 0, start)])
    found: list[tuple[int, bytes]] = []
    while (message := consumer.poll(60)) is not None and message.error() is None:
        offset, value = message.offset(), message.value()
        assert isinstance(offset, int)
        assert isinstance(value, bytes)
        found.append((offset, value))
    consumer.close()
    return found


ALL = [(number, b"%d" % number) for number in range(RECORDS)]


def test_records_that_were_deleted_stay_so_once_the_checkpoint_has_it(
    broker: BrokerProcess,
) -> None:
    broker.settings["log.flush.offset.checkpoint.interval.ms"] = "100"
    broker.start()
    fill_and_delete(broker)
    path = broker.data / "log-start-offset-checkpoint"
    eventually(lambda: path.exists() and f"{TOPIC} 0 {START}\n" in path.read_text())
    broker.kill()
    broker.start()
    assert values(broker.bootstrap) == ALL[START:]


def test_records_that_were_just_deleted_may_come_back_and_none_else_goes(
    broker: BrokerProcess,
) -> None:
    broker.start()
    fill_and_delete(broker)
    broker.kill()
    broker.start()
    assert values(broker.bootstrap) == ALL
