"""Starting on what a crash, a careless hand or another broker left behind."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from moldau.records.batch_codec import Record, encode_batch
from tests.support import seeds
from tests.support.logs import (
    LogBench,
    SmallSettings,
    batch,
    first_from,
    full_disk,
    read_all,
    spans,
)
from tests.support.virtual_time import ManualClock

NOW_MS = 1_700_000_000_000
SMALL = SmallSettings(segment_bytes=2000, index_interval_bytes=300)


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    """Several segments, idempotent producers, two epochs; the last batch is 5 records."""
    made = LogBench(tmp_path, SMALL)
    for number in range(60):
        made.append(
            batch(
                2,
                timestamp=NOW_MS + number,
                producer_id=number % 3,
                epoch=0,
                sequence=number // 3 * 2,
            ),
            number // 30,
        )
    made.append(batch(5, timestamp=NOW_MS + 99, size=5), 1)
    return made


def index_files(bench: LogBench) -> dict[str, bytes]:
    names = bench.files(".index") + bench.files(".timeindex") + bench.files(".txnindex")
    return {name: (bench.directory / name).read_bytes() for name in names}


def test_after_kill_nothing_that_was_written_is_lost(bench: LogBench) -> None:
    before = read_all(bench.log)
    log = bench.crash_and_open()
    assert read_all(log) == before
    assert log.offset_end == 125
    assert log.epoch_end_offset(0) == (0, 60)
    assert all(log.producers.is_next(producer_id, 0, 40, False) for producer_id in range(3))
    assert log.recovery_point == 0


def test_recovery_makes_the_same_indexes_as_appending(bench: LogBench) -> None:
    bench.log.close()
    before = index_files(bench)
    bench.crash_and_open().close()
    assert index_files(bench) == before


def test_a_torn_tail_is_cut_off_at_every_byte_of_the_last_batch(bench: LogBench) -> None:
    bench.log.segments.cool()
    last = bench.log.segments.active
    path = bench.file(last.base_offset, ".log")
    whole = path.read_bytes()
    start = len(whole) - read_all(bench.log)[-1].size_bytes
    bench.recovery_point = last.base_offset
    for size in range(start, len(whole)):
        path.write_bytes(whole[:size])
        log = bench.crash_and_open()
        assert log.offset_end == 120
        assert path.stat().st_size == start
        assert spans(read_all(log))[-1] == (118, 119)
    bench.append(batch(1))
    assert spans(read_all(bench.crash_and_open()))[-1] == (120, 120)


def test_a_flipped_byte_in_the_last_batch_costs_that_batch(bench: LogBench) -> None:
    path = bench.file(bench.log.segments.active.base_offset, ".log")
    whole = path.read_bytes()
    start = len(whole) - read_all(bench.log)[-1].size_bytes
    bench.recovery_point = bench.log.segments.active.base_offset
    outside_the_checksum = {*range(start, start + 8), *range(start + 12, start + 16)}
    for position in range(start, len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x40
        path.write_bytes(damaged)
        end = bench.crash_and_open().offset_end
        assert end == 120 or position in outside_the_checksum
        path.write_bytes(whole)


def test_offsets_that_go_back_are_cut_off(bench: LogBench) -> None:
    path = bench.file(bench.log.segments.active.base_offset, ".log")
    with path.open("ab") as file:
        file.write(encode_batch([Record()], base_offset=100, leader_epoch=1))
    assert bench.crash_and_open().offset_end == 125


def test_garbage_in_the_middle_costs_all_that_follows(bench: LogBench) -> None:
    second = bench.log.segments.as_list()[1]
    path = bench.file(second.base_offset, ".log")
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    log = bench.crash_and_open()
    assert log.offset_end < 124
    assert log.segments.active.base_offset == second.base_offset
    assert bench.files(".log")[-1] == path.name
    assert (
        bench.append(batch(2, producer_id=9, epoch=0, sequence=0), 3).base_offset
        == log.offset_end - 2
    )


def test_flushed_segments_are_not_looked_at(bench: LogBench) -> None:
    """The recovery point is behind the first segment, so damage there is not recovery's matter."""
    bench.log.flush()
    bench.remember()
    path = bench.file(0, ".log")
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    assert bench.crash_and_open().offset_end == 125
    assert path.read_bytes() == content


