"""A partition's log: appending, reading, rolling, truncating, flushing, disk faults."""

from __future__ import annotations

import errno
import os
from itertools import pairwise
from pathlib import Path

import pytest

from moldau.model.errors import ApiError, Error
from moldau.records.batch import read_header
from moldau.records.batch_codec import Record, decode_batch, encode_batch
from moldau.storage.log.segment import TAIL_BATCHES_MAX
from moldau.storage.log_settings import INDEX_INTERVAL_BYTES_MAX
from moldau.storage.storage_faults import StorageFault
from tests.support.logs import (
    LogBench,
    SmallSettings,
    batch,
    full_disk,
    headers_of,
    read_all,
    region_bytes,
    spans,
)

NOW_MS = 1_700_000_000_000


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    return LogBench(tmp_path)


def small(tmp_path: Path, **settings: int) -> LogBench:
    return LogBench(tmp_path, SmallSettings(**{"index_interval_bytes": 300, **settings}))


# Appending


def test_batches_get_the_next_offsets_and_the_leader_epoch(bench: LogBench) -> None:
    assert bench.append(batch(3), 7)[:2] == (0, 2)
    assert bench.append(batch(1), 7)[:2] == (3, 3)
    assert bench.log.offset_end == 4
    assert [(h.base_offset, h.leader_epoch) for h in read_all(bench.log)] == [(0, 7), (3, 7)]


def test_what_is_stored_is_what_was_sent_apart_from_offset_and_epoch(bench: LogBench) -> None:
    sent = batch(5)
    bench.append(batch(2), 0)
    bench.append(sent, 4)
    region = bench.log.read(2, 10_000, 99).region
    assert region is not None
    stored = region_bytes(region)
    assert stored[16:] == sent[16:]
    assert [record.offset for record in decode_batch(stored)] == [2, 3, 4, 5, 6]


def test_an_answer_tells_the_append_time_only_where_the_log_gives_it(bench: LogBench) -> None:
    assert bench.append(batch()).log_append_time_ms == -1
    stamped = encode_batch([Record(0, 5, None, b"v")], log_append_time_ms=NOW_MS)
    assert bench.append(stamped).log_append_time_ms == NOW_MS


def test_a_repeated_batch_is_answered_as_the_first_time_and_not_stored(bench: LogBench) -> None:
    first = bench.append(batch(3, producer_id=5, epoch=0, sequence=0))
    bench.append(batch(3, producer_id=5, epoch=0, sequence=3))
    again = bench.append(batch(3, producer_id=5, epoch=0, sequence=0))
    assert again.duplicate
    assert again[:2] == first[:2] == (0, 2)
    assert bench.log.offset_end == 6


def test_a_refused_sequence_stores_nothing(bench: LogBench) -> None:
    bench.append(batch(producer_id=5, epoch=0, sequence=0))
    with pytest.raises(ApiError) as refused:
        bench.append(batch(producer_id=5, epoch=0, sequence=2))
    assert refused.value.error == Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert bench.log.offset_end == 1
    bench.append(batch(producer_id=5, epoch=0, sequence=1))


