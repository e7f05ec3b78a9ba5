"""Frames to topics, at least once and exactly once, on a real SparkSession and broker."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau import Admin, TopicPartition
from moldau.client.shared.client_errors import KafkaError
from moldau.pipelines import Kafka
from moldau.pipelines.kafka import Selection
from moldau.pipelines.sink.batch_markers import Marker, find_last
from moldau.pipelines.sink.exactly_once_sink import ExactlyOnceSink, plans_in
from moldau.pipelines.sink.sink_options import SinkError, parse_sink_options
from moldau.pipelines.sink.sink_plan import check_topic, plan
from moldau.pipelines.sink.sink_transaction import PipelineTransactions
from moldau.records.partitioner import partition_for_key
from tests.support.pipeline_world import make_topic, read_committed, send

Name = Callable[[str], str]


@pytest.fixture
def topics(bootstrap: str, fresh_name: Name) -> tuple[str, str]:
    """Where a pipeline reads and where it writes."""
    source = make_topic(bootstrap, fresh_name("in"), 2)
    return source, make_topic(bootstrap, fresh_name("out"), 3)


def words_counted(k: Kafka, source: str, **options: Any) -> Any:
    from pyspark.sql import functions as F

    lines = k.stream(source, startingOffsets="earliest", **options)
    words = lines.select(F.explode(F.split(F.col("value").cast("string"), " ")).alias("word"))
    return words.groupBy("word").count()


def test_a_batch_is_written_as_the_connector_writes_it(
    spark: Any, bootstrap: str, fresh_name: Name
) -> None:
    topic = make_topic(bootstrap, fresh_name("batch"), 3)
    rows = [(f"k{n}", f"v{n}", [("h", b"x")] if n % 2 else None) for n in range(100)]
    schema = "key string, value string, headers array<struct<key:string,value:binary>>"
    frame = spark.createDataFrame([*rows, (None, "no key", None)], schema)
    frame.write.format("moldau").option("kafka.bootstrap.servers", bootstrap).option(
        "topic", topic
    ).mode("append").save()
    records = read_committed(bootstrap, topic)
    assert {(r.key, r.value) for r in records if r.key} == {
        (key.encode(), value.encode()) for key, value, _ in rows
    }
    assert all(r.partition == partition_for_key(r.key, 3) for r in records if r.key)
    assert all(bool(r.headers) == (int(r.key[1:]) % 2 == 1) for r in records if r.key)
    assert [r.value for r in records if r.key is None] == [b"no key"]


def test_rows_may_name_their_topic_their_partition_and_their_time(
    spark: Any, bootstrap: str, fresh_name: Name
) -> None:
    from pyspark.sql import functions as F

    one, other = (make_topic(bootstrap, fresh_name(stem), 4) for stem in ("one", "other"))
    frame = spark.range(40).select(
        F.when(F.col("id") % 2 == 0, one).otherwise(other).alias("topic"),
        (F.col("id") % 4).cast("int").alias("partition"),
        F.col("id").cast("string").alias("value"),
        F.timestamp_millis(F.col("id") * 1000 + 5).alias("timestamp"),
    )
    options = {"kafka.bootstrap.servers": bootstrap, "includeTimestamp": "true"}
    frame.write.format("moldau").options(**options).mode("append").save()
    for topic, rest in ((one, 0), (other, 1)):
        records = read_committed(bootstrap, topic)
        numbers = sorted(int(r.value) for r in records)
        assert numbers == [n for n in range(40) if n % 2 == rest]
        for record in records:
            assert record.partition == int(record.value) % 4
            assert record.timestamp == int(record.value) * 1000 + 5


def test_counts_are_written_exactly_once_with_marker_and_group(
    spark: Any, bootstrap: str, fresh_name: Name, topics: tuple[str, str], tmp_path: Path
) -> None:
    source, target = topics
    app, k = fresh_name("app"), Kafka(spark, bootstrap)
    send(bootstrap, source, [(None, f"a b{n % 3}") for n in range(30)])
    query = k.to(
        words_counted(k, source, maxOffsetsPerTrigger=20),
        target,
        key="word",
        value="count",
        app=app,
        checkpoint=str(tmp_path / "checkpoint"),
        trigger="available_now",
    )
    assert query.awaitTermination(120)
    records = read_committed(bootstrap, target)
    last = {r.key: struct.unpack(">q", r.value)[0] for r in records}
    assert last == {b"a": 30, b"b0": 10, b"b1": 10, b"b2": 10}
    assert all(r.partition == partition_for_key(r.key, 3) for r in records)
    marker = find_last(app, app, {"bootstrap.servers": bootstrap})
    assert marker is not None
    assert marker.query_id == query.id
    assert sum(marker.offsets.values()) == 30
    with Admin(bootstrap_servers=bootstrap) as admin:
        committed = admin.list_group_offsets([app]).check()[app]
    assert sum(position.offset for position in committed.values() if position) == 30


class Interrupted(ExactlyOnceSink):
    """A driver that fails at a point of its choice, once."""

    def fail_at(self, point: str) -> ExactlyOnceSink:
        transactions: Any = self.transactions
        step = getattr(transactions, point.removeprefix("after "))

        def failing(*args: Any) -> Any:
            setattr(transactions, point.removeprefix("after "), step)
            if point.startswith("after "):
                step(*args)
            raise KafkaError(f"interrupted {point}")

        setattr(transactions, point.removeprefix("after "), failing)
        return self


@pytest.mark.parametrize("point", ["begin", "mark", "after mark", "end", "after end"])
def test_a_driver_that_fails_writes_its_batch_once_all_the_same(
    spark: Any,
    bootstrap: str,
    fresh_name: Name,
    topics: tuple[str, str],
    tmp_path: Path,
    point: str,
) -> None:
    source, target = topics
    send(bootstrap, source, [(None, "x")] * 10)
    k = Kafka(spark, bootstrap)
    chosen = parse_sink_options({"kafka.bootstrap.servers": bootstrap, "topic": target})
    checkpoint = str(tmp_path / "checkpoint")
    sink = Interrupted(
        PipelineTransactions(fresh_name("app"), chosen.settings),
        plan(chosen, facts=check_topic(chosen.settings, target), writers_max=2),
        select=Selection({"key": "word", "value": "count"}),
        read_plan=plans_in(checkpoint),
    ).fail_at(point)
    frame = words_counted(k, source)
    for _ in range(2):
        query = (
            frame.writeStream.foreachBatch(sink)
            .outputMode("update")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
    records = read_committed(bootstrap, target)
    assert [(r.key, struct.unpack(">q", r.value)[0]) for r in records] == [(b"x", 10)]


def test_a_second_driver_of_a_pipeline_fences_the_first(bootstrap: str, fresh_name: Name) -> None:
    app = make_topic(bootstrap, fresh_name("app"))
    first, second = (PipelineTransactions(app, {"bootstrap.servers": bootstrap}) for _ in range(2))
    first.open()
    first.begin()
    second.open()
    with pytest.raises(KafkaError, match=r"(?i)fenced|old epoch|newer producer"):
        first.commit(Marker("q", 0, {}), [])
    second.begin()
    second.commit(Marker("q", 1, {TopicPartition(app, 0): 3}), [])
    found = find_last(app, app, {"bootstrap.servers": bootstrap})
    assert found == Marker("q", 1, {TopicPartition(app, 0): 3})
    for each in (first, second):
        each.close()


def test_at_least_once_writes_every_row(
    spark: Any, bootstrap: str, topics: tuple[str, str], fresh_name: Name, tmp_path: Path
) -> None:
    source, target = topics
    send(bootstrap, source, [(f"k{n}", f"v{n}") for n in range(50)])
    k = Kafka(spark, bootstrap, **{"kafka.compression.type": "lz4"})
    query = k.to(
        k.stream(source, startingOffsets="earliest"),
        target,
        key="key",
        app=fresh_name("app"),
        checkpoint=str(tmp_path / "checkpoint"),
        guarantee="at_least_once",
        trigger="available_now",
    )
    assert query.awaitTermination(120)
    records = read_committed(bootstrap, target)
    assert {(r.key, r.value) for r in records} == {
        (f"k{n}".encode(), f"v{n}".encode()) for n in range(50)
    }
    assert len(records) == 50


def test_sparks_own_stream_writer_goes_on_where_it_was(
    spark: Any, bootstrap: str, topics: tuple[str, str], tmp_path: Path
) -> None:
    source, target = topics
    k = Kafka(spark, bootstrap)
    rows = k.stream(source, startingOffsets="earliest", includeHeaders=True)
    for first in (0, 20):
        send(bootstrap, source, [(f"k{n}", f"v{n}") for n in range(first, first + 20)])
        query = (
            rows.select("key", "value", "headers")
            .writeStream.format("moldau")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", target)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
    records = read_committed(bootstrap, target)
    assert sorted((r.key, r.value) for r in records) == sorted(
        (f"k{n}".encode(), f"v{n}".encode()) for n in range(40)
    )
    assert all(r.partition == partition_for_key(r.key, 3) for r in records)


def test_what_cannot_be_written_is_told_before_the_query_starts(
    spark: Any, bootstrap: str, topics: tuple[str, str]
) -> None:
    source, target = topics
    k = Kafka(spark, bootstrap)
    frame = k.stream(source)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("There is no topic", {"topic": "nowhere-at-all"}),
        ("are not all in the frame", {"value": "amount"}),
        ("The column partition is string", {"partition": "topic"}),
        ("The guarantee cannot be 'maybe'", {"guarantee": "maybe"}),
        ("The mode cannot be 'all'", {"mode": "all"}),
        ("needs app", {"app": None}),
        ("has no option maxoffsets", {"maxOffsets": 3}),
        ("kafka.acks cannot be set", {"kafka.acks": "1"}),
    ]
    for sentence, change in wrong:
        call: dict[str, Any] = {"topic": target, "app": "a", "checkpoint": "/nowhere", **change}
        with pytest.raises(SinkError, match=sentence) as fault:
            k.to(frame, call.pop("topic"), **call)
        assert "\n" not in str(fault.value)
    with pytest.raises(SinkError, match="No broker of 127"):
        check_topic({"bootstrap.servers": "127.0.0.1:1"}, target)
    with pytest.raises(SinkError, match="no stream"):
        k.to(spark.range(1), target, app="a", checkpoint="/nowhere")
