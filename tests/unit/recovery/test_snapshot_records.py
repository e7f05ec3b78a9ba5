"""Increments and full snapshots as bytes, whole, torn and strange."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from moldau import TopicPartition
from moldau.recovery import FullPart, Increment, Topics, numbered_id, partition_id
from moldau.recovery.snapshot_records import PART_BYTES, parts_of, state_of


def test_an_increment_survives_its_bytes() -> None:
    increment = Increment(1001, (0,), 5, 1)
    assert Increment.decoded(increment.encoded()) == increment
    assert Increment(3).full is None


@pytest.mark.parametrize(
    "value",
    [
        *(None, b"", b"7", b"[]", b"{", b"\xff\xfe", b'{"end": 1}'),
        b'{"end":-1,"fulls":[],"origin":0,"number":0}',
        b'{"end":1,"fulls":["x"],"origin":0,"number":0}',
    ],
)
def test_other_bytes_are_no_increment(value: bytes | None) -> None:
    assert Increment.decoded(value) is None
    assert FullPart.decoded(value) is None


@pytest.mark.parametrize("size", [0, 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES])
def test_a_state_of_any_size_survives_its_parts(size: int) -> None:
    state = bytes(number % 251 for number in range(size))
    parts = list(parts_of("a", 1000, state))
    assert all(len(piece) <= PART_BYTES for _, piece in parts)
    assert [FullPart.decoded(part.encoded()) for part, _ in parts] == [part for part, _ in parts]
    assert state_of(parts) == (1000, state)


def test_a_torn_or_damaged_state_is_none() -> None:
    parts = list(parts_of("a", 1000, bytes(2 * PART_BYTES)))
    assert state_of([]) is None
    assert state_of(parts[:1]) is None
    assert state_of(parts[1:]) is None
    assert state_of([parts[1], parts[0]]) is None
    flipped = [(parts[0][0], b"\1" + parts[0][1][1:]), parts[1]]
    assert state_of(flipped) is None
    others = [parts[0], (replace(parts[1][0], name="b"), parts[1][1])]
    assert state_of(others) is None


def test_a_part_beyond_the_last_is_none() -> None:
    assert FullPart.decoded(FullPart("a", 0, 1, 1, 0).encoded()) is None
    assert FullPart.decoded(FullPart("a", 0, 0, 1 << 40, 0).encoded()) is None


def test_names_of_transactional_producers() -> None:
    ids = [partition_id("g", TopicPartition("t", number), "tx-") for number in range(3)]
    assert ids[0] == "tx-g.t.0"
    assert all(one != other for one, other in pairwise(ids))
    assert numbered_id("CLEAR", 7) == "CLEAR-TID-7"
    with pytest.raises(ValueError, match="negative"):
        numbered_id("CLEAR", -1)


def test_the_three_topics_must_differ() -> None:
    assert Topics("a") == Topics("a", "a-increments", "a-fulls")
    with pytest.raises(ValueError, match="three topics"):
        Topics("a", fulls="a")
