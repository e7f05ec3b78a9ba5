"""Streams on a real SparkSession: triggers, checkpoints, new partitions, data loss, progress."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau import Admin, NewPartitions, NewTopic, Producer, TopicPartition

Name = Callable[[str], str]


class Stream:
    """A query over one topic that keeps the values of each micro-batch."""

    def __init__(self, spark: Any, bootstrap: str, topic: str, checkpoint: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.topic = topic
        self.checkpoint = checkpoint
        self.batches: list[list[str]] = []

    @property
    def values(self) -> list[str]:
        return [value for batch in self.batches for value in batch]

    def start(self, trigger: dict[str, Any], keep: Any = None, **options: Any) -> Any:
        frame = (
            self.spark.readStream.format("moldau")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", self.topic)
            .options(**options)
            .load()
        )
        writer = frame.writeStream.foreachBatch(keep or self.keep).trigger(**trigger)
        return writer.option("checkpointLocation", str(self.checkpoint)).start()

    def run(self, **options: Any) -> Any:
        query = self.start({"availableNow": True}, **options)
        query.awaitTermination()
        return query

    def keep(self, frame: Any, batch_id: int) -> None:
        rows = frame.orderBy("partition", "offset").collect()
        self.batches.append([row.value.decode() for row in rows])


@pytest.fixture
def stream(spark: Any, bootstrap: str, fresh_name: Name, tmp_path: Path) -> Stream:
    name = fresh_name("stream")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions=2)]).check()
    return Stream(spark, bootstrap, name, tmp_path / "checkpoint")


def send(stream: Stream, counts: dict[int, int], mark: str = "") -> list[str]:
    sent = []
    with Producer(bootstrap_servers=stream.bootstrap, linger_ms=5) as producer:
        for partition, count in counts.items():
            for number in range(count):
                sent.append(f"{mark}{partition}:{number}")
                producer.send(stream.topic, sent[-1], partition=partition)
    return sent


def test_a_limit_per_trigger_is_shared_and_a_restart_goes_on(stream: Stream) -> None:
    sent = send(stream, {0: 60, 1: 20})
    options = {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": 40,
        "commitGroup": stream.topic,
    }
    query = stream.run(**options)
    assert [len(batch) for batch in stream.batches] == [40, 40]
    assert sum(value.startswith("1:") for value in stream.batches[0]) == 10
    assert sorted(stream.values) == sorted(sent)
    source = query.lastProgress["sources"][0]
    assert _places(json.loads(source["endOffset"])) == {stream.topic: {"0": 60, "1": 20}}
    assert _kept_offsets(stream, 1) == {stream.topic: {"0": 60, "1": 20}}
    assert _committed(stream) == {0: 60, 1: 20}

    stream.batches.clear()
    more = send(stream, {1: 5}, "more ")
    stream.run(**options)
    assert stream.values == more
    assert _committed(stream) == {0: 60, 1: 25}


def test_partitions_added_while_a_stream_rests_are_read_from_their_start(stream: Stream) -> None:
    send(stream, {0: 3})
    stream.run(startingOffsets="earliest")
    stream.batches.clear()
    with Admin(bootstrap_servers=stream.bootstrap) as admin:
        admin.create_partitions({stream.topic: NewPartitions(3)}).check()
    fresh = send(stream, {2: 6, 0: 1}, "new ")
    stream.run(startingOffsets="earliest", maxOffsetsPerTrigger=100)
    assert sorted(stream.values) == sorted(fresh)


def test_a_start_at_the_end_is_kept_though_the_first_batch_fails(stream: Stream) -> None:
    send(stream, {0: 4}, "before ")

    def fail(frame: Any, batch_id: int) -> None:
        if frame.count():
            raise RuntimeError("the first batch with records fails")
        if batch_id == 0:
            stream.batches.append(send(stream, {0: 2, 1: 1}, "after "))

    query = stream.start({"processingTime": "0 seconds"}, keep=fail)
    with pytest.raises(Exception, match="the first batch with records fails"):
        query.awaitTermination(60)
    (after,) = stream.batches
    stream.batches.clear()
    stream.run()
    assert sorted(stream.values) == sorted(after)


def test_a_trigger_waits_for_enough_records_but_not_for_ever(stream: Stream) -> None:
    limits = {"minOffsetsPerTrigger": 50, "maxTriggerDelay": "2s", "startingOffsets": "earliest"}
    send(stream, {0: 40})
    query = stream.start({"processingTime": "100 milliseconds"}, **limits)
    try:
        while not stream.batches and query.isActive:
            query.awaitTermination(0.1)
        waited_ms = _duration_until_first_rows(query)
    finally:
        query.stop()
    assert query.exception() is None
    assert len(stream.values) == 40
    assert waited_ms >= 1_000


def test_records_deleted_under_a_stream_fail_it_or_are_skipped(stream: Stream) -> None:
    send(stream, {0: 10})
    stream.run(startingOffsets="earliest")
    stream.batches.clear()
    left = send(stream, {0: 10}, "later ")[7:]
    with Admin(bootstrap_servers=stream.bootstrap) as admin:
        admin.delete_records({TopicPartition(stream.topic, 0): 17}).check()
    with pytest.raises(
        Exception, match=r"Offset 10 of .* is out of range, .* 17 to 20: records may"
    ):
        stream.run()
    stream.run(failOnDataLoss=False)
    assert stream.values == left


def test_a_topic_made_anew_under_a_stream_is_told(stream: Stream) -> None:
    send(stream, {0: 10})
    stream.run(startingOffsets="earliest")
    with Admin(bootstrap_servers=stream.bootstrap) as admin:
        admin.delete_topics([stream.topic]).check()
        admin.create_topics([NewTopic(stream.topic, partitions=2)]).check()
    send(stream, {0: 3})
    with pytest.raises(Exception, match="was deleted and created anew"):
        stream.run()


def _kept_offsets(stream: Stream, batch_id: int) -> Any:
    """What Spark wrote into the checkpoint: the last line is the source's own JSON."""
    lines = (stream.checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
    return _places(json.loads(lines[-1]))


def _places(offsets: dict[str, Any]) -> dict[str, Any]:
    """Without the members that hold the ids of the topics."""
    return {topic: rows for topic, rows in offsets.items() if "#" not in topic}


def _committed(stream: Stream) -> dict[int, int]:
    with Admin(bootstrap_servers=stream.bootstrap) as admin:
        found = admin.list_group_offsets([stream.topic]).check()[stream.topic]
    return {tp.partition: commit.offset for tp, commit in found.items() if commit is not None}


def _duration_until_first_rows(query: Any) -> float:
    from datetime import datetime

    while not any(each["numInputRows"] for each in query.recentProgress):
        query.awaitTermination(0.1)
    stamps = [datetime.fromisoformat(each["timestamp"]) for each in query.recentProgress]
    with_rows = [
        stamp
        for stamp, each in zip(stamps, query.recentProgress, strict=True)
        if each["numInputRows"]
    ]
    return (with_rows[0] - stamps[0]).total_seconds() * 1000