def test_after_a_clean_stop_no_checksum_is_looked_at(bench: LogBench) -> None:
    bench.log.close()
    damaged = {}
    for name in bench.files(".log"):
        content = bytearray((bench.directory / name).read_bytes())
        content[70] ^= 1
        (bench.directory / name).write_bytes(content)
        damaged[name] = content
    log = bench.open(clean=True)
    assert log.offset_end == 125
    assert log.producers.is_next(0, 0, 40, False)
    assert {name: (bench.directory / name).read_bytes() for name in damaged} == damaged


def test_half_a_batch_after_a_clean_stop_is_cut_off_nevertheless(bench: LogBench) -> None:
    bench.log.close()
    path = bench.file(bench.log.segments.active.base_offset, ".log")
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(batch(3)[:70])
    assert bench.open(clean=True).offset_end == 125
    assert path.stat().st_size == size


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "random", "zeros"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_any_damage_to_any_index_is_mended(
    bench: LogBench, suffix: str, damage: str, clean: bool
) -> None:
    before = read_all(bench.log)
    bench.log.close()
    bench.remember()
    good = index_files(bench)
    chance = seeds.chance(3)
    names = bench.files(suffix)
    if clean and damage in ("random", "zeros"):
        # Of closed segments only missing entries are noticed then.
        names = names[-1:]
    for name in names:
        path = bench.directory / name
        size = path.stat().st_size
        if damage == "missing":
            path.unlink()
        elif damage == "empty":
            path.write_bytes(b"")
        elif damage == "cut":
            path.write_bytes(path.read_bytes()[:-3])
        elif damage == "random":
            path.write_bytes(chance.randbytes(size))
        elif damage == "zeros":
            path.write_bytes(bytes(size))
    log = bench.open(clean=clean)
    assert read_all(log) == before
    found = first_from(log, NOW_MS + 50)
    assert found is not None
    assert found[:2] == (NOW_MS + 50, 99)
    log.close()
    assert index_files(bench) == good


def test_orphaned_indexes_and_temporary_files_are_removed(bench: LogBench) -> None:
    strays = [
        "00000000000000000777.index",
        "00000000000000000777.timeindex",
        "00000000000000000777.txnindex",
        "00000000000000000000.log.deleted",
        "00000000000000000000.index.deleted",
        "00000000000000000002.log.cleaned",
        "00000000000000000002.index.cleaned",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000009.snapshot",
    ]
    for name in strays:
        (bench.directory / name).write_bytes(b"stray")
    assert bench.crash_and_open().offset_end == 125
    assert not set(strays) & set(bench.files())


def compacted(bench: LogBench, base_offset: int, suffix: str) -> None:
    """What the cleaner writes for the first two segments: their first and last batch."""
    segments = bench.log.segments.as_list()
    headers = read_all(bench.log)
    ends = [h for h in headers if h.offset_end == segments[2].base_offset]
    content = encode_batch([Record(timestamp=NOW_MS)], base_offset=0, leader_epoch=0)
    content += encode_batch(
        [Record(timestamp=NOW_MS)], base_offset=ends[0].last_offset, leader_epoch=0
    )
    bench.file(base_offset, ".log" + suffix).write_bytes(content)
    for index in (".index", ".timeindex"):
        bench.file(base_offset, index + suffix).write_bytes(b"")


