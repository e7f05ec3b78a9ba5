"""Which segments go, and what is left of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from moldau.storage.log.log_retention import expired
from tests.support.logs import LogBench, SmallSettings, batch, full_disk, read_all

NOW_MS = 1_700_000_000_000


@dataclass
class Piece:
    """A segment of ten records."""

    base_offset: int
    age_ms: int
    size_bytes: int = 100

    @property
    def offset_end(self) -> int:
        return self.base_offset + 10

    def latest_timestamp(self) -> int:
        return NOW_MS - self.age_ms


def count(
    ages: list[int],
    *,
    log_start_offset: int = 0,
    high_watermark: int = 1000,
    retention_ms: int = -1,
    retention_bytes: int = -1,
    deletes: bool = True,
    last_size_bytes: int = 100,
) -> int:
    pieces = [Piece(10 * i, age) for i, age in enumerate(ages)]
    pieces[-1].size_bytes = last_size_bytes
    return expired(
        pieces,
        now_ms=NOW_MS,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        deletes=deletes,
    ).segment_count


def test_segments_whose_last_record_is_too_old_go() -> None:
    assert count([50, 40, 30, 20], retention_ms=30) == 2
    assert count([50, 40, 30, 20], retention_ms=-1) == 0


def test_a_young_segment_protects_those_after_it() -> None:
    assert count([50, 5, 50, 50], retention_ms=30) == 1


def test_even_the_segment_being_written_goes_when_it_is_old_but_not_when_it_is_empty() -> None:
    assert count([50, 50], retention_ms=30) == 2
    assert count([50, 50], retention_ms=30, last_size_bytes=0) == 1


def test_the_oldest_go_until_the_log_is_small_enough() -> None:
    assert count([0] * 5, retention_bytes=250) == 2
    assert count([0] * 5, retention_bytes=200) == 3
    assert count([0] * 5, retention_bytes=500) == 0
    assert count([0] * 5, retention_bytes=0) == 5


def test_segments_before_the_log_start_go_even_from_a_compacted_log() -> None:
    assert count([0] * 5, log_start_offset=25, deletes=False) == 2
    assert count([0] * 5, log_start_offset=30, deletes=False) == 3
    assert count([99] * 5, retention_ms=1, retention_bytes=0, deletes=False) == 0


def test_nothing_above_the_high_watermark_goes() -> None:
    assert count([50] * 5, retention_ms=1, high_watermark=29) == 2
    assert count([50] * 5, retention_bytes=0, high_watermark=0) == 0


def test_retention_moves_the_log_start_and_the_epochs(tmp_path: Path) -> None:
    bench = LogBench(tmp_path, SmallSettings(segment_bytes=len(batch(2)), retention_ms=1000))
    for number in range(6):
        bench.append(batch(2, timestamp=NOW_MS + 1000 * number), number)
    assert bench.log.delete_old_segments(NOW_MS + 3500, 12) == 3
    assert bench.log.log_start_offset == 6
    assert bench.log.epoch_end_offset(0) == (0, 6)
    assert len([path for path in bench.discarded if path.endswith(".log.deleted")]) == 3
    assert read_all(bench.log)[0].base_offset == 6
    assert bench.file(2, ".snapshot").exists() is False
    assert bench.file(6, ".snapshot").exists()


def test_a_log_whose_records_are_all_too_old_goes_on_empty(tmp_path: Path) -> None:
    bench = LogBench(tmp_path, SmallSettings(retention_ms=1000))
    bench.append(batch(5, timestamp=NOW_MS, producer_id=1, epoch=0, sequence=0))
    assert bench.log.delete_old_segments(NOW_MS + 5000, 5) == 1
    assert (bench.log.log_start_offset, bench.log.offset_end) == (5, 5)
    assert bench.log.delete_old_segments(NOW_MS + 5000, 5) == 0
    log = bench.stop_and_open()
    assert (log.log_start_offset, log.offset_end) == (5, 5)
    assert log.producers.is_next(1, 0, 5, False)


def test_segments_without_timestamps_go_by_the_age_of_the_file(tmp_path: Path) -> None:
    bench = LogBench(tmp_path, SmallSettings(retention_ms=1000))
    bench.append(batch(1, timestamp=-1))
    written_ms = int(bench.file(0, ".log").stat().st_mtime * 1000)
    assert bench.log.delete_old_segments(written_ms + 900, 1) == 0
    assert bench.log.delete_old_segments(written_ms + 1100, 1) == 1


def test_segments_can_be_deleted_from_a_full_disk(tmp_path: Path) -> None:
    bench = LogBench(tmp_path, SmallSettings(segment_bytes=len(batch(2)), retention_bytes=0))
    for number in range(4):
        bench.append(batch(2), number)
    with full_disk(0):
        assert bench.log.delete_old_segments(NOW_MS, 7) == 3
    assert bench.log.log_start_offset == 6
    assert len([path for path in bench.discarded if path.endswith(".log.deleted")]) == 3
    assert bench.stop_and_open().epoch_end_offset(0) == (0, 6)
