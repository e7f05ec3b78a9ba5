"""What late rows do to joins, without Spark: the results are those of the order of time."""

from __future__ import annotations

import random

import pytest

from moldau.pipelines.tables import table_versions
from moldau.pipelines.tables.join_bounds import duration_ms
from moldau.pipelines.tables.table_versions import Joined, StreamTableJoin, TableTableJoin, Timed
from tests.support import seeds

LONG_MS = 1_000_000


def stream_table(*, keeps_unmatched: bool = False, history_ms: int = LONG_MS) -> StreamTableJoin:
    return StreamTableJoin(history_ms=history_ms, keeps_unmatched=keeps_unmatched)


def test_a_late_version_replaces_the_results_from_its_time_to_the_next_one() -> None:
    join = stream_table()
    stream = [Timed(at, n, f"s{at}") for n, at in enumerate((3, 6, 9))]
    table = [Timed(2, 0, "a"), Timed(8, 1, "c")]
    assert join.take(stream, table) == [
        Joined("s3", "a", 3),
        Joined("s6", "a", 6),
        Joined("s9", "c", 9),
    ]
    assert join.take([], [Timed(5, 2, "b")]) == [Joined("s6", "b", 6, is_update=True)]
    assert join.take([], [Timed(5, 3, "b")]) == []  # The same row again changes nothing.


def test_at_one_time_the_later_offset_wins_and_the_table_comes_before_the_stream() -> None:
    join = stream_table()
    assert join.take([Timed(5, 0, "s")], [Timed(5, 1, "new"), Timed(5, 0, "old")]) == [
        Joined("s", "new", 5)
    ]


def test_a_result_that_was_not_given_yet_is_no_update() -> None:
    inner, left = stream_table(), stream_table(keeps_unmatched=True)
    row, version = Timed(5, 0, "s"), Timed(4, 0, "v")
    assert inner.take([row], []) == []
    assert inner.take([], [version]) == [Joined("s", "v", 5, is_update=False)]
    assert left.take([row], []) == [Joined("s", None, 5)]
    assert left.take([], [version]) == [Joined("s", "v", 5, is_update=True)]


def test_a_late_deletion_takes_a_result_back() -> None:
    join = stream_table()
    join.take([Timed(5, 0, "s")], [Timed(1, 0, "v")])
    assert join.take([], [Timed(3, 1, None)]) == [Joined("s", None, 5, is_update=True)]


def test_what_is_older_than_the_history_is_not_redone_but_its_version_still_holds() -> None:
    join = stream_table(history_ms=10)
    join.take([Timed(5, 0, "old"), Timed(95, 1, "young")], [Timed(1, 0, "a"), Timed(2, 1, "b")])
    assert [each.row for each in join.buffered] == ["young"]
    assert [each.row for each in join.versions] == ["b"]
    assert join.take([], [Timed(3, 2, "c")]) == [Joined("young", "c", 95, is_update=True)]
    assert join.take([Timed(96, 2, "next")], []) == [Joined("next", "c", 96)]


def test_a_key_keeps_so_many_rows_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_versions, "ROWS_MAX", 3)
    join = stream_table()
    join.take([Timed(n, n, n) for n in range(10)], [Timed(n, n, n) for n in range(10)])
    assert [each.row for each in join.buffered] == [7, 8, 9]
    assert [each.row for each in join.versions] == [7, 8, 9]


