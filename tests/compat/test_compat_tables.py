"""Topics of Apache Kafka as tables: the same rows as a foreign consumer gets."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow.dataset as ds
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import moldau
from moldau.tables.sql_session import SqlSession
from tests.support.apache_kafka import ApacheKafka

pytestmark = pytest.mark.compat

TOPIC = "orders"
ROWS = 2_000
WAIT_SECONDS = 120


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka") / "broker") as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(WAIT_SECONDS)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            fill(running.bootstrap, codec)
        yield running.bootstrap


def fill(bootstrap: str, codec: str) -> None:
    """A transaction that is committed, and one that is aborted."""
    settings = {"bootstrap.servers": bootstrap, "compression.type": codec}
    producer = Producer({**settings, "transactional.id": codec})
    producer.init_transactions(WAIT_SECONDS)
    for is_committed in (True, False):
        producer.begin_transaction()
        for number in range(ROWS // 5):
            producer.produce(
                TOPIC,
                f"{codec} {is_committed} {number}",
                None if number % 9 == 0 else f"key {number % 50}",
                partition=number % 2,
                headers=[("codec", codec.encode()), ("none", None)] if number % 4 == 0 else [],
            )
            producer.poll(0)
        producer.flush(WAIT_SECONDS)
        if is_committed:
            producer.commit_transaction(WAIT_SECONDS)
        else:
            producer.abort_transaction(WAIT_SECONDS)


def by_confluent(bootstrap: str) -> list[tuple[object, ...]]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "peer", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in (0, 1)])
    found = []
    while len(found) < ROWS:
        messages = consumer.consume(ROWS - len(found), 60)
        assert messages, f"only {len(found)} records came"
        for each in messages:
            headers = [{"key": key, "value": value} for key, value in each.headers() or ()]
            place = (each.partition(), each.offset(), each.timestamp()[1])
            found.append((*place, each.key(), each.value(), headers))
    consumer.close()
    return sorted(found, key=lambda row: row[:2])


def test_a_table_has_what_a_foreign_consumer_gets(kafka: str) -> None:
    rows = moldau.table(TOPIC, bootstrap=kafka).arrow().to_pylist()
    found = sorted(
        (
            (
                row["partition"],
                row["offset"],
                round(row["timestamp"].timestamp() * 1000),
                row["key"],
                row["value"],
                row["headers"],
            )
            for row in rows
        ),
        key=lambda row: row[:2],
    )
    assert found == by_confluent(kafka)


def test_filters_moments_and_sql_work_there_too(kafka: str) -> None:
    table = moldau.table(TOPIC, bootstrap=kafka)
    connection = duckdb.connect()
    connection.register("orders", table.dataset())
    [(count, least)] = connection.sql(
        'select count(*), min("offset") from orders where partition = 1 and "offset" >= 100'
    ).fetchall()
    assert least >= 100
    assert 0 < count < ROWS // 2
    vector = table.offsets()
    assert table.as_of(vector).arrow().num_rows == ROWS
    assert table.as_of(0).arrow().num_rows == 0
    newest = moldau.table(TOPIC, bootstrap=kafka, latest=True).arrow()
    keys = list(zip(newest["partition"].to_pylist(), newest["key"].to_pylist(), strict=True))
    assert len(keys) == len(set(keys)) == 50
    assert table.filter(ds.field("value") == b"zstd False 1").arrow().num_rows == 0
    session = SqlSession({"bootstrap.servers": kafka})
    answer = session.ask("select partitions from topics where topic = 'orders'").read_all()
    assert answer.to_pylist() == [{"partitions": 2}]
    session.close()