def test_a_follower_keeps_the_offsets_and_epochs_of_its_leader(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    leader, follower = LogBench(tmp_path / "a"), LogBench(tmp_path / "b")
    for epoch in (0, 0, 2, 5):
        leader.append(batch(3, producer_id=1, epoch=0, sequence=leader.log.offset_end), epoch)
    region = leader.log.read(0, 1 << 20, 12).region
    assert region is not None
    assert follower.log.append_as_follower(region_bytes(region)) == 12
    assert read_all(follower.log) == read_all(leader.log)
    assert follower.log.epoch_end_offset(1) == (0, 6)
    assert follower.log.producers.is_next(1, 0, 12, False)


def test_a_follower_refuses_damaged_and_repeated_batches(bench: LogBench) -> None:
    good = encode_batch([Record(0, NOW_MS, None, b"v")], base_offset=0, leader_epoch=0)
    bench.log.append_as_follower(good)
    with pytest.raises(ApiError) as repeated:
        bench.log.append_as_follower(good)
    assert repeated.value.error == Error.OFFSET_OUT_OF_RANGE
    damaged = bytearray(encode_batch([Record(0, NOW_MS, None, b"v")], base_offset=1))
    damaged[-1] ^= 1
    with pytest.raises(ApiError) as refused:
        bench.log.append_as_follower(damaged)
    assert refused.value.error == Error.CORRUPT_MESSAGE
    assert bench.log.offset_end == 1


# Reading


def test_a_read_in_the_middle_of_a_batch_returns_the_whole_batch(bench: LogBench) -> None:
    for _ in range(3):
        bench.append(batch(10))
    for offset in range(30):
        read = bench.log.read(offset, 1, 30)
        assert spans(headers_of(read.region)) == [(offset // 10 * 10, offset // 10 * 10 + 9)]


def test_a_read_at_the_end_is_empty_and_one_outside_is_out_of_range(bench: LogBench) -> None:
    bench.append(batch(3))
    bench.log.advance_log_start(1)
    assert bench.log.read(3, 100, 3).region is None
    for offset in (0, 4, -1):
        with pytest.raises(ApiError) as refused:
            bench.log.read(offset, 100, 3)
        assert refused.value.error == Error.OFFSET_OUT_OF_RANGE


def test_a_read_stops_before_the_limit(bench: LogBench) -> None:
    for _ in range(5):
        bench.append(batch(2))
    assert bench.log.read(0, 1 << 20, 6).offset_end == 6
    # A limit inside a batch keeps the whole batch back.
    assert bench.log.read(0, 1 << 20, 7).offset_end == 6
    assert bench.log.read(6, 1 << 20, 7).region is None
    assert bench.log.read(6, 1 << 20, 6).region is None


def test_a_read_takes_whole_batches_up_to_the_size(bench: LogBench) -> None:
    for _ in range(10):
        bench.append(batch(1, size=100))
    size = read_all(bench.log)[0].size_bytes
    for fits in range(1, 10):
        for spare in (0, 1, size - 1):
            read = bench.log.read(0, fits * size + spare, 10)
            assert read.region is not None
            assert read.region.size_bytes == fits * size
            assert read.offset_end == fits


def test_a_batch_larger_than_the_size_comes_only_if_one_must(bench: LogBench) -> None:
    bench.append(batch(1, size=1000))
    bench.append(batch(1, size=1000))
    assert bench.log.read(0, 500, 2, min_one_batch=False).region is None
    read = bench.log.read(0, 500, 2, min_one_batch=True)
    assert spans(headers_of(read.region)) == [(0, 0)]


@pytest.mark.parametrize("segment_bytes", [1 << 30, 4000])
def test_reads_by_index_and_by_memory_agree(tmp_path: Path, segment_bytes: int) -> None:
    """Far more batches than are remembered, so that most reads go through the index."""
    bench = small(tmp_path, segment_bytes=segment_bytes)
    count = TAIL_BATCHES_MAX + 500 if segment_bytes > 4000 else 300
    for number in range(count):
        bench.append(batch(1 + number % 3, size=number % 40))
    headers = read_all(bench.log, 1000)
    assert [h.base_offset for h in headers[1:]] == [h.offset_end for h in headers[:-1]]
    assert headers[-1].offset_end == bench.log.offset_end
    again = read_all(bench.stop_and_open(), 777)
    assert again == headers
    limit = headers[100].offset_end
    for header in headers[:100:7]:
        for max_bytes in (1, 200, 900, 50_000):
            read = bench.log.read(header.last_offset, max_bytes, limit)
            found = headers_of(read.region)
            assert found[0] == header
            assert found[-1].offset_end == read.offset_end <= limit
            assert sum(h.size_bytes for h in found) <= max(max_bytes, header.size_bytes)


def test_a_region_stays_readable_after_its_segment_was_deleted(tmp_path: Path) -> None:
    bench = small(tmp_path)
    bench.append(batch(5))
    region = bench.log.read(0, 10_000, 5).region
    assert region is not None
    before = region_bytes(region)
    bench.log.roll()
    bench.log.advance_log_start(5)
    assert bench.log.delete_old_segments(NOW_MS, 5) == 1
    for path in bench.discarded:
        os.unlink(path)
    assert region_bytes(region) == before


def test_the_descriptor_goes_with_the_last_region(tmp_path: Path) -> None:
    bench = small(tmp_path)
    bench.append(batch(5))
    region = bench.log.read(0, 10_000, 5).region
    assert region is not None
    descriptor = region.file.fileno()
    bench.log.close()
    os.fstat(descriptor)
    del region
    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_only_a_few_closed_segments_stay_open(tmp_path: Path) -> None:
    bench = small(tmp_path, segment_bytes=1000)
    for _ in range(100):
        bench.append(batch(1, size=300))
    before = len(os.listdir("/proc/self/fd"))
    read_all(bench.log)
    assert len(bench.log.segments) > 20
    assert len(os.listdir("/proc/self/fd")) <= before + 8


# Rolling


def test_a_segment_rolls_when_the_next_batch_would_exceed_its_size(tmp_path: Path) -> None:
    size = len(batch())
    bench = small(tmp_path, segment_bytes=3 * size)
    for _ in range(7):
        bench.append(batch())
    assert [segment.base_offset for segment in bench.log.segments] == [0, 3, 6]
    assert bench.rolled == [3, 6]


def test_a_segment_rolls_by_the_time_between_its_first_batch_and_the_next(tmp_path: Path) -> None:
    bench = small(tmp_path, segment_ms=1000)
    bench.append(batch(timestamp=NOW_MS))
    bench.append(batch(timestamp=NOW_MS + 1000))
    assert len(bench.log.segments) == 1
    bench.append(batch(timestamp=NOW_MS + 1001))
    assert [segment.base_offset for segment in bench.log.segments] == [0, 2]
    # The old first batch counts after a restart too.
    bench.stop_and_open()
    bench.append(batch(timestamp=NOW_MS + 2001))
    bench.append(batch(timestamp=NOW_MS + 2002))
    assert [segment.base_offset for segment in bench.log.segments] == [0, 2, 4]


def test_jitter_makes_segments_roll_earlier(tmp_path: Path) -> None:
    bench = small(tmp_path, segment_ms=1000, segment_jitter_ms=900)
    bench.append(batch(timestamp=NOW_MS))
    jitter_ms = bench.log.segments.active.jitter_ms
    assert 0 <= jitter_ms < 900
    bench.append(batch(timestamp=NOW_MS + 1000 - jitter_ms))
    assert len(bench.log.segments) == 1
    bench.append(batch(timestamp=NOW_MS + 1001 - jitter_ms))
    assert len(bench.log.segments) == 2


def test_batches_without_timestamps_roll_by_the_clock(tmp_path: Path) -> None:
    bench = small(tmp_path, segment_ms=1000)
    timeless = encode_batch([Record(0, -1, None, b"v")])
    bench.append(timeless)
    bench.clock.now_ms += 1000
    bench.append(timeless)
    assert len(bench.log.segments) == 1
    bench.clock.now_ms += 1
    bench.append(timeless)
    assert len(bench.log.segments) == 2


def test_a_segment_rolls_when_an_index_is_full(tmp_path: Path) -> None:
    bench = small(tmp_path, segment_index_bytes=12 * 5, index_interval_bytes=0)
    for number in range(20):
        bench.append(batch(timestamp=NOW_MS + number))
    sizes = [os.path.getsize(bench.directory / name) for name in bench.files(".timeindex")]
    assert len(sizes) > 3
    assert max(sizes) <= 12 * 5


def test_a_segment_rolls_before_offsets_outgrow_its_index(bench: LogBench) -> None:
    far = 2**31 + 5
    bench.log.append_as_follower(encode_batch([Record()], base_offset=0))
    bench.log.append_as_follower(encode_batch([Record()], base_offset=far))
    assert [segment.base_offset for segment in bench.log.segments] == [0, far - (2**31 - 1)]
    assert spans(read_all(bench.log)) == [(0, 0), (far, far)]


def test_a_changed_setting_counts_from_the_next_batch_on(bench: LogBench) -> None:
    bench.append(batch())
    bench.change(segment_bytes=len(batch()))
    bench.append(batch())
    assert len(bench.log.segments) == 2
    bench.change(segment_bytes=1 << 30, internal_segment_bytes=10)
    with pytest.raises(ApiError) as refused:
        bench.append(batch())
    assert refused.value.error == Error.RECORD_LIST_TOO_LARGE


def test_preallocated_space_is_given_back(tmp_path: Path) -> None:
    bench = LogBench(tmp_path, SmallSettings(segment_bytes=50_000, preallocate=True))
    path = bench.file(0, ".log")
    assert path.stat().st_size == 50_000
    bench.append(batch(3))
    bench.log.roll()
    assert path.stat().st_size == bench.log.segments.as_list()[0].size_bytes
    bench.append(batch(4))
    assert spans(read_all(bench.crash_and_open())) == [(0, 2), (3, 6)]


# Truncating


def test_truncation_drops_the_offset_and_everything_after_it(tmp_path: Path) -> None:
    bench = small(tmp_path, segment_bytes=1000)
    for number in range(30):
        bench.append(batch(2), number // 10)
    bench.log.truncate_to(23)
    # Half a batch cannot stay.
    assert bench.log.offset_end == 22
    assert bench.log.latest_epoch == 1
    assert spans(read_all(bench.log))[-1] == (20, 21)
    assert bench.append(batch(), 5)[:2] == (22, 22)
    assert spans(read_all(bench.stop_and_open()))[-1] == (22, 22)


def test_truncation_takes_producers_back(bench: LogBench) -> None:
    bench.append(batch(producer_id=5, epoch=0, sequence=0))
    bench.append(batch(producer_id=5, epoch=0, sequence=1))
    bench.append(batch(producer_id=6, epoch=0, sequence=0))
    bench.log.truncate_to(1)
    assert bench.log.producers.is_next(5, 0, 1, False)
    assert bench.log.producers.entry(6) is None


def test_truncation_to_before_the_log_starts_it_anew_there(tmp_path: Path) -> None:
    bench = small(tmp_path, segment_bytes=1000)
    for _ in range(30):
        bench.append(batch(2))
    bench.log.advance_log_start(50)
    bench.log.delete_old_segments(NOW_MS, 60)
    bench.log.truncate_to(10)
    assert (bench.log.log_start_offset, bench.log.offset_end) == (10, 10)
    assert bench.append(batch())[:2] == (10, 10)
    assert bench.files(".log") == ["00000000000000000010.log"]


def test_truncating_fully_leaves_nothing(bench: LogBench) -> None:
    bench.append(batch(3, producer_id=5, epoch=0, sequence=0), 4)
    bench.log.truncate_fully(100)
    assert (bench.log.log_start_offset, bench.log.offset_end) == (100, 100)
    assert len(bench.log.producers) == 0
    assert bench.log.latest_epoch == -1
    bench.append(batch(), 9)
    assert spans(read_all(bench.log)) == [(100, 100)]


# Flushing


def test_a_flush_moves_the_recovery_point(bench: LogBench) -> None:
    bench.append(batch(3))
    assert bench.log.recovery_point == 0
    bench.log.flush()
    assert bench.log.recovery_point == 3
    assert bench.log.begin_flush() is None


def test_after_a_roll_the_closed_segments_can_be_flushed_alone(bench: LogBench) -> None:
    bench.append(batch(3))
    bench.log.roll()
    bench.append(batch(2))
    work = bench.log.begin_flush(closed_only=True)
    assert work is not None
    bench.log.finish_flush(work, work.run())
    assert bench.log.recovery_point == 3


def test_a_flush_that_a_truncation_overtook_counts_for_nothing(bench: LogBench) -> None:
    bench.append(batch(3))
    work = bench.log.begin_flush()
    bench.log.truncate_to(0)
    bench.append(batch(5))
    assert work is not None
    bench.log.finish_flush(work, work.run())
    assert bench.log.recovery_point == 0


def test_records_are_flushed_when_so_many_have_come(tmp_path: Path) -> None:
    bench = small(tmp_path, flush_messages=5)
    bench.append(batch(4))
    assert bench.log.recovery_point == 0
    bench.append(batch(2))
    assert bench.log.recovery_point == 6


def test_with_one_as_the_limit_no_record_is_answered_before_it_is_on_disk(tmp_path: Path) -> None:
    bench = small(tmp_path, flush_messages=1)
    for count in range(1, 4):
        bench.append(batch(1))
        assert bench.log.recovery_point == count


# Faults


def test_a_write_cut_short_by_a_full_disk_leaves_the_log_as_it_was(bench: LogBench) -> None:
    bench.append(batch(3))
    size = bench.log.size_bytes
    with full_disk(size + 40), pytest.raises(StorageFault) as fault:
        bench.append(batch(3))
    assert fault.value.errno == errno.EFBIG
    assert fault.value.path == str(bench.file(0, ".log"))
    assert bench.file(0, ".log").stat().st_size == size
    assert bench.log.offset_end == 3
    # There is room again: the log goes on as if nothing had happened.
    assert bench.append(batch(2))[:2] == (3, 4)
    assert spans(read_all(bench.crash_and_open())) == [(0, 2), (3, 4)]


def test_a_refused_write_leaves_no_trace_in_the_producer_state(bench: LogBench) -> None:
    bench.append(batch(producer_id=5, epoch=0, sequence=0))
    with full_disk(bench.log.size_bytes), pytest.raises(StorageFault):
        bench.append(batch(producer_id=5, epoch=0, sequence=1))
    assert not bench.append(batch(producer_id=5, epoch=0, sequence=1)).duplicate


def test_a_roll_that_fails_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    bench = small(tmp_path, segment_bytes=500)
    bench.append(batch(1, size=250))
    in_the_way = bench.file(1, ".log")
    in_the_way.mkdir()
    with pytest.raises(StorageFault, match="Is a directory"):
        bench.append(batch(1, size=250))
    in_the_way.rmdir()
    assert bench.log.offset_end == 1
    assert bench.append(batch(1, size=250))[:2] == (1, 1)


def test_a_log_whose_flush_failed_takes_no_more_batches(bench: LogBench) -> None:
    bench.append(batch())
    work = bench.log.begin_flush()
    assert work is not None
    bench.log.finish_flush(work, StorageFault("cannot flush", "x", errno.EIO))
    assert bench.log.recovery_point == 0
    with pytest.raises(StorageFault, match="Input/output error"):
        bench.append(batch())


def test_a_read_of_a_missing_file_is_a_fault_that_names_it(tmp_path: Path) -> None:
    bench = small(tmp_path, segment_bytes=500)
    for _ in range(10):
        bench.append(batch(1, size=250))
    bench.log.segments.cool()
    os.unlink(bench.file(1, ".log"))
    with pytest.raises(StorageFault, match=r"00000000000000000001\.log: No such file"):
        bench.log.read(1, 100, 10)


def test_headers_are_stamped_in_place(bench: LogBench) -> None:
    """The leader's one write is of the very bytes that came in."""
    bench.append(batch(4))
    buffer = bytearray(batch(2))
    view = memoryview(buffer)
    bench.log.append_as_leader(view, read_header(view), 6)
    assert read_header(buffer)[:3] == (4, len(buffer) - 12, 6)


def test_a_reader_never_walks_over_more_than_a_megabyte_to_find_an_offset(tmp_path: Path) -> None:
    bench = small(tmp_path, index_interval_bytes=2**31 - 1, segment_bytes=1 << 30)
    for _ in range(40):
        bench.append(batch(1, size=100_000))
    index = bench.log.segments.active.offset_index
    positions = [index.floor(offset).position for offset in range(40)]
    assert (
        max(after - before for before, after in pairwise(positions))
        <= INDEX_INTERVAL_BYTES_MAX * 1.2
    )
    assert len(index) == 3