@pytest.mark.parametrize("seed", seeds.parameters(20))
@pytest.mark.parametrize("keeps_unmatched", [False, True])
def test_in_whatever_order_rows_come_the_last_results_are_those_of_time(
    seed: int, keeps_unmatched: bool
) -> None:
    chance = random.Random(seed)
    stream = [Timed(chance.randrange(30), n, f"s{n}") for n in range(12)]
    table = [
        Timed(chance.randrange(30), n, chance.choice(["a", "b", None, f"v{n}"])) for n in range(8)
    ]
    join = stream_table(keeps_unmatched=keeps_unmatched)
    given: dict[str, str | None] = {}
    arrivals = [(True, each) for each in stream] + [(False, each) for each in table]
    chance.shuffle(arrivals)
    while arrivals:
        size = chance.randrange(1, 4)
        batch, arrivals = arrivals[:size], arrivals[size:]
        for result in join.take(
            [r for is_s, r in batch if is_s], [r for is_s, r in batch if not is_s]
        ):
            # A result that was taken back is not there to be replaced.
            was_given = given.get(result.left) is not None or keeps_unmatched
            assert result.is_update == (result.left in given and was_given)
            given[result.left] = result.right
    expected = {}
    for row in stream:
        before = [each for each in table if each.timestamp <= row.timestamp]
        expected[row.row] = max(before, key=lambda each: each.order).row if before else None
    if not keeps_unmatched:
        # A row that had a partner and lost it says so; one that never had says nothing.
        expected = {row: found for row, found in expected.items() if found or row in given}
    assert given == expected


def test_two_tables_have_a_result_while_both_have_a_row() -> None:
    join = TableTableJoin(history_ms=LONG_MS, keeps_left=False, keeps_right=False)
    assert join.take([Timed(1, 0, "l")], []) == []
    assert join.take([], [Timed(2, 0, "r")]) == [Joined("l", "r", 2)]
    assert join.take([Timed(3, 1, "l")], []) == []  # The same row says nothing new.
    assert join.take([], [Timed(1, 1, "old")]) == []
    assert join.take([], [Timed(4, 2, None)]) == [Joined(None, None, 4, is_update=True)]
    assert join.take([], [Timed(5, 3, None)]) == []


def test_outer_joins_of_tables_keep_the_side_that_is_there() -> None:
    left, full = (
        TableTableJoin(history_ms=LONG_MS, keeps_left=True, keeps_right=each)
        for each in (False, True)
    )
    for join in (left, full):
        assert join.take([Timed(1, 0, "l")], []) == [Joined("l", None, 1)]
        assert join.take([], [Timed(2, 0, "r")]) == [Joined("l", "r", 2, is_update=True)]
    gone = [Timed(3, 1, None)]
    assert left.take(gone, []) == [Joined(None, None, 3, is_update=True)]
    assert full.take(gone, []) == [Joined(None, "r", 3, is_update=True)]


def test_a_silent_keys_rows_are_forgotten_by_the_watermark_and_its_version_stays() -> None:
    join = stream_table(history_ms=10)
    join.take([Timed(5, 0, "s"), Timed(7, 1, "s")], [Timed(1, 0, "v")])
    assert join.expiry_ms == 18
    join.expire(17)
    assert [each.timestamp for each in join.buffered] == [7]
    join.expire(18)
    assert (join.buffered, [each.row for each in join.versions]) == ([], ["v"])
    assert join.expiry_ms is None


def test_a_key_that_the_table_has_deleted_is_forgotten_after_the_history() -> None:
    join = stream_table(history_ms=10)
    join.take([], [Timed(1, 0, "v"), Timed(20, 1, None)])
    assert join.expiry_ms == 31
    join.expire(30)
    assert join.versions
    join.expire(31)
    assert (join.versions, join.expiry_ms) == ([], None)


def test_two_tables_forget_a_key_only_when_neither_has_a_row_of_it() -> None:
    join = TableTableJoin(history_ms=10, keeps_left=False, keeps_right=False)
    join.take([Timed(1, 0, "l")], [Timed(2, 0, "r")])
    join.take([Timed(3, 1, None)], [])
    assert join.expiry_ms is None
    join.take([], [Timed(5, 1, None)])
    assert join.expiry_ms == 16
    join.expire(15)
    assert join.take([], [Timed(4, 2, "older")]) == []
    join.expire(16)
    assert (join.left, join.right) == (None, None)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("500ms", 500),
        ("5000", 5_000),
        ("10 seconds", 10_000),
        ("1h", 3_600_000),
        ("1 hour 30 minutes", 5_400_000),
        ("1.5 s", 1_500),
        ("2 Days", 172_800_000),
    ],
)
def test_spans_are_written_as_for_spark_or_short(text: str, expected: int) -> None:
    assert duration_ms("within", text) == expected
