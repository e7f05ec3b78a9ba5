"""What a filter rules out is not fetched, and nothing that passes it is left out."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from moldau.model.names import TopicPartition
from moldau.tables.kafka_columns import kafka_schema
from moldau.tables.pushed_bounds import PushedFilter
from tests.support import seeds

ORDERS, OTHERS = TopicPartition("orders", 0), TopicPartition("orders", 1)
WHOLE = {ORDERS: (10, 1_000), OTHERS: (0, 500)}
offset, partition, topic = ds.field("offset"), ds.field("partition"), ds.field("topic")


def ranges(expression: Any) -> dict[TopicPartition, tuple[int, int]]:
    return PushedFilter(expression, kafka_schema()).ranges(WHOLE)


def test_partitions_and_topics_that_cannot_pass_are_left_out() -> None:
    assert ranges(partition == 1) == {OTHERS: (0, 500)}
    assert ranges(topic == "customers") == {}
    assert ranges(partition.isin([0, 7])) == {ORDERS: (10, 1_000)}


def test_offsets_are_cut_to_what_may_pass() -> None:
    assert ranges((offset >= 20) & (offset < 30)) == {ORDERS: (20, 30), OTHERS: (20, 30)}
    assert ranges(offset == 700) == {ORDERS: (700, 701)}
    assert ranges(offset.isin([400, 420])) == {ORDERS: (400, 421), OTHERS: (400, 421)}
    each_its_own = ((partition == 0) & (offset > 900)) | ((partition == 1) & (offset <= 5))
    assert ranges(each_its_own) == {ORDERS: (901, 1_000), OTHERS: (0, 6)}


def test_what_is_not_about_places_rules_nothing_out() -> None:
    assert ranges(ds.field("key") == b"a") == WHOLE
    assert ranges(pc.starts_with(topic, "ord")) == WHOLE


def test_the_least_time_is_found_and_an_upper_bound_gives_none() -> None:
    at = datetime(2026, 11, 20, 12, 30, 0, 123_000, UTC)
    least = round(at.timestamp() * 1000)
    timestamp = ds.field("timestamp")

    def first(expression: Any) -> int | None:
        return PushedFilter(expression, kafka_schema()).time_first_ms()

    assert first(timestamp >= pa.scalar(at, pa.timestamp("us", "UTC"))) == least
    assert first(timestamp > pa.scalar(at, pa.timestamp("ms", "UTC"))) == least + 1
    assert first(timestamp < pa.scalar(at, pa.timestamp("us", "UTC"))) is None
    assert first(partition == 0) is None


@pytest.mark.parametrize("seed", seeds.parameters(30))
def test_no_row_that_passes_is_outside_of_the_ranges(seed: int) -> None:
    dice = random.Random(seed)
    rows = pa.table(
        {
            "topic": ["orders"] * 60,
            "partition": pa.array([number % 2 for number in range(60)], pa.int32()),
            "offset": pa.array(range(60), pa.int64()),
        }
    )
    expression = condition(dice, 3)
    whole = {ORDERS: (0, 60), OTHERS: (0, 60)}
    found = PushedFilter(expression, kafka_schema()).ranges(whole)
    for row in rows.filter(expression).to_pylist():
        first, end = found[TopicPartition(row["topic"], row["partition"])]
        assert first <= row["offset"] < end


def condition(dice: random.Random, depth: int) -> Any:
    kind = dice.randrange(7) if depth else dice.randrange(4)
    if kind == 0:
        return partition == dice.randrange(3)
    if kind == 1:
        return offset < dice.randrange(70)
    if kind == 2:
        return offset >= dice.randrange(70)
    if kind == 3:
        return offset.isin([dice.randrange(70) for _ in range(3)])
    if kind == 4:
        return ~condition(dice, depth - 1)
    left, right = condition(dice, depth - 1), condition(dice, depth - 1)
    return left & right if kind == 5 else left | right
