"""Topics that get more partitions, so that keys move: tables and views have the newest values."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from moldau import Admin, NewPartitions, Producer
from moldau.pipelines import Kafka
from moldau.pipelines.formats.column_codecs import string
from moldau.pipelines.kafka import Selection
from moldau.pipelines.sink.sink_options import parse_sink_options
from moldau.pipelines.sink.sink_plan import check_topic
from moldau.pipelines.sink.sink_transaction import PipelineTransactions
from moldau.pipelines.tables.live_view import LiveView, ViewError
from moldau.records.partitioner import partition_for_key
from tests.support.eventually import eventually
from tests.support.pipeline_world import make_topic, read_committed, send

Name = Callable[[str], str]
KEYS = [f"k{n}" for n in range(40)]


def grow(bootstrap: str, topic: str, partitions: int) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_partitions({topic: NewPartitions(partitions)}).check()


def test_the_latest_of_a_table_that_has_grown_are_the_newest_values(
    spark: Any, bootstrap: str, fresh_name: Name
) -> None:
    topic = make_topic(bootstrap, fresh_name("grown"), 3)
    send(bootstrap, topic, [(key, "old", 1_000 + n) for n, key in enumerate(KEYS)])
    send(bootstrap, topic, [(key, "older", 2_000) for key in KEYS])
    grow(bootstrap, topic, 5)
    send(bootstrap, topic, [(key, "new", 3_000) for key in KEYS])
    # A late time within a partition says nothing: there it is the offset that counts.
    send(bootstrap, topic, [(KEYS[0], "newest", 2_500), (KEYS[1], None, 4_000)])
    rows = Kafka(spark, bootstrap).table(topic).latest()
    found = dict(tuple(row) for row in rows.select(string("key"), string("value")).collect())
    assert found == {KEYS[0]: "newest", **dict.fromkeys(KEYS[2:], "new")}


def test_a_view_reads_partitions_that_came_later(bootstrap: str, fresh_name: Name) -> None:
    topic = make_topic(bootstrap, fresh_name("grown"), 2)
    send(bootstrap, topic, [(key, "old") for key in KEYS])
    with LiveView(bootstrap, topic, refresh_seconds=0.2) as view:
        assert view.wait_until_current(30)
        grow(bootstrap, topic, 5)
        send(bootstrap, topic, [(key, "new") for key in KEYS])
        eventually(lambda: dict(view.items()) == dict.fromkeys(KEYS, "new"))


def test_a_view_of_a_topic_that_has_grown_shows_no_value_that_was_replaced(
    bootstrap: str, fresh_name: Name
) -> None:
    topic = make_topic(bootstrap, fresh_name("grown"), 1)
    old = [(key, "old") for key in KEYS]
    # So many that the old partition is still being read when the new ones are through.
    send(bootstrap, topic, [*old, *[("filler", str(n)) for n in range(20_000)], *old])
    grow(bootstrap, topic, 4)
    send(bootstrap, topic, [(key, "new") for key in KEYS[1:]])
    send(bootstrap, topic, [(KEYS[2], None)])
    with LiveView(bootstrap, topic) as view:
        assert view.wait_until_current(60)
        found = dict(view.items())
        del found["filler"]
        assert found == {KEYS[0]: "old", KEYS[1]: "new", **dict.fromkeys(KEYS[3:], "new")}


@pytest.mark.parametrize(
    ("key", "value"),
    [(b'"k"', b"[" * 100_000 + b"]" * 100_000), (b"[1]", b"1"), (b'"k"', b"\xff")],
    ids=["nested", "unhashable", "no text"],
)
def test_a_view_says_which_record_it_cannot_read(
    bootstrap: str, fresh_name: Name, key: bytes, value: bytes
) -> None:
    topic = make_topic(bootstrap, fresh_name("odd"))
    send(bootstrap, topic, [(b'"a"', b"1"), (key, value)])
    with LiveView(bootstrap, topic, key="json", value="json") as view:
        with pytest.raises(ViewError, match=f"{topic}-0 at offset 1"):
            view.wait_until_current(30)
        with pytest.raises(ViewError, match="has stopped"):
            view.get("a")


def test_a_value_that_cannot_be_shown_is_told_over_http(bootstrap: str, fresh_name: Name) -> None:
    topic = make_topic(bootstrap, fresh_name("odd"))
    send(bootstrap, topic, [("a", "[1]")])
    with LiveView(bootstrap, topic, value="json") as view:
        assert view.wait_until_current(30)
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        view._latest.rows["deep"] = deep
        with pytest.raises(urllib.error.HTTPError) as refusal:
            urllib.request.urlopen(f"{view.serve()}/keys/deep", timeout=30)
        assert refusal.value.code == 500
        assert "no JSON" in json.load(refusal.value)["error"]
        view._latest.rows.clear()
        while deep:
            deep = deep.pop()


def test_a_view_stops_with_a_sentence_when_its_topic_is_made_anew(
    bootstrap: str, fresh_name: Name
) -> None:
    topic = make_topic(bootstrap, fresh_name("anew"))
    send(bootstrap, topic, [("a", "1"), ("b", "2")])

    def told(view: LiveView) -> str:
        try:
            view.get("a")
        except ViewError as refusal:
            return str(refusal)
        return ""

    with LiveView(bootstrap, topic, refresh_seconds=0.2) as view:
        assert view.wait_until_current(30)
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.delete_topics([topic]).check()
        make_topic(bootstrap, topic)
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send(topic, b"3", key=b"c").result(30)
        eventually(lambda: "created anew" in told(view) or "deleted" in told(view))


def test_the_sink_is_told_of_partitions_that_its_output_got_later(
    bootstrap: str, fresh_name: Name
) -> None:
    target = make_topic(bootstrap, fresh_name("out"), 2)
    transactions = PipelineTransactions(fresh_name("app"), {"bootstrap.servers": bootstrap})
    transactions.open()
    with closing(transactions):
        assert transactions.partition_counts([target]) == {target: 2}
        grow(bootstrap, target, 5)
        assert transactions.partition_counts([target]) == {target: 5}


@pytest.mark.long
def test_keys_go_where_javas_producer_puts_them_also_after_the_output_has_grown(
    spark: Any, bootstrap: str, fresh_name: Name, tmp_path: Path
) -> None:
    source = make_topic(bootstrap, fresh_name("in"))
    target = make_topic(bootstrap, fresh_name("out"), 2)
    k = Kafka(spark, bootstrap)
    chosen = parse_sink_options({"kafka.bootstrap.servers": bootstrap, "topic": target})
    checkpoint = str(tmp_path / "checkpoint")
    # One sink for both batches, as in a query that runs for long.
    sink = k._sink(
        PipelineTransactions(fresh_name("app"), chosen.settings),
        (chosen, check_topic(chosen.settings, target)),
        Selection({"key": "key", "value": "value"}),
        checkpoint,
    )
    for partitions in (2, 5):
        if partitions > 2:
            grow(bootstrap, target, partitions)
        send(bootstrap, source, [(key, str(partitions)) for key in KEYS])
        frame = k.stream(source, startingOffsets="earliest")
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
        assert writer.trigger(availableNow=True).start().awaitTermination(120)
    for record in read_committed(bootstrap, target):
        assert record.partition == partition_for_key(record.key, int(record.value))
