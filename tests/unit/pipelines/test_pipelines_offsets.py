"""Offsets as JSON, limits of a trigger, and how ranges are cut into tasks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.model.names import TopicPartition
from moldau.pipelines.source.source_offsets import (
    OffsetRange,
    Position,
    limit_rows,
    offsets_from,
    offsets_text,
    offsets_to,
    parse_offsets,
    parse_partitions,
    split_ranges,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_offsets_are_written_as_the_connector_writes_them() -> None:
    assert offsets_text({B0: 5, A1: -2, A0: 23}) == '{"a":{"0":23,"1":-2},"b":{"0":5}}'


def test_the_order_of_partitions_does_not_show_in_the_json() -> None:
    many = {TopicPartition("a", index): index for index in range(12)}
    backwards = dict(reversed(many.items()))
    assert offsets_text(many) == offsets_text(backwards)
    assert offsets_from(offsets_to(backwards)) == many


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{", "not JSON"),
        ("[1]", "JSON object"),
        ('{"a":5}', "a must have an object"),
        ('{"a":{"x":5}}', "'x' is not a partition of a"),
        ('{"a":{"0":"5"}}', "'5' is not the offset of a-0"),
        ('{"a":{"0":true}}', "True is not the offset of a-0"),
    ],
)
def test_wrong_offsets_are_told_in_words(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        parse_offsets(text)


def test_partitions_to_assign_are_read_and_checked() -> None:
    assert parse_partitions('{"a":[0,1],"b":[0]}') == {A0, A1, B0}
    with pytest.raises(ValueError, match="names no partition"):
        parse_partitions("{}")
    with pytest.raises(ValueError, match="-1 is not a partition of a"):
        parse_partitions('{"a":[-1]}')


def test_a_limit_is_shared_in_proportion_and_starves_none() -> None:
    start = {A0: 0, A1: 100, B0: 7}
    end = {A0: 900, A1: 199, B0: 8}
    limited = limit_rows(start, end, 100)
    assert limited == {A0: 90, A1: 109, B0: 8}


def test_a_limit_beyond_what_waits_changes_nothing() -> None:
    assert limit_rows({A0: 0}, {A0: 50, A1: 10}, 60) == {A0: 50, A1: 10}


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(0, 10**12), min_size=1, max_size=8),
    rows_max=st.integers(1, 10**12),
)
def test_limited_ends_always_move_on_and_never_beyond_the_end(
    sizes: list[int], rows_max: int
) -> None:
    start = {TopicPartition("a", index): 10 for index in range(len(sizes))}
    end = {tp: 10 + size for tp, size in zip(start, sizes, strict=True)}
    limited = limit_rows(start, end, rows_max)
    assert all(start[tp] <= limited[tp] <= end[tp] for tp in end)
    assert all(limited[tp] > start[tp] for tp in end if end[tp] > start[tp])
    assert sum(limited[tp] - start[tp] for tp in end) <= rows_max + len(sizes)


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(0, 1000), min_size=1, max_size=6),
    count_min=st.none() | st.integers(1, 20),
    rows_max=st.none() | st.integers(1, 500),
)
def test_cut_ranges_cover_the_same_offsets_once(
    sizes: list[int], count_min: int | None, rows_max: int | None
) -> None:
    ranges = [OffsetRange(TopicPartition("a", i), 5, 5 + size) for i, size in enumerate(sizes)]
    parts = split_ranges(ranges, count_min, rows_max)
    covered = [(part.tp, offset) for part in parts for offset in range(part.start, part.end)]
    expected = [(each.tp, offset) for each in ranges for offset in range(each.start, each.end)]
    assert covered == expected
    assert all(part.size > 0 for part in parts)
    if rows_max is not None:
        assert all(part.size <= rows_max for part in parts)
    if count_min is not None:
        assert len(parts) >= min(count_min, sum(sizes))


def test_a_position_names_its_topics_by_id_in_members_without_partitions() -> None:
    position = Position({A0: 5, B0: 7}, {"b": bytes(range(16)), "a": bytes([1] * 16)})
    value = position.encode()
    assert list(value) == [
        "a",
        "b",
        "a#AQEBAQEBAQEBAQEBAQEBAQ",
        "b#AAECAwQFBgcICQoLDA0ODw",
    ]
    assert Position.decode(value) == position
    # Who knows nothing of ids reads the same offsets.
    assert offsets_from(value) == position.offsets
    assert Position.decode({"a": {"0": 5}}) == Position({A0: 5}, {})


def test_offsets_of_another_topic_of_that_name_mean_nothing() -> None:
    position = Position({A0: 5, B0: 7}, {"a": bytes([1] * 16)})
    assert position.offsets_in({"a": bytes([1] * 16), "b": bytes([3] * 16)}) == position.offsets
    assert position.offsets_in({"a": bytes([2] * 16)}) == {B0: 7}
    assert position.offsets_in({}) == position.offsets
