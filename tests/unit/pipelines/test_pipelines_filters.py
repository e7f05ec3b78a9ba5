"""Filters that Spark hands down: what they rule out, and what is left to Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from moldau.model.names import TopicPartition
from moldau.pipelines.source.pushed_filters import Bounds, push

T0 = datetime(2026, 1, 1, tzinfo=UTC)
T0_MS = 1_767_225_600_000


def test_topic_partition_and_offset_are_met_in_full() -> None:
    bounds, left = push(
        [
            IsNotNull(("topic",)),
            In(("topic",), ("a", "b")),
            EqualTo(("topic",), "a"),
            GreaterThan(("partition",), 0),
            LessThanOrEqual(("partition",), 2),
            GreaterThanOrEqual(("offset",), 10),
            LessThan(("offset",), 20),
        ]
    )
    assert left == []
    assert (bounds.offset_first, bounds.offset_end) == (10, 20)
    admitted = [
        tp
        for topic in "abc"
        for index in range(5)
        if bounds.admits(tp := TopicPartition(topic, index))
    ]
    assert admitted == [TopicPartition("a", 1), TopicPartition("a", 2)]


def test_bounds_of_several_filters_are_those_that_all_allow() -> None:
    bounds, _ = push(
        [GreaterThan(("offset",), 5), EqualTo(("offset",), 9), In(("partition",), (1,))]
    )
    assert (bounds.offset_first, bounds.offset_end) == (9, 10)
    assert not bounds.admits(TopicPartition("a", 0))


@pytest.mark.parametrize(
    "each",
    [
        Not(EqualTo(("topic",), "a")),
        StringStartsWith(("topic",), "a"),
        EqualTo(("value",), b"x"),
        EqualTo(("headers", "key"), "x"),
        EqualTo(("offset",), 1.5),
        LessThan(("timestamp",), T0),
        LessThanOrEqual(("timestamp",), T0),
        GreaterThan(("timestamp",), datetime(1969, 1, 1, tzinfo=UTC)),
    ],
)
def test_what_cannot_be_met_is_left_to_spark(each: Any) -> None:
    assert push([each]) == (Bounds(), [each])


@pytest.mark.parametrize("kind", [EqualTo, GreaterThan, GreaterThanOrEqual])
def test_a_least_timestamp_narrows_the_read_and_stays_with_spark(kind: Any) -> None:
    each = kind(("timestamp",), T0)
    bounds, left = push([each])
    assert left == [each]
    assert bounds.timestamp_first_ms is not None
    assert T0_MS - 2 <= bounds.timestamp_first_ms <= T0_MS
