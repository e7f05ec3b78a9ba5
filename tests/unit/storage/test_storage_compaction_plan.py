"""Which offsets may be compacted, whether a log is due, and which segments become one."""

from __future__ import annotations

from dataclasses import dataclass

from moldau.storage.compaction.compaction_plan import (
    RELATIVE_OFFSET_MAX,
    Dirt,
    Lags,
    SourceSegment,
    group_segments,
    measure_dirt,
)

NEVER = 2**63 - 1
NOW_MS = 1_000_000
USUAL = Lags(0, NEVER, 0.5)


@dataclass
class Closed:
    base_offset: int
    offset_end: int
    size_bytes: int = 100
    first_ms: int = 10
    latest_ms: int = 20

    def latest_record_timestamp(self) -> int:
        return self.latest_ms

    def read_first_timestamp(self) -> int:
        return self.first_ms


LOG = [Closed(0, 10), Closed(10, 20), Closed(20, 30), Closed(30, 35)]


def dirt_of(
    segments: list[Closed] | None = None,
    *,
    cleaned_end: int = 0,
    log_start: int = 0,
    stable: int = NEVER,
    lags: Lags = USUAL,
) -> Dirt:
    return measure_dirt(
        LOG if segments is None else segments,
        cleaned_end=cleaned_end,
        log_start_offset=log_start,
        last_stable_offset=stable,
        lags=lags,
        now_ms=NOW_MS,
    )


def test_everything_before_the_segment_being_written_may_be_compacted() -> None:
    assert dirt_of() == Dirt(0, 30, 0, 300, False)


def test_the_dirty_part_starts_where_the_last_compaction_stopped() -> None:
    dirt = dirt_of(cleaned_end=20)
    assert (dirt.first_dirty, dirt.clean_bytes, dirt.cleanable_bytes) == (20, 200, 100)
    assert dirt.ratio == 1 / 3


def test_a_segment_that_was_mapped_half_counts_as_clean_and_as_dirty() -> None:
    dirt = dirt_of(cleaned_end=15)
    assert (dirt.clean_bytes, dirt.cleanable_bytes) == (200, 200)


def test_nothing_is_compacted_from_the_segment_of_the_first_unstable_offset_on() -> None:
    assert dirt_of(stable=19).first_uncleanable == 10
    assert dirt_of(stable=20).first_uncleanable == 20
    assert dirt_of(stable=3).cleanable_bytes == 0


def test_a_checkpoint_outside_of_the_log_counts_for_nothing() -> None:
    assert dirt_of(cleaned_end=36).first_dirty == 0
    assert dirt_of(cleaned_end=5, log_start=10).first_dirty == 10
    assert dirt_of(cleaned_end=35).first_dirty == 35


def test_a_young_segment_and_all_after_it_wait_for_the_minimal_lag() -> None:
    young = [Closed(0, 10), Closed(10, 20, latest_ms=NOW_MS - 5), Closed(20, 30), Closed(30, 35)]
    assert dirt_of(young, lags=USUAL._replace(min_ms=6)).first_uncleanable == 10
    assert dirt_of(young, lags=USUAL._replace(min_ms=5)).first_uncleanable == 30


def test_a_log_is_due_when_more_than_the_ratio_is_dirty() -> None:
    assert not Dirt(0, 1, 100, 100, False).is_due(USUAL)
    assert Dirt(0, 1, 100, 101, False).is_due(USUAL)
    assert not Dirt(0, 0, 0, 0, False).is_due(Lags(0, NEVER, 0.0))


def test_a_record_older_than_the_maximal_lag_makes_a_log_due() -> None:
    lags = Lags(0, 100, 1.0)
    assert dirt_of(lags=lags).is_overdue
    assert dirt_of(lags=lags).is_due(lags)
    fresh = [Closed(0, 10, first_ms=NOW_MS - 100), Closed(10, 10)]
    assert not dirt_of(fresh, lags=lags).is_overdue
    assert not Dirt(0, 0, 100, 0, True).is_due(lags)
    untimed = [Closed(0, 10, first_ms=-1), Closed(10, 10)]
    assert not dirt_of(untimed, lags=lags).is_overdue


def source(
    base: int, end: int, size: int = 100, index: int = 8, time_index: int = 12
) -> SourceSegment:
    return SourceSegment(f"{base}.log", base, end, size, index, time_index)


def bases(groups: list[list[SourceSegment]]) -> list[list[int]]:
    return [[segment.base_offset for segment in group] for group in groups]


def test_neighbours_that_fit_into_one_segment_become_one() -> None:
    sources = [source(0, 10), source(10, 20), source(20, 30), source(30, 40, size=250)]
    grouped = group_segments(sources, segment_bytes=200, index_bytes=1000)
    assert bases(grouped) == [[0, 10], [20], [30]]


def test_indexes_bound_a_group_too() -> None:
    sources = [source(0, 10), source(10, 20), source(20, 30)]
    by_index = group_segments(sources, segment_bytes=1000, index_bytes=24)
    assert bases(by_index) == [[0, 10], [20]]
    long_index = [source(0, 10, index=90), source(10, 20, index=11)]
    assert len(group_segments(long_index, segment_bytes=1000, index_bytes=100)) == 2


def test_offsets_of_a_group_stay_within_32_bits() -> None:
    far = RELATIVE_OFFSET_MAX + 1
    assert len(_two(0, far)) == 1
    assert len(_two(0, far + 1)) == 2
    assert len(_two(0, far + 1, size=0)) == 1


def _two(base: int, end: int, size: int = 1) -> list[list[SourceSegment]]:
    sources = [source(base, 5), source(5, end, size=size)]
    return group_segments(sources, segment_bytes=1000, index_bytes=1000)
