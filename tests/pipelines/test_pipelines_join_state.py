"""What joins keep: their state shrinks again on a real SparkSession, by Spark's own count of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.pipelines.sink.sink_options import SinkError
from moldau.pipelines.tables.joins import join_stream_table, join_streams, join_tables
from tests.pipelines.test_pipelines_joins import World

Name = Callable[[str], str]
KEYS = 50
EARLY_MS, LATE_MS = 1_000_000, 9_000_000


@pytest.fixture
def world(spark: Any, bootstrap: str, fresh_name: Name, tmp_path: Path) -> World:
    return World(spark, bootstrap, fresh_name, tmp_path)


def many(value: str | None, at: int = EARLY_MS) -> list[tuple[str, str | None, int]]:
    return [(f"k{index}", value, at + index) for index in range(KEYS)]


def rows_kept(world: World) -> int:
    return int(_last_state(world)["numRowsTotal"])


def rows_left_out(world: World) -> int:
    assert world.query is not None
    progress = [batch["stateOperators"][0] for batch in world.query.recentProgress]
    return sum(int(state["numRowsDroppedByWatermark"]) for state in progress)


def _last_state(world: World) -> dict[str, Any]:
    assert world.query is not None
    states: list[dict[str, Any]] = world.query.lastProgress["stateOperators"]
    assert len(states) == 1
    return states[0]


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_streams_forget_rows_when_both_have_passed_them(world: World, how: str) -> None:
    joined = join_streams(
        world.read(world.left), world.read(world.right), within="5s", grace="1 second", how=how
    )
    world.send(world.left, *many("l"))
    world.send(world.right, *many("r"))
    assert len(world.run(joined)) == KEYS
    assert rows_kept(world) == 2 * KEYS
    world.send(world.left, ("z", "l", LATE_MS))
    world.send(world.right, ("z", "r", LATE_MS))
    assert world.run(joined) == ["z l r"]
    assert rows_kept(world) == 2
    # Later than the grace allows: left out, and its partner is gone anyway.
    world.send(world.right, ("k1", "late", EARLY_MS + 1))
    assert world.run(joined) == []
    assert (rows_kept(world), rows_left_out(world)) == (2, 1)
    # Within the grace: joined.
    world.send(world.right, ("z", "in time", LATE_MS - 999))
    assert world.run(joined) == ["z l in time"]


def test_streams_keep_rows_while_one_of_them_is_behind(world: World) -> None:
    joined = join_streams(world.read(world.left), world.read(world.right), within="5 seconds")
    world.send(world.left, *many("l"), ("z", "l", LATE_MS))
    world.send(world.right, ("k0", "r", EARLY_MS))
    assert world.run(joined) == ["k0 l r"]
    world.send(world.right, ("k1", "slow", EARLY_MS + 1))
    assert world.run(joined) == ["k1 l slow"]


def test_a_stream_and_a_table_forget_rows_of_keys_that_fall_silent(world: World) -> None:
    joined = join_stream_table(
        world.read(world.left), world.read(world.right), history="10 seconds"
    )
    world.send(world.left, *many("l"))
    world.send(world.right, *many("r", EARLY_MS - 1_000))
    assert len(world.run(joined)) == KEYS
    assert rows_kept(world) == 2 * KEYS
    world.send(world.left, ("k0", "new", LATE_MS))
    assert world.run(joined) == ["k0 new r"]
    # The table's rows stay, of the stream only the newest.
    assert rows_kept(world) == KEYS + 1
    # An update that is later than the history gives nothing anew; it holds from now on.
    world.send(world.right, ("k1", "late", EARLY_MS))
    assert world.run(joined) == []
    # A row that comes so late is joined, with what was in force then, and not kept.
    world.send(world.left, ("k1", "behind", EARLY_MS + 5_000))
    assert world.run(joined) == ["k1 behind late"]
    kept = rows_kept(world)
    # Keys that the table has deleted are forgotten too.
    world.send(world.right, *many(None, LATE_MS + 1_000))
    world.send(world.left, ("y", "l", 2 * LATE_MS))
    world.run(joined)
    assert kept > rows_kept(world) == 1


def test_a_join_that_is_told_not_to_forget_keeps_rows_of_silent_keys(world: World) -> None:
    joined = join_stream_table(
        world.read(world.left), world.read(world.right), history="10s", forget=False
    )
    world.send(world.left, *many("l"))
    world.send(world.right, *many("r", EARLY_MS - 1_000))
    world.run(joined)
    world.send(world.left, ("k0", "new", LATE_MS))
    assert world.run(joined) == ["k0 new r"]
    assert rows_kept(world) == 2 * KEYS


def test_tables_forget_keys_that_both_have_deleted(world: World) -> None:
    joined = join_tables(world.read(world.left), world.read(world.right), history="10s")
    world.send(world.left, *many("l"))
    world.send(world.right, *many("r"))
    assert len(world.run(joined)) == KEYS
    world.send(world.left, *many(None, EARLY_MS + 1_000))
    world.send(world.right, *many(None, EARLY_MS + 1_000)[1:])
    assert len(world.run(joined)) == KEYS
    assert rows_kept(world) == 2 * KEYS
    # k0 is deleted on one side alone.
    world.send(world.left, ("z", "l", LATE_MS))
    assert world.run(joined) == []
    assert rows_kept(world) == 3
    world.send(world.left, ("k0", "back", LATE_MS + 1))
    assert world.run(joined) == ["k0 back r"]


def test_a_join_of_streams_without_a_bound_is_warned_about(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    from pyspark.sql import functions as F

    def side(topic: str, name: str) -> Any:
        return world.read(topic).select(
            F.col("key").alias(f"{name}_key"),
            F.struct("value").alias(name),
            F.col("timestamp").alias(f"{name}_time"),
        )

    left, right = side(world.left, "left"), side(world.right, "right")
    keys = F.col("left_key") == F.col("right_key")
    span = F.expr(
        "right_time BETWEEN left_time - INTERVAL 5 SECONDS AND left_time + INTERVAL 5 SECONDS"
    )
    timed = (
        left.withWatermark("left_time", "1 second"),
        right.withWatermark("right_time", "1 second"),
    )
    one_way = F.expr("right_time >= left_time - INTERVAL 5 SECONDS")
    for number, (frame, is_warned) in enumerate(
        [
            (left.join(right, keys), True),
            (timed[0].join(timed[1], keys), True),
            (timed[0].join(timed[1], keys & one_way), True),
            (left.join(right, keys & span), True),
            (timed[0].join(timed[1], keys & span), False),
            (timed[0].join(timed[1], keys & F.expr("left_time = right_time")), False),
        ]
    ):
        caplog.clear()
        world.checkpoint += "x"
        with caplog.at_level(logging.WARNING, "moldau.pipelines.joins"):
            world.run(frame.withColumn("key", F.col("left_key")))
        said = [record.getMessage() for record in caplog.records]
        assert any("without a bound in time" in line for line in said) == is_warned, number


@pytest.mark.parametrize("text", ["soon", "5 parsecs", "-1 minute", "", "1 month"])
def test_a_span_that_is_none_is_refused_in_a_sentence(world: World, text: str) -> None:
    with pytest.raises(SinkError, match="within cannot be"):
        join_streams(world.read(world.left), world.read(world.right), within=text)
    with pytest.raises(SinkError, match="history cannot be"):
        join_stream_table(world.read(world.left), world.read(world.right), history=text)
