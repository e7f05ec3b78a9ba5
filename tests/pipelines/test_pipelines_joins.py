"""Tables and joins whose results stay right when updates come late, on a real SparkSession."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.pipelines import Kafka
from moldau.pipelines.formats.column_codecs import string
from moldau.pipelines.query import state_of
from moldau.pipelines.sink.sink_options import SinkError
from moldau.pipelines.tables.joins import join_stream_table, join_streams, join_tables
from moldau.pipelines.tables.tables import latest_per_key
from tests.support.pipeline_world import make_topic, read_committed, send

Name = Callable[[str], str]


class World:
    def __init__(self, spark: Any, bootstrap: str, fresh_name: Name, folder: Path) -> None:
        self.k = Kafka(spark, bootstrap)
        self.bootstrap = bootstrap
        self.left, self.right = (make_topic(bootstrap, fresh_name(s)) for s in ("left", "right"))
        self.target = make_topic(bootstrap, fresh_name("out"))
        self.app = fresh_name("app")
        self.checkpoint = str(folder / "checkpoint")
        self.seen = 0
        self.query: Any = None

    def read(self, topic: str) -> Any:
        rows = self.k.stream(topic, startingOffsets="earliest")
        return rows.select(string("key").alias("key"), string("value").alias("value"), "timestamp",
                           "offset")  # fmt: skip

    def send(self, topic: str, *rows: tuple[Any, Any, int]) -> None:
        send(self.bootstrap, topic, rows)

    def run(
        self, frame: Any, value: str = "concat_ws(' ', left.value, right.value)", **options: Any
    ) -> list[str]:
        """What a run of all there is adds to the output, as `key value`."""
        from pyspark.sql import functions as F

        self.query = self.k.to(
            frame,
            self.target,
            key="key",
            value=F.expr(value),
            app=self.app,
            checkpoint=self.checkpoint,
            trigger="available_now",
            **options,
        )
        assert self.query.awaitTermination(120)
        records = read_committed(self.bootstrap, self.target)
        new, self.seen = records[self.seen :], len(records)
        return [f"{r.key.decode()} {(r.value or b'').decode()}" for r in new]


@pytest.fixture
def world(spark: Any, bootstrap: str, fresh_name: Name, tmp_path: Path) -> World:
    return World(spark, bootstrap, fresh_name, tmp_path)


def test_a_late_update_of_the_table_gives_the_streams_results_anew(world: World) -> None:
    joined = join_stream_table(world.read(world.left), world.read(world.right))
    value = "concat_ws(' ', left.value, right.value, unix_millis(timestamp), is_update)"
    world.send(world.right, ("A", "a", 2))
    world.send(world.left, ("A", "α′", 6))
    assert world.run(joined, value) == ["A α′ a 6 false"]
    # The update from ⟨A,a,2⟩ to ⟨A,a′,5⟩ was delayed: it holds for the record of time 6.
    world.send(world.right, ("A", "a′", 5))
    assert world.run(joined, value) == ["A α′ a′ 6 true"]
    world.send(world.right, ("A", "a″", 7))
    world.send(world.left, ("A", "β", 4), ("A", "γ", 8))
    assert world.run(joined, value) == ["A β a 4 false", "A γ a″ 8 false"]
    state = state_of(world.k.spark, world.checkpoint, variable="versions")
    assert state.count() == 3


def test_a_left_join_has_rows_without_a_partner_and_deletions_count(world: World) -> None:
    joined = join_stream_table(world.read(world.left), world.read(world.right), how="left")
    world.send(world.left, ("A", "one", 10))
    assert world.run(joined) == ["A one"]
    world.send(world.right, ("A", "x", 11), ("A", None, 20))
    world.send(world.left, ("A", "two", 12), ("A", "three", 21))
    assert world.run(joined) == ["A two x", "A three"]


def test_two_tables_joined_change_with_either(world: World) -> None:
    joined = join_tables(world.read(world.left), world.read(world.right))
    world.send(world.left, ("A", "a", 1), ("B", "b", 1))
    world.send(world.right, ("A", "1", 2))
    assert world.run(joined) == ["A a 1"]
    world.send(world.right, ("A", "2", 5), ("B", "3", 5))
    assert sorted(world.run(joined)) == ["A a 2", "B b 3"]
    # An older change than the one in force, and a deletion.
    world.send(world.right, ("A", "old", 3), ("B", None, 9))
    assert world.run(joined) == ["B "]


def test_two_streams_join_within_a_time(world: World) -> None:
    joined = join_streams(
        world.read(world.left), world.read(world.right), within="5 seconds", grace="1 minute"
    )
    world.send(world.left, ("A", "l", 10_000), ("A", "far", 30_000), ("B", "other", 10_000))
    world.send(world.right, ("A", "r", 14_000))
    assert world.run(joined) == ["A l r"]


def test_topics_with_different_partitions_are_not_joined(
    world: World, bootstrap: str, fresh_name: Name
) -> None:
    wide = make_topic(bootstrap, fresh_name("wide"), 3)
    with pytest.raises(SinkError, match=f"equally many partitions.*{wide} has 3"):
        join_stream_table(world.read(world.left), world.read(wide))
    with pytest.raises(SinkError, match="equally many"):
        join_streams(world.read(wide), world.read(world.left), within="5 seconds")


def test_a_table_is_the_latest_of_its_changes_and_a_stream_of_them(world: World) -> None:
    world.send(world.left, ("a", "1", 1), ("b", "1", 1), ("a", "2", 2), ("b", None, 3))
    table = world.k.table(world.left)
    rows = table.latest().select(string("key"), string("value")).collect()
    assert [tuple(row) for row in rows] == [("a", "2")]
    # From the stream of changes back to a table, in a topic of its own.
    back = latest_per_key(world.read(world.left), "key")
    assert sorted(world.run(back, "value")) == ["a 2", "b "]
    world.send(world.left, ("c", "3", 4))
    assert world.run(back, "value") == ["c 3"]
    changed = table.changes().select(string("key").alias("key"), string("value").alias("value"))
    assert changed.isStreaming


def test_a_stream_joins_a_global_table_by_any_column_and_sees_it_change(world: World) -> None:
    from pyspark.sql import functions as F

    world.send(world.right, ("u1", "Ann", 1))

    def named(orders: Any) -> Any:
        users = world.k.global_table(world.right).select(
            string("key").alias("user"), string("value").alias("name")
        )
        return orders.withColumn("user", F.col("value")).join(users, "user")

    world.send(world.left, ("o1", "u1", 1))
    assert world.run(world.read(world.left), "name", each=named) == ["o1 Ann"]
    world.send(world.right, ("u1", "Eve", 2))
    world.send(world.left, ("o2", "u1", 2))
    assert world.run(world.read(world.left), "name", each=named) == ["o2 Eve"]
