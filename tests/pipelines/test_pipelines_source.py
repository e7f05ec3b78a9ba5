"""Batch reads on a real SparkSession: the connector's rows, ranges, and what they leave out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from moldau import Admin, NewTopic, Producer, TopicPartition

CONNECTOR_SCHEMA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
    "timestamp:timestamp,timestampType:int>"
)
FIRST_MS = 1_767_225_600_000
ROWS = 300
"""In each of three partitions; a record's timestamp is its offset in seconds after FIRST_MS."""

Name = Callable[[str], str]
Read = Callable[..., Any]


def make_topic(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> str:
    """Records here are old, and must not be deleted for it."""
    kept = {"retention.ms": "-1", **{key.replace("_", "."): text for key, text in configs.items()}}
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions=partitions, configs=kept)]).check()
    return name


@pytest.fixture(scope="module")
def read(spark: Any, bootstrap: str) -> Read:
    def load(**options: Any) -> Any:
        reader = spark.read.format("moldau").option("kafka.bootstrap.servers", bootstrap)
        return reader.options(**options).load()

    return load


@pytest.fixture(scope="module")
def topic(bootstrap: str, fresh_name: Name) -> str:
    name = make_topic(bootstrap, fresh_name("numbers"), partitions=3)
    with Producer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
        for offset in range(ROWS):
            for partition in range(3):
                producer.send(
                    name,
                    f"{partition}:{offset}",
                    partition=partition,
                    timestamp_ms=FIRST_MS + offset * 1000,
                )
    return name


def placed(frame: Any) -> set[tuple[int, int]]:
    return {(row.partition, row.offset) for row in frame.select("partition", "offset").collect()}


def rows_of(partition: int, *offsets: int) -> set[tuple[int, int]]:
    return {(partition, offset) for offset in range(*offsets)}


def whole(*partitions: int) -> set[tuple[int, int]]:
    return set().union(*(rows_of(partition, ROWS) for partition in partitions))


def test_rows_have_the_columns_and_types_of_the_connector(
    read: Read, bootstrap: str, fresh_name: Name
) -> None:
    name = make_topic(bootstrap, fresh_name("columns"))
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(
            name, "value", key="key", timestamp_ms=FIRST_MS, headers=[("h", b"1"), ("n", None)]
        )
        producer.send(name, None, key=None, timestamp_ms=FIRST_MS + 1)
    frame = read(subscribe=name, includeHeaders=True)
    assert frame.schema.simpleString() == (
        CONNECTOR_SCHEMA[:-1] + ",headers:array<struct<key:string,value:binary>>>"
    )
    first, second = frame.orderBy("offset").collect()
    stamp = datetime.fromtimestamp(FIRST_MS / 1000, UTC)
    assert (first.key, first.value, first.topic) == (b"key", b"value", name)
    assert (first.partition, first.offset, first.timestampType) == (0, 0, 0)
    assert first.timestamp.astimezone(UTC) == stamp
    assert [tuple(header) for header in first.headers] == [("h", b"1"), ("n", None)]
    assert (second.key, second.value, second.headers) == (None, None, None)
    assert read(subscribe=name).schema.simpleString() == CONNECTOR_SCHEMA


def test_all_records_are_read_once_with_their_values(read: Read, topic: str) -> None:
    rows = read(subscribe=topic, minPartitions=5).collect()
    assert len(rows) == 3 * ROWS
    assert {row.value for row in rows} == {
        f"{partition}:{offset}".encode() for partition, offset in whole(0, 1, 2)
    }


def test_ranges_of_offsets_end_and_start_in_the_middle_of_batches(read: Read, topic: str) -> None:
    frame = read(
        subscribe=topic,
        startingOffsets=f'{{"{topic}":{{"0":7,"1":-2,"2":299}}}}',
        endingOffsets=f'{{"{topic}":{{"0":11,"1":5,"2":-1}}}}',
    )
    assert placed(frame) == rows_of(0, 7, 11) | rows_of(1, 5) | {(2, 299)}


def test_topics_are_chosen_by_pattern_and_partitions_by_assignment(read: Read, topic: str) -> None:
    assert placed(read(subscribePattern=topic[:-3] + ".*")) == whole(0, 1, 2)
    assert placed(read(assign=f'{{"{topic}":[2]}}')) == whole(2)


def test_ranges_by_timestamp_hold_the_first_record_that_is_not_older(
    read: Read, topic: str
) -> None:
    frame = read(
        subscribe=topic,
        startingTimestamp=FIRST_MS + 99_001,
        endingOffsetsByTimestamp=(
            f'{{"{topic}":{{"0":{FIRST_MS + 102_000},"1":{FIRST_MS},"2":{FIRST_MS * 2}}}}}'
        ),
    )
    assert placed(frame) == rows_of(0, 100, 102) | rows_of(2, 100, ROWS)


def test_tasks_are_as_many_and_as_small_as_asked_for(read: Read, topic: str) -> None:
    assert read(subscribe=topic).rdd.getNumPartitions() == 3
    assert read(subscribe=topic, minPartitions=7).rdd.getNumPartitions() >= 7
    small = read(subscribe=topic, maxRecordsPerPartition=100)
    assert small.rdd.getNumPartitions() == 9
    assert placed(small) == whole(0, 1, 2)


