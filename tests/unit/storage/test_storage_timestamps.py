"""Offsets by timestamp, through the time index and into the batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.records.batch_codec import Record, encode_batch
from moldau.records.compression import Codec
from moldau.storage.log import offsets_by_timestamp
from moldau.storage.log.offsets_by_timestamp import TimeSearch
from tests.support import seeds
from tests.support.logs import LogBench, SmallSettings, batch, first_from, latest_of

NOW_MS = 1_700_000_000_000


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    return LogBench(tmp_path, SmallSettings(segment_bytes=3000, index_interval_bytes=400))


def test_the_first_record_that_is_not_earlier_is_found(bench: LogBench) -> None:
    """Against a plain search over all records, with timestamps that wander."""
    chance = seeds.chance(7)
    written: list[tuple[int, int]] = []
    for number in range(200):
        stamps = [NOW_MS + 10 * number + chance.randrange(-300, 300) for _ in range(3)]
        rows = [Record(0, stamp, None, b"v") for stamp in stamps]
        appended = bench.append(encode_batch(rows, codec=chance.choice(list(Codec))), 2)
        written += [(stamp, appended.base_offset + i) for i, stamp in enumerate(stamps)]
    assert len(bench.log.segments) > 5
    for log in (bench.log, bench.stop_and_open()):
        for stamp in range(NOW_MS - 400, NOW_MS + 2400, 37):
            expected = next(((t, o) for t, o in written if t >= stamp), None)
            found = first_from(log, stamp)
            assert (None if found is None else found[:2]) == expected
            assert found is None or found.leader_epoch == 2


def test_records_before_the_log_start_are_not_found(bench: LogBench) -> None:
    bench.append(batch(10, timestamp=NOW_MS))
    bench.log.advance_log_start(4)
    assert first_from(bench.log, NOW_MS) == (NOW_MS + 4, 4, 0)


def test_a_batch_stamped_by_the_log_has_one_time_for_all(bench: LogBench) -> None:
    rows = [Record(0, 1, None, b"v"), Record(0, 2, None, b"v")]
    bench.append(encode_batch(rows, log_append_time_ms=NOW_MS))
    bench.append(encode_batch(rows, log_append_time_ms=NOW_MS + 5))
    assert first_from(bench.log, 2) == (NOW_MS, 0, 0)
    assert first_from(bench.log, NOW_MS + 1) == (NOW_MS + 5, 2, 0)
    assert latest_of(bench.log) == (NOW_MS + 5, 2, 0)


def test_the_record_with_the_largest_timestamp_is_found_wherever_it_is(bench: LogBench) -> None:
    assert latest_of(bench.log) is None
    for number in range(100):
        rows = [Record(0, NOW_MS + number, None, b"v"), Record(0, NOW_MS, None, b"v")]
        if number == 30:
            rows[1] = Record(0, NOW_MS + 5000, None, b"v")
        bench.append(encode_batch(rows))
    for log in (bench.log, bench.stop_and_open(), bench.crash_and_open()):
        assert latest_of(log) == (NOW_MS + 5000, 61, 0)
        assert log.max_timestamp == NOW_MS + 5000


def test_records_without_timestamps_are_never_found(bench: LogBench) -> None:
    bench.append(encode_batch([Record(0, -1, None, b"v")]))
    assert first_from(bench.log, 0) is None
    assert latest_of(bench.log) is None
    assert bench.log.max_timestamp == -1


def test_a_long_search_lets_others_have_a_turn_and_finds_the_same(
    bench: LogBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets_by_timestamp, "BATCHES_PER_TURN", 2)
    for _ in range(7):
        bench.append(batch(1, timestamp=NOW_MS))
    bench.append(batch(1, timestamp=NOW_MS + 5))
    search = bench.log.time_search(NOW_MS + 1)
    turns = 0
    while isinstance(search, TimeSearch):
        search, turns = search.run(), turns + 1
    assert search == (NOW_MS + 5, 7, 0)
    assert turns == 4


def test_a_search_ends_as_it_began_though_its_segment_is_deleted(bench: LogBench) -> None:
    bench.append(batch(2, timestamp=NOW_MS))
    search = bench.log.time_search(NOW_MS)
    assert search is not None
    bench.log.segments.active.mark_deleted()
    assert search.run() == (NOW_MS, 0, 0)
