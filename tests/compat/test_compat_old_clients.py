"""Clients that speak as those of 0.8.2, 0.9 and 0.10 did: kafka-python, told so by `api_version`.

MOLDAU_TEST_BOOTSTRAP points the tests at another broker. Apache Kafka 3.9.1 passes them; 4.x does
not, because it has dropped these formats.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

with warnings.catch_warnings():
    # The library reads its own data files in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as PythonTopicPartition
    from kafka.structs import OffsetAndMetadata

VERSIONS = [(0, 8, 2), (0, 9), (0, 10), (0, 10, 2)]
STAMPED_SINCE = (0, 10)
CODECS = [None, "gzip", "snappy", "lz4"]
SECONDS_MAX = 30
NOW_MS = int(time.time() * 1000) - 10_000


class Row(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def create(bootstrap: str, topic: str, **configs: str) -> None:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, 1, 1, config=named)]).values():
        future.result(SECONDS_MAX)


@contextmanager
def producer(bootstrap: str, version: tuple[int, ...], codec: str | None) -> Iterator[Any]:
    made = KafkaProducer(
        bootstrap_servers=[bootstrap],
        api_version=version,
        compression_type=codec,
        linger_ms=20,
        enable_idempotence=False,
    )
    try:
        yield made
    finally:
        made.close(timeout=SECONDS_MAX)


def produce(bootstrap: str, version: tuple[int, ...], codec: str | None, topic: str) -> list[Row]:
    """What must come back, at the offsets that were answered."""
    stamp = NOW_MS if version >= STAMPED_SINCE else None
    rows = []
    with producer(bootstrap, version, codec) as made:
        futures = []
        for number in range(30):
            key = None if number % 3 == 0 else b"key %d" % number
            value = None if number % 7 == 6 and key is not None else b"value %d " % number * 9
            when = None if stamp is None else stamp + number
            futures.append(
                (made.send(topic, value, key, timestamp_ms=when, partition=0), key, value)
            )
        made.flush(timeout=SECONDS_MAX)
        for number, (future, key, value) in enumerate(futures):
            offset = future.get(timeout=SECONDS_MAX).offset
            rows.append(Row(offset, -1 if stamp is None else stamp + number, key, value))
    return rows


def consume(
    bootstrap: str,
    version: tuple[int, ...] | None,
    topic: str,
    count: int,
    offset: int = 0,
    seconds_max: float = SECONDS_MAX,
) -> list[Row]:
    options: dict[str, Any] = {} if version is None else {"api_version": version}
    consumer = KafkaConsumer(
        bootstrap_servers=[bootstrap], group_id=None, enable_auto_commit=False, **options
    )
    rows: list[Row] = []
    try:
        place = PythonTopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, offset)
        deadline = time.monotonic() + seconds_max
        while len(rows) < count and time.monotonic() < deadline:
            for messages in consumer.poll(timeout_ms=500).values():
                for each in messages:
                    stamp = -1 if each.timestamp is None else each.timestamp
                    rows.append(Row(each.offset, stamp, each.key, each.value))
    finally:
        consumer.close()
    return rows


def consume_by_librdkafka(bootstrap: str, topic: str, count: int) -> list[Row]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    rows: list[Row] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(rows) < count and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            kind, stamp = message.timestamp()
            key, value = message.key(), message.value()
            rows.append(Row(message.offset() or 0, stamp if kind else -1, key, value))
    consumer.close()
    return rows


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_old_clients_write_and_read_in_every_codec_that_they_know(
    version: tuple[int, ...], codec: str | None, bootstrap: str, new_name: Callable[[str], str]
) -> None:
    if codec == "lz4" and version < STAMPED_SINCE:
        pytest.skip("kafka-python needs another package for lz4 as it was then")
    topic = new_name("old")
    create(bootstrap, topic)
    rows = produce(bootstrap, version, codec, topic)
    assert [row.offset for row in rows] == list(range(len(rows)))
    unstamped = [row._replace(timestamp=-1) for row in rows]
    is_stamped = version >= STAMPED_SINCE
    assert consume(bootstrap, version, topic, len(rows)) == (rows if is_stamped else unstamped)
    if codec != "lz4":
        assert consume(bootstrap, (0, 9), topic, len(rows)) == unstamped
    assert consume(bootstrap, (0, 10), topic, len(rows)) == rows
    assert consume(bootstrap, None, topic, len(rows)) == rows
    assert consume_by_librdkafka(bootstrap, topic, len(rows)) == rows
    assert consume(bootstrap, version, topic, 5, offset=25)[0].offset == 25


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_old_consumers_read_what_new_producers_write_and_see_no_headers_or_markers(
    codec: str, bootstrap: str, new_name: Callable[[str], str]
) -> None:
    topic = new_name("new")
    create(bootstrap, topic)
    writer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "transactional.id": topic,
            "linger.ms": 20,
        }
    )
    writer.init_transactions(SECONDS_MAX)
    for number in range(4):
        writer.begin_transaction()
        for part in range(10):
            value = f"{number}.{part} ".encode() * 20
            headers = [("h", b"x")]
            writer.produce(topic, value, b"key", timestamp=NOW_MS + part, headers=headers)
        if number == 1:
            writer.flush(SECONDS_MAX)
            writer.abort_transaction(SECONDS_MAX)
        else:
            writer.commit_transaction(SECONDS_MAX)
    for version in VERSIONS if codec != "lz4" else VERSIONS[2:]:
        rows = consume(bootstrap, version, topic, 40)
        # Old consumers know nothing of transactions: they see the aborted one, too.
        assert [row.offset for row in rows] == [
            n * 11 + part for n in range(4) for part in range(10)
        ]
        assert rows[23].value == b"2.3 " * 20
        assert rows[23].timestamp == (NOW_MS + 3 if version >= STAMPED_SINCE else -1)


@pytest.mark.parametrize("version", [(0, 9), (0, 10), (0, 10, 2)], ids=str)
def test_old_consumers_share_a_topic_in_a_group_and_go_on_where_they_stopped(
    version: tuple[int, ...], bootstrap: str, new_name: Callable[[str], str]
) -> None:
    topic, group = new_name("grouped"), new_name("group")
    create(bootstrap, topic)

    def read(count: int) -> list[bytes | None]:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=[bootstrap],
            api_version=version,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=10,
        )
        found: list[bytes | None] = []
        deadline = time.monotonic() + SECONDS_MAX
        while len(found) < count and time.monotonic() < deadline:
            for messages in consumer.poll(timeout_ms=500, max_records=10).values():
                found += [each.value for each in messages]
        consumer.commit()
        consumer.close()
        return found

    rows = produce(bootstrap, version, "gzip", topic)
    assert read(10) == [row.value for row in rows[:10]]
    assert read(20) == [row.value for row in rows[10:]]


def test_the_oldest_consumers_keep_their_positions_at_the_broker(
    bootstrap: str, new_name: Callable[[str], str]
) -> None:
    topic, group = new_name("positions"), new_name("group")
    create(bootstrap, topic)
    place = PythonTopicPartition(topic, 0)
    options = {"bootstrap_servers": [bootstrap], "group_id": group, "api_version": (0, 8, 2)}
    first = KafkaConsumer(enable_auto_commit=False, **options)
    first.assign([place])
    first.commit({place: OffsetAndMetadata(17, "so far", -1)})
    first.close()
    second = KafkaConsumer(enable_auto_commit=False, **options)
    assert second.committed(place) == 17
    second.close()


def test_places_by_time_are_told_as_old_clients_ask(
    bootstrap: str, new_name: Callable[[str], str]
) -> None:
    topic = new_name("places")
    create(bootstrap, topic)
    rows = produce(bootstrap, (0, 10), None, topic)
    place = PythonTopicPartition(topic, 0)
    for version in VERSIONS:
        consumer = KafkaConsumer(bootstrap_servers=[bootstrap], group_id=None, api_version=version)
        assert consumer.beginning_offsets([place]) == {place: 0}
        assert consumer.end_offsets([place]) == {place: len(rows)}
        consumer.close()