def test_pushed_filters_leave_tasks_and_offsets_out(read: Read, topic: str) -> None:
    frame = read(subscribe=topic)
    narrow = frame.where(f"topic = '{topic}' AND partition IN (0, 2) AND offset BETWEEN 40 AND 49")
    assert placed(narrow) == rows_of(0, 40, 50) | rows_of(2, 40, 50)
    assert narrow.rdd.getNumPartitions() == 2
    # Met by the source: Spark has no filter left to apply.
    assert "Filter (" not in narrow._jdf.queryExecution().executedPlan().toString()
    assert placed(frame.where("topic = 'another'")) == set()
    late = frame.where("timestamp >= timestamp'2026-01-01 00:04:50Z'")
    assert placed(late) == {(p, o) for p in range(3) for o in range(290, ROWS)}
    early = frame.where("timestamp < timestamp'2026-01-01 00:00:02Z'")
    assert placed(early) == {(p, o) for p in range(3) for o in range(2)}


def test_a_filter_by_time_finds_records_that_are_out_of_order(
    read: Read, bootstrap: str, fresh_name: Name
) -> None:
    name = make_topic(bootstrap, fresh_name("disorder"))
    with Producer(bootstrap_servers=bootstrap) as producer:
        for second in (5, 90, 3, 80, 7, 1):
            producer.send(name, str(second), timestamp_ms=FIRST_MS + second * 1000)
            producer.flush()
    frame = read(subscribe=name)
    late = frame.where("timestamp > timestamp'2026-01-01 00:01:20Z'").collect()
    assert [row.value for row in late] == [b"90"]
    early = frame.where("timestamp <= timestamp'2026-01-01 00:00:03Z'").collect()
    assert {row.value for row in early} == {b"3", b"1"}
    assert frame.where("timestamp > timestamp'2026-02-01 00:00:00Z'").count() == 0


def test_log_append_time_and_every_codec_are_read(
    read: Read, bootstrap: str, fresh_name: Name
) -> None:
    name = make_topic(bootstrap, fresh_name("codecs"), message_timestamp_type="LogAppendTime")
    sent = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with Producer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=5) as producer:
            for number in range(20):
                sent.append(f"{codec} {number}".encode() * 9)
                producer.send(name, sent[-1], timestamp_ms=5)
    rows = read(subscribe=name).orderBy("offset").collect()
    assert [row.value for row in rows] == sent
    assert {row.timestampType for row in rows} == {1}
    assert min(row.timestamp for row in rows).year >= 2024


def test_read_committed_leaves_out_what_was_aborted_or_is_open(
    read: Read, bootstrap: str, fresh_name: Name
) -> None:
    name = make_topic(bootstrap, fresh_name("transactions"))
    producer = Producer(bootstrap_servers=bootstrap, transactional_id=name)
    producer.init_transactions()
    for number, ending in enumerate(("commit", "abort", "commit")):
        producer.begin_transaction()
        for _ in range(3):
            producer.send(name, f"{number} {ending}")
        producer.flush()
        if ending == "commit":
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    values = [row.value for row in read(subscribe=name).collect()]
    assert values == [b"0 commit"] * 3 + [b"1 abort"] * 3 + [b"2 commit"] * 3
    producer.begin_transaction()
    producer.send(name, "3 open")
    producer.flush()
    committed = read(subscribe=name, **{"kafka.isolation.level": "read_committed"})
    assert [row.value for row in committed.collect()] == [b"0 commit"] * 3 + [b"2 commit"] * 3
    # A range that holds nothing but a marker and aborted records comes to its end too.
    markers = read(
        subscribe=name,
        startingOffsets=f'{{"{name}":{{"0":3}}}}',
        endingOffsets=f'{{"{name}":{{"0":8}}}}',
        **{"kafka.isolation.level": "read_committed"},
    )
    assert markers.collect() == []
    producer.abort_transaction()
    producer.close()


def test_deleted_records_fail_a_read_or_are_skipped(
    read: Read, bootstrap: str, fresh_name: Name
) -> None:
    name = make_topic(bootstrap, fresh_name("deleted"))
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(10):
            producer.send(name, str(number))
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(name, 0): 6}).check()
    start = f'{{"{name}":{{"0":2}}}}'
    with pytest.raises(
        Exception, match=r"startingOffsets asks for offset 2 .* 6 to 10: records may"
    ):
        read(subscribe=name, startingOffsets=start).collect()
    left = read(subscribe=name, startingOffsets=start, failOnDataLoss=False)
    assert placed(left) == rows_of(0, 6, 10)


def test_an_empty_topic_is_an_empty_frame(read: Read, bootstrap: str, fresh_name: Name) -> None:
    name = make_topic(bootstrap, fresh_name("empty"), partitions=2)
    assert read(subscribe=name).collect() == []
    assert read(subscribePattern="no-such-topic.*").collect() == []
