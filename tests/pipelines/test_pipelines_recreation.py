"""A topic that is deleted and created anew while it is read: told as data loss, not mixed up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from moldau import Admin, TopicPartition
from moldau.pipelines.offsets import OffsetRange
from moldau.pipelines.options import parse_options
from moldau.pipelines.source_client import SourceClient
from moldau.pipelines.source_fetch import RangeReader
from moldau.pipelines.source_plan import DataLossError, SourcePlan
from tests.support.pipeline_world import make_topic, send

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
            assert plan.first_offsets() == {TopicPartition(topic, 0): 0}
        begin = strict.latest_offsets({})
        # So long that the offsets alone look as if all was well.
        make_anew(bootstrap, topic, 30)
        for _ in range(2):
            with pytest.raises(DataLossError, match=f"{topic} was deleted and created anew"):
                strict.latest_offsets(begin)
        with caplog.at_level(logging.WARNING):
            assert lenient.latest_offsets(begin) == {TopicPartition(topic, 0): 30}
        assert "created anew" in caplog.text


def test_a_task_reads_no_records_of_another_topic_of_that_name(
    bootstrap: str, fresh_name: Name
) -> None:
    topic = make_topic(bootstrap, fresh_name("in"))
    send(bootstrap, topic, [(None, f"old {n}") for n in range(10)])
    part = OffsetRange(TopicPartition(topic, 0), 0, 10)
    with planning(bootstrap, topic) as plan:
        plan.first_offsets()
        topic_id = plan.topic_id(topic)
        assert list(RangeReader(plan.client, part, topic_id).read())
    make_anew(bootstrap, topic, 10)
    with planning(bootstrap, topic) as plan:
        with pytest.raises(DataLossError, match="offsets 0 to 10"):
            list(RangeReader(plan.client, part, topic_id).read())
        plan.first_offsets()
        assert list(RangeReader(plan.client, part, plan.topic_id(topic)).read())