def test_a_finished_compaction_is_carried_through(bench: LogBench) -> None:
    bases = [segment.base_offset for segment in bench.log.segments]
    compacted(bench, 0, ".swap")
    bench.log.close()
    bench.remember()
    log = bench.open(clean=True)
    assert [segment.base_offset for segment in log.segments] == [0, *bases[2:]]
    assert spans(read_all(log))[:3] == [
        (0, 0),
        (bases[2] - 1, bases[2] - 1),
        (bases[2], bases[2] + 1),
    ]
    assert log.read(5, 100, 125).region is not None
    assert not bench.files(".swap")


def test_an_unfinished_compaction_is_undone(bench: LogBench) -> None:
    before = read_all(bench.log)
    compacted(bench, 0, ".swap")
    compacted(bench, 0, ".cleaned")
    log = bench.crash_and_open()
    assert read_all(log) == before
    assert not bench.files(".swap")
    assert not bench.files(".cleaned")


def test_a_gap_between_segments_is_read_over(bench: LogBench) -> None:
    bases = [segment.base_offset for segment in bench.log.segments]
    bench.log.close()
    for suffix in (".log", ".index", ".timeindex"):
        bench.file(bases[1], suffix).unlink()
    log = bench.open(clean=True)
    read = log.read(bases[1], 10_000, 125)
    assert read.region is not None
    assert read.offset_end > bases[2]


def test_producers_come_from_the_newest_good_snapshot(bench: LogBench) -> None:
    bench.log.close()
    newest = bench.directory / bench.files(".snapshot")[-1]
    assert newest.name == f"{125:020d}.snapshot"
    newest.write_bytes(b"damaged")
    log = bench.open(clean=True)
    assert all(log.producers.is_next(producer_id, 0, 40, False) for producer_id in range(3))
    assert not newest.exists() or newest.read_bytes() != b"damaged"
    for name in bench.files(".snapshot"):
        (bench.directory / name).unlink()
    log = bench.open(clean=True)
    assert all(log.producers.is_next(producer_id, 0, 40, False) for producer_id in range(3))


