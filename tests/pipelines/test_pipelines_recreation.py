"""A topic that is deleted and created anew while it is read, or while nobody reads it: told as data
loss, not mixed up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from moldau import Admin, TopicPartition
from moldau.pipelines import Kafka
from moldau.pipelines.source.data_source import StreamReader
from moldau.pipelines.source.source_client import SourceClient
from moldau.pipelines.source.source_fetch import RangeReader
from moldau.pipelines.source.source_offsets import OffsetRange, Position
from moldau.pipelines.source.source_options import parse_options
from moldau.pipelines.source.source_plan import NOWHERE, DataLossError, SourcePlan
from tests.support.pipeline_world import make_topic, read_committed, send

Name = Callable[[str], str]


@contextmanager
def planning(bootstrap: str, topic: str, **options: str) -> Iterator[SourcePlan]:
    given = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        **options,
    }
    with closing(SourceClient(parse_options(given, is_stream=True))) as client:
        yield SourcePlan(client)


def make_anew(bootstrap: str, topic: str, records: int) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([topic]).check()
    make_topic(bootstrap, topic)
    send(bootstrap, topic, [(None, f"new {n}") for n in range(records)])


def test_a_stream_notices_that_its_topic_is_another_one(
    bootstrap: str, fresh_name: Name, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(bootstrap, fresh_name("in"))
    send(bootstrap, topic, [(None, f"old {n}") for n in range(10)])
    with (
        planning(bootstrap, topic) as strict,
        planning(bootstrap, topic, failOnDataLoss="false") as lenient,
    ):
        for plan in (strict, lenient):
            assert plan.first().offsets == {TopicPartition(topic, 0): 0}
        begin = strict.latest(NOWHERE)
        # So long that the offsets alone look as if all was well.
        make_anew(bootstrap, topic, 30)
        for _ in range(2):
            with pytest.raises(DataLossError, match=f"{topic} was deleted and created anew"):
                strict.latest(begin)
        with caplog.at_level(logging.WARNING):
            assert lenient.latest(begin).offsets == {TopicPartition(topic, 0): 30}
        assert "created anew" in caplog.text


def test_a_task_reads_no_records_of_another_topic_of_that_name(
    bootstrap: str, fresh_name: Name
) -> None:
    topic = make_topic(bootstrap, fresh_name("in"))
    send(bootstrap, topic, [(None, f"old {n}") for n in range(10)])
    part = OffsetRange(TopicPartition(topic, 0), 0, 10)
    with planning(bootstrap, topic) as plan:
        plan.first()
        topic_id = plan.topic_id(topic)
        assert list(RangeReader(plan.client, part, topic_id).read())
    make_anew(bootstrap, topic, 10)
    with planning(bootstrap, topic) as plan:
        with pytest.raises(DataLossError, match="offsets 0 to 10"):
            list(RangeReader(plan.client, part, topic_id).read())
        plan.first()
        assert list(RangeReader(plan.client, part, plan.topic_id(topic)).read())


@contextmanager
def reading(bootstrap: str, topic: str, **options: str) -> Iterator[StreamReader]:
    """What Spark makes when a query starts, and makes anew when it starts again."""
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **options}
    given["startingOffsets"] = "earliest"
    reader = StreamReader(parse_options(given, is_stream=True), StructType())
    try:
        yield reader
    finally:
        reader.stop()


def ranges(reader: StreamReader, begin: dict[str, Any], end: dict[str, Any]) -> list[Any]:
    return [part.value[0][1:] for part in reader.partitions(begin, end)]


def test_a_stream_remembers_its_topic_over_a_restart(
    bootstrap: str, fresh_name: Name, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(bootstrap, fresh_name("in"))
    send(bootstrap, topic, [(None, f"old {n}") for n in range(10)])
    with reading(bootstrap, topic) as reader:
        begin = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    with reading(bootstrap, topic) as reader:
        assert reader.latestOffset(begin, ReadAllAvailable()) == begin
    make_anew(bootstrap, topic, 30)
    for prepares in (False, True):
        with reading(bootstrap, topic) as reader:
            if prepares:
                reader.prepareForTriggerAvailableNow()
            with pytest.raises(DataLossError, match=f"{topic} was deleted and created anew"):
                reader.latestOffset(begin, ReadAllAvailable())
            # A batch that was planned before the restart, and is now read for the first time.
            part = reader.partitions(Position({}, {}).encode(), begin)[0]
            with pytest.raises(DataLossError, match="created anew"):
                list(reader.read(part))
    with reading(bootstrap, topic, failOnDataLoss="false") as reader:
        with caplog.at_level(logging.WARNING):
            end = reader.latestOffset(begin, ReadMaxRows(20))
        assert "created anew" in caplog.text
        # All of the new topic, though the old one was read further than its first records.
        assert ranges(reader, begin, end) == [(0, 20)]
        rest = reader.latestOffset(end, ReadMaxRows(20))
        assert ranges(reader, end, rest) == [(20, 30)]
        assert reader.latestOffset(rest, ReadMaxRows(20)) == rest
    assert caplog.text.count("created anew") == 1


def test_a_checkpoint_without_topic_ids_goes_on_and_gets_them_with_the_next_records(
    bootstrap: str, fresh_name: Name
) -> None:
    topic = make_topic(bootstrap, fresh_name("in"))
    send(bootstrap, topic, [(None, f"old {n}") for n in range(10)])
    begin = {topic: {"0": 10}}
    with reading(bootstrap, topic) as reader:
        assert reader.latestOffset(begin, ReadAllAvailable()) == begin
        send(bootstrap, topic, [(None, "one more")])
        end = reader.latestOffset(begin, ReadAllAvailable())
        assert ranges(reader, begin, end) == [(10, 11)]
        assert list(Position.decode(end).topic_ids) == [topic]


def test_a_query_that_starts_again_refuses_another_topic_of_the_name_it_has_read(
    spark: Any, bootstrap: str, fresh_name: Name, tmp_path: Path
) -> None:
    topic, target = (make_topic(bootstrap, fresh_name(stem)) for stem in ("in", "out"))
    app, k = fresh_name("app"), Kafka(spark, bootstrap)

    def run(**options: Any) -> list[str]:
        query = k.to(
            k.stream(topic, startingOffsets="earliest", **options),
            target,
            app=app,
            checkpoint=str(tmp_path / "checkpoint"),
            trigger="available_now",
        )
        assert query.awaitTermination(120)
        return [record.value.decode() for record in read_committed(bootstrap, target)]

    send(bootstrap, topic, [(None, "old")])
    assert run() == ["old"]
    make_anew(bootstrap, topic, 3)
    with pytest.raises(StreamingQueryException, match=f"The topic {topic} was deleted and created"):
        run()
    assert run(failOnDataLoss=False) == ["old", "new 0", "new 1", "new 2"]
    assert run() == ["old", "new 0", "new 1", "new 2"]
