"""Windows with grace for late records, and both kinds of time, on a real SparkSession."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.pipelines import Kafka, windows
from moldau.pipelines.formats.column_codecs import string
from tests.support.pipeline_world import make_topic, read_committed, send

Name = Callable[[str], str]
SECOND = 1_000


class Pipeline:
    """Words with times in, counts per window out; a batch per call."""

    def __init__(self, spark: Any, bootstrap: str, fresh_name: Name, folder: Path) -> None:
        self.k = Kafka(spark, bootstrap)
        self.bootstrap = bootstrap
        self.source = make_topic(bootstrap, fresh_name("in"))
        self.target = make_topic(bootstrap, fresh_name("out"))
        self.app = fresh_name("app")
        self.checkpoint = str(folder / "checkpoint")

    def words(self) -> Any:
        lines = self.k.stream(self.source, startingOffsets="earliest")
        return lines.select("timestamp", string("value").alias("word"))

    def run(self, counts: Any, *words: tuple[str, int], **options: Any) -> dict[str, int]:
        """Send words at seconds, run what is there, and give the last count of each window."""
        send(self.bootstrap, self.source, [(None, word, at * SECOND) for word, at in words])
        query = self.k.to(
            counts,
            self.target,
            key=windows.key_text("word"),
            value="count",
            app=self.app,
            checkpoint=self.checkpoint,
            trigger="available_now",
            **options,
        )
        assert query.awaitTermination(120)
        records = read_committed(self.bootstrap, self.target)
        return {r.key.decode(): struct.unpack(">q", r.value)[0] for r in records}


@pytest.fixture
def pipeline(spark: Any, bootstrap: str, fresh_name: Name, tmp_path: Path) -> Pipeline:
    return Pipeline(spark, bootstrap, fresh_name, tmp_path)


def test_tumbling_windows_take_late_records_within_the_grace_and_no_later_ones(
    pipeline: Pipeline,
) -> None:
    words = windows.tumbling(pipeline.words(), "10 seconds", grace="20 seconds")
    counts = words.groupBy("word").count()
    assert pipeline.run(counts, ("a", 1), ("a", 9), ("a", 11)) == {
        "[a@0/10000]": 2,
        "[a@10000/20000]": 1,
    }
    late = pipeline.run(counts, ("a", 2), ("a", 60))
    assert late == {"[a@0/10000]": 3, "[a@10000/20000]": 1, "[a@60000/70000]": 1}
    # The newest record is at 60 s, so windows that end before 40 s are closed.
    assert pipeline.run(counts, ("a", 3), ("a", 45)) == {**late, "[a@40000/50000]": 1}


def test_hopping_windows_overlap(pipeline: Pipeline) -> None:
    words = windows.hopping(pipeline.words(), "10 seconds", "5 seconds", grace="1 minute")
    counts = words.groupBy("word").count()
    assert pipeline.run(counts, ("a", 12), ("a", 7)) == {
        "[a@0/10000]": 1,
        "[a@5000/15000]": 2,
        "[a@10000/20000]": 1,
    }


def test_a_session_ends_when_nothing_came_for_the_gap(pipeline: Pipeline) -> None:
    words = windows.session(pipeline.words(), "5 seconds")
    counts = words.groupBy("word").count()
    found = pipeline.run(counts, ("a", 1), ("a", 4), ("a", 20), ("b", 100))
    assert found == {"[a@1000/9000]": 2, "[a@20000/25000]": 1}


def test_processing_time_is_the_time_of_the_batch_whatever_records_say(
    pipeline: Pipeline,
) -> None:
    words = windows.tumbling(pipeline.words(), "1 hour", time=windows.PROCESSING)
    before_ms = time.time_ns() // 1_000_000
    found = pipeline.run(words.groupBy("word").count(), ("a", 1), ("a", 90_000))
    start_ms = {int(key.split("@")[1].split("/")[0]) for key in found}
    assert sum(found.values()) == 2
    assert all(before_ms - 3_600_000 <= each for each in start_ms)


def test_a_topic_that_stamps_records_itself_has_windows_of_the_time_of_arrival(
    pipeline: Pipeline, bootstrap: str, fresh_name: Name
) -> None:
    pipeline.source = make_topic(
        bootstrap, fresh_name("in"), message_timestamp_type="LogAppendTime"
    )
    words = windows.tumbling(pipeline.words(), "1 hour", grace="1 hour")
    before_ms = time.time_ns() // 1_000_000
    found = pipeline.run(words.groupBy("word").count(), ("a", 1), ("a", 90_000))
    after_ms = time.time_ns() // 1_000_000
    edges = [key.strip("[]").split("@")[1].split("/") for key in found]
    assert sum(found.values()) == 2
    assert all(int(start) <= after_ms and before_ms < int(end) for start, end in edges)


def test_keys_of_windows_have_the_bytes_of_javas_serializers(spark: Any) -> None:
    from pyspark.sql import functions as F

    row = (
        spark.sql("select 'ab' as word, timestamp_millis(3000L) as time")
        .select("word", F.window("time", "10 seconds").alias("window"))
        .select(windows.key_bytes("word"), windows.session_key_bytes("word"))
        .first()
    )
    assert bytes(row[0]) == b"ab" + struct.pack(">q", 0)
    assert bytes(row[1]) == b"ab" + struct.pack(">qq", 10_000, 0)