def test_five_batches_are_still_known_after_a_crash(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    for sequence in range(8):
        bench.append(batch(1, producer_id=4, epoch=0, sequence=sequence))
    bench.crash_and_open()
    for sequence in range(3, 8):
        assert bench.append(batch(1, producer_id=4, epoch=0, sequence=sequence)).duplicate
    bench.stop_and_open()
    assert bench.append(batch(1, producer_id=4, epoch=0, sequence=7)).duplicate


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_start_beyond_the_end_costs_no_record(
    bench: LogBench, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    before = spans(read_all(bench.log))
    bench.log.close()
    bench.log_start_offset = 500
    log = bench.open(clean=clean)
    assert (log.log_start_offset, spans(read_all(log))) == (0, before)
    assert "the checkpoint is ignored" in caplog.text


def test_leader_epochs_are_rebuilt_from_the_batches(bench: LogBench) -> None:
    (bench.directory / "leader-epoch-checkpoint").unlink()
    assert bench.crash_and_open().epoch_end_offset(0) == (0, 60)


def test_epochs_beyond_the_end_are_forgotten(bench: LogBench) -> None:
    bench.log.assign_epoch(9, 125)
    assert bench.crash_and_open().latest_epoch == 1


def test_a_log_that_died_before_it_started_over_knows_nothing_of_before(
    bench: LogBench,
) -> None:
    offset = bench.log.segments.active.base_offset
    assert offset
    assert f"{offset:020d}.snapshot" in bench.files(".snapshot")
    bench.log.segments.cool()
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        for name in bench.files(suffix):
            (bench.directory / name).unlink()
    bench.log_start_offset = offset
    log = bench.open(clean=False)
    assert (log.log_start_offset, log.offset_end, log.latest_epoch) == (offset, offset, -1)
    assert list(log.producers.entries) == []
    assert bench.files(".snapshot") == []


def test_a_log_that_starts_over_where_it_has_been_before_knows_nothing_of_then(
    bench: LogBench,
) -> None:
    offset = bench.log.segments.active.base_offset
    bench.log.truncate_fully(offset)
    assert list(bench.log.producers.entries) == []
    assert list(bench.crash_and_open().producers.entries) == []


def test_large_batches_are_recovered_too(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    for size in (10, 1_500_000, 3_000_000, 20):
        bench.append(batch(1, size=size))
    before = read_all(bench.log, 10 << 20)
    assert read_all(bench.crash_and_open(), 10 << 20) == before
    os.truncate(bench.file(0, ".log"), bench.log.size_bytes - before[-1].size_bytes - 1)
    assert bench.crash_and_open().offset_end == 2


def test_a_full_disk_does_not_keep_a_log_from_opening(bench: LogBench) -> None:
    before = read_all(bench.log)
    with full_disk(0):
        log = bench.crash_and_open()
        assert read_all(log) == before
    bench.append(batch(2))
    log.close()
    assert read_all(bench.open(clean=True))[:-1] == before


class HastyClock(ManualClock):
    """A second passes whenever somebody looks."""

    def monotonic_ms(self) -> int:
        self.now_ms += 1000
        return self.now_ms


def test_a_long_recovery_tells_how_far_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = LogBench(tmp_path, clock=HastyClock(NOW_MS))
    for _ in range(20):
        bench.append(batch(1, size=600_000))
    with caplog.at_level(logging.INFO):
        bench.crash_and_open()
    assert any("% of" in message for message in caplog.messages)


def test_files_of_apache_kafka_are_read_and_rebuilt_the_same(tmp_path: Path) -> None:
    """What 4.3.1 left after three transactions of one record, the second one aborted."""
    files = {
        "00000000000000000000.log": KAFKA_LOG,
        "00000000000000000000.index": b"",
        "00000000000000000000.timeindex": KAFKA_TIMEINDEX,
        "00000000000000000000.txnindex": KAFKA_TXNINDEX,
        "leader-epoch-checkpoint": b"0\n1\n0 0\n",
    }
    directory = tmp_path / "logs-0"
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    bench = LogBench(tmp_path, clock=ManualClock(1_794_780_617_000))
    assert spans(read_all(bench.log)) == [(i, i) for i in range(6)]
    assert [each[:3] for each in bench.log.aborted_transactions(0, 6)] == [(0, 2, 3)]
    assert bench.log.producers.is_next(0, 0, 3, True)
    bench.crash_and_open().close()
    for name, content in files.items():
        assert (directory / name).read_bytes() == content


KAFKA_LOG = bytes.fromhex(
    "00000000000000000000003b00000000020806292d001000000000000001a1e142d41d000001a1e142d41d0000"
    "0000000000000000000000000000000112000000026b047630000000000000000001000000420000000002d03c"
    "36ae003000000000000001a1e142d51e000001a1e142d51e00000000000000000000ffffffff00000001200000"
    "0008000000010c0000000000000000000000000000020000003b00000000021b4871a5001000000000000001a1"
    "e142d4fe000001a1e142d4fe00000000000000000000000000010000000112000000026b047631000000000000"
    "0000030000004200000000029198cf0b003000000000000001a1e142d544000001a1e142d54400000000000000"
    "000000ffffffff000000012000000008000000000c0000000000000000000000000000040000003b0000000002"
    "673b1717001000000000000001a1e142d542000001a1e142d54200000000000000000000000000020000000112"
    "000000026b0476320000000000000000050000004200000000021aa60acb003000000000000001a1e142d56b00"
    "0001a1e142d56b00000000000000000000ffffffff000000012000000008000000010c00000000000000"
)
KAFKA_TIMEINDEX = bytes.fromhex("000001a1e142d56b00000005")
KAFKA_TXNINDEX = bytes.fromhex(
    "00000000000000000000000000000000000200000000000000030000000000000004"
)
