"""The cleaner: what compaction leaves, and what it does when the log changes under it."""

from __future__ import annotations

import errno
import logging
import mmap
import os
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from moldau.records.batch import DELETE_HORIZON_FLAG
from moldau.records.batch_codec import decode_batch
from moldau.records.compression import Codec
from moldau.storage.compaction.compaction_pace import Pace
from moldau.storage.directories.storage_threads import Done, OneThread, Work
from moldau.storage.log_state.checkpoint_files import CLEANER_FILE
from moldau.storage.rewriting import segment_rewriting
from moldau.storage.rewriting.segment_rewriting import CleanedSegment
from tests.support.compaction import PARTITION, CompactionBench, small_cleaner
from tests.support.logs import region_bytes
from tests.support.virtual_time import ManualClock

DAY_MS = 86_400_000


class ByHand:
    """A thread that does its next work when a test says so."""

    def __init__(self) -> None:
        self.works: deque[tuple[Work, Done]] = deque()

    def run(self, work: Work, done: Done) -> None:
        self.works.append((work, done))

    def stop(self) -> None:
        while self.works:
            self.works.popleft()[0]()

    def step(self) -> None:
        work, done = self.works.popleft()
        done(work())

    def finish(self) -> None:
        while self.works:
            self.step()


@pytest.fixture
def bench(tmp_path: Path) -> CompactionBench:
    return CompactionBench(tmp_path)


def fill(bench: CompactionBench, segments: int = 4, keys: int = 3) -> None:
    for i in range(segments):
        bench.put(*((f"k{j}", f"{i}-{j}") for j in range(keys)))
        bench.roll()


NEWEST = [(9, "k0", "3-0"), (10, "k1", "3-1"), (11, "k2", "3-2")]


def test_only_the_newest_value_of_each_key_stays(bench: CompactionBench) -> None:
    fill(bench)
    bench.cleaner.look()
    assert bench.records() == NEWEST
    assert len(bench.log.segments) == 2
    assert bench.log.cleaned_end == bench.log.offset_end == 12


def test_the_segment_being_written_is_left_alone(bench: CompactionBench) -> None:
    bench.put(("k", "1"), ("k", "2"))
    bench.put(("k", "3"))
    bench.cleaner.look()
    assert [value for _, _, value in bench.records()] == ["1", "2", "3"]


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_compacted(bench: CompactionBench, codec: Codec) -> None:
    bench.put(("a", "1"), ("b", "1" * 500), codec=codec)
    bench.put(("a", "2"), codec=codec)
    bench.compact()
    assert bench.records() == [(1, "b", "1" * 500), (2, "a", "2")]
    assert [header.codec for header, _ in bench.batches()] == [codec, codec]


def test_a_tombstone_stays_for_its_time_after_it_was_first_compacted(
    bench: CompactionBench,
) -> None:
    bench.put(("a", "1"), ("b", "1"))
    bench.put(("a", None))
    bench.compact()
    assert bench.records() == [(1, "b", "1"), (2, "a", None)]
    [header] = [header for header, _ in bench.batches() if header.base_offset == 2]
    assert header.attributes & DELETE_HORIZON_FLAG
    assert header.base_timestamp == bench.clock.now_ms + DAY_MS
    for passed_ms, kept in ((DAY_MS - 1, True), (1, False)):
        bench.clock.now_ms += passed_ms
        bench.put(("c", "x"))
        bench.compact()
        assert ((2, "a", None) in bench.records()) is kept


def test_an_aborted_transaction_goes_and_its_marker_later(bench: CompactionBench) -> None:
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    bench.put(("a", "aborted"), base_sequence=0, **fields)
    bench.end_transaction(7, commit=False)
    bench.put(("a", "committed"), base_sequence=1, **fields)
    bench.end_transaction(7, commit=True)
    bench.put(("b", "x"))
    bench.compact()
    assert bench.records() == [(2, "a", "committed"), (4, "b", "x")]
    assert bench.log.aborted_transactions(0, 5)
    bench.put(("c", "x"))
    bench.compact()
    # Nothing of the transaction is left: from now on the marker has a horizon.
    assert not bench.log.aborted_transactions(0, 5)
    bench.clock.now_ms += DAY_MS
    bench.put(("d", "x"))
    bench.compact()
    assert [h.base_offset for h, _ in bench.batches() if h.is_control] == [3]


def test_nothing_of_an_open_transaction_is_compacted(bench: CompactionBench) -> None:
    bench.put(("a", "1"))
    bench.roll()
    fields: dict[str, Any] = {
        "producer_id": 7,
        "producer_epoch": 0,
        "transactional": True,
        "base_sequence": 0,
    }
    bench.put(("a", "2"), **fields)
    bench.compact()
    assert [value for _, _, value in bench.records()] == ["1", "2"]


def test_nothing_above_the_high_watermark_counts(bench: CompactionBench) -> None:
    fill(bench)
    bench.high_watermark = 7
    bench.cleaner.look()
    assert [offset for offset, _, _ in bench.records()] == [3, 4, 5, *range(6, 12)]


def test_a_producer_whose_records_are_all_gone_is_still_known(bench: CompactionBench) -> None:
    bench.put(("a", "1"), producer_id=3, producer_epoch=2, base_sequence=5)
    bench.put(("a", "2"))
    bench.compact()
    assert [header.record_count for header, _ in bench.batches()] == [0, 1]
    bench.crash()
    entry = bench.log.producers.entry(3)
    assert entry is not None
    assert (entry.epoch, entry.last_sequence) == (2, 5)


def test_a_small_map_takes_several_rounds(bench: CompactionBench) -> None:
    bench.cleaning = small_cleaner(map_bytes=24 * 6)
    for i in range(3):
        for j in range(12):
            bench.put((f"k{j}", f"{i}"))
        bench.roll()
    bench.cleaner.look()
    assert sorted(key for _, key, _ in bench.records()) == sorted(f"k{j}" for j in range(12))
    assert {value for _, _, value in bench.records()} == {"2"}


def test_a_map_too_small_for_one_batch_is_said_once(
    bench: CompactionBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.cleaning = small_cleaner(map_bytes=24 * 3)
    bench.put(*((f"k{j}", "x") for j in range(9)))
    bench.roll()
    with caplog.at_level(logging.ERROR):
        bench.cleaner.look()
        bench.cleaner.look()
    assert len(caplog.records) == 1
    assert "raise log.cleaner.dedupe.buffer.size" in caplog.text


def test_memory_that_cannot_be_had_is_a_fault_and_no_end(
    bench: CompactionBench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(bench)
    with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):

        def refuse(descriptor: int, size_bytes: int) -> None:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")

        patched.setattr(mmap, "mmap", refuse)
        bench.cleaner.look()
    assert f"cannot compact {bench.directory}: Cannot allocate memory" in caplog.text
    bench.cleaner.look()
    assert bench.records() == NEWEST


@pytest.mark.parametrize("changes", [{"map_load_factor": 0.0}, {"map_load_factor": 1.0}])
def test_any_load_factor_will_do(bench: CompactionBench, changes: dict[str, float]) -> None:
    bench.cleaning = small_cleaner(**changes)
    fill(bench)
    bench.cleaner.look()
    assert bench.records() == NEWEST


def test_a_damaged_batch_is_never_copied(
    bench: CompactionBench, caplog: pytest.LogCaptureFixture
) -> None:
    fill(bench)
    path = bench.directory / "00000000000000000003.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    names = bench.names()
    with caplog.at_level(logging.ERROR):
        bench.cleaner.look()
        bench.cleaner.look()
    assert len(caplog.records) == 1
    assert f"{path} is damaged at byte 0" in caplog.text
    assert bench.cleaner.uncleanable == [PARTITION]
    assert bench.names() == names
    assert path.read_bytes() == content


def test_the_checkpoint_says_how_far_it_got(bench: CompactionBench) -> None:
    fill(bench)
    bench.cleaner.look()
    path = bench.directory.parent / CLEANER_FILE
    assert path.read_text() == "0\n1\ncompacted 0 12\n"
    bench.crash()
    assert bench.log.cleaned_end == 12


def test_a_log_that_is_truncated_meanwhile_is_not_touched(bench: CompactionBench) -> None:
    thread = ByHand()
    bench.let_go()
    bench.open(thread)
    fill(bench)
    bench.cleaner.look()
    thread.step()
    bench.log.truncate_to(5)
    bench.put(("k0", "after"))
    before = bench.records()
    thread.finish()
    assert bench.records() == before
    # The round that came to nothing was followed by one of what is left.
    assert bench.log.cleaned_end == bench.log.segments.active.base_offset == 3
    assert not bench.cleaner.is_busy
    assert not bench.names(".cleaned")


def test_a_truncation_takes_the_checkpoint_back(bench: CompactionBench) -> None:
    fill(bench)
    bench.cleaner.look()
    bench.log.truncate_to(10)
    assert bench.log.cleaned_end == bench.log.offset_end
    assert bench.log.cleaned_end <= 10


def test_a_crash_after_a_truncation_takes_no_new_records_for_compacted_ones(
    bench: CompactionBench,
) -> None:
    """A tombstone that counts as compacted goes before the value that it deletes."""
    fill(bench)
    bench.cleaner.look()
    bench.log.truncate_to(10)
    end = bench.log.offset_end
    for number in range(20):
        bench.put((f"k{number}", "after"))
    bench.crash()
    assert bench.log.cleaned_end == end


def test_the_checkpoint_forgets_a_log_that_was_deleted(bench: CompactionBench) -> None:
    fill(bench)
    bench.cleaner.look()
    bench.store.delete(PARTITION)
    bench.cleaner.look()
    assert (bench.directory.parent / CLEANER_FILE).read_text() == "0\n0\n"


def test_a_log_that_is_deleted_meanwhile_makes_no_fuss(
    bench: CompactionBench, caplog: pytest.LogCaptureFixture
) -> None:
    for steps in range(3):
        thread = ByHand()
        bench.let_go()
        bench.open(thread)
        fill(bench)
        bench.cleaner.look()
        for _ in range(steps):
            thread.step()
        with caplog.at_level(logging.WARNING):
            bench.store.delete(PARTITION)
            thread.finish()
        assert not bench.cleaner.is_busy
        assert not caplog.records


def test_segments_that_retention_takes_meanwhile_do_not_come_back(bench: CompactionBench) -> None:
    thread = ByHand()
    bench.let_go()
    bench.open(thread)
    fill(bench)
    bench.cleaner.look()
    thread.step()
    bench.log.advance_log_start(6)
    assert bench.log.delete_old_segments(bench.clock.now_ms, bench.log.offset_end) == 2
    thread.finish()
    assert [offset for offset, _, _ in bench.records()] == list(range(6, 12))
    assert not bench.names(".cleaned")
    bench.crash()
    assert bench.log.segments.base_offset == 6


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_topic_that_is_not_compacted_any_more_loses_nothing_from_then_on(
    bench: CompactionBench, steps: int
) -> None:
    thread = ByHand()
    bench.let_go()
    bench.open(thread)
    bench.change(segment_bytes=100)
    fill(bench)
    bench.cleaner.look()
    for _ in range(steps):
        thread.step()
    before = bench.records()
    bench.change(cleanup_policy=("delete",))
    thread.finish()
    assert bench.records() == before
    assert not bench.names(".cleaned")
    assert not bench.cleaner.is_busy


def test_a_topic_that_is_compacted_again_goes_on_where_it_had_got_to(
    bench: CompactionBench,
) -> None:
    fill(bench)
    bench.cleaner.look()
    bench.change(cleanup_policy=("delete",))
    fill(bench)
    bench.cleaner.look()
    bench.crash()
    assert len(bench.records()) == 15
    bench.change(cleanup_policy=("compact",))
    bench.cleaner.look()
    assert bench.records() == [(offset + 12, key, value) for offset, key, value in NEWEST]


@pytest.mark.parametrize(
    "content", [b"", b"0\n1\ncompac", b"\xff\xfe", b"0\n1\ncompacted 0 99999\n"]
)
def test_a_checkpoint_of_the_cleaner_that_is_wrong_costs_a_round_and_no_record(
    bench: CompactionBench, content: bytes
) -> None:
    fill(bench)
    bench.cleaner.look()
    fill(bench)
    (bench.directory.parent / CLEANER_FILE).write_bytes(content)
    bench.crash()
    assert len(bench.records()) == 15
    bench.cleaner.look()
    assert bench.records() == [(offset + 12, key, value) for offset, key, value in NEWEST]
    assert bench.log.cleaned_end == 24


def test_a_reader_in_the_middle_keeps_what_it_has(bench: CompactionBench) -> None:
    fill(bench)
    read = bench.log.read(0, 1 << 20, 100)
    assert read.region is not None
    bench.cleaner.look()
    assert [record.value for record in decode_batch(region_bytes(read.region))] == [
        b"0-0",
        b"0-1",
        b"0-2",
    ]


def test_a_stop_breaks_a_round_off_and_leaves_nothing(tmp_path: Path) -> None:
    bench = CompactionBench(tmp_path)
    bench.let_go()
    outcomes: deque[object] = deque()
    bench.cleaning = small_cleaner(bytes_per_second=1.0)
    bench.open(OneThread(lambda done, outcome: outcomes.append(done), "cleaner"))
    fill(bench)
    bench.cleaner.look()
    bench.cleaner.stop()
    assert not bench.names(".cleaned")
    assert len(bench.records()) == 12


def test_a_new_segment_goes_to_the_disk_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_rewriting, "WRITE_BACK_BYTES", 100)
    monkeypatch.setattr(segment_rewriting, "UNSYNCED_BYTES_MAX", 400)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda each: synced.append(os.fstat(each).st_size))
    cleaned = CleanedSegment(str(tmp_path), 0, 4096)
    for _ in range(20):
        cleaned.write(b"x" * 50)
    assert synced == [400, 800]
    cleaned.finish(0)
    assert synced[2] == 1000
    assert (tmp_path / "00000000000000000000.log.cleaned").read_bytes() == b"x" * 1000


def test_a_pace_is_kept_over_any_length_of_time() -> None:
    clock = ManualClock(0)
    pace, waited_ms = Pace(clock, 1000.0), 0.0
    for _ in range(100):
        delay_ms = pace.delay_ms(100)
        waited_ms += delay_ms
        clock.now_ms += int(delay_ms) + 10
    assert 9_300 <= clock.now_ms <= 10_700
    assert waited_ms > 8_000


def test_a_generous_pace_never_waits() -> None:
    clock = ManualClock(0)
    pace = Pace(clock, 1.7e308)
    assert sum(pace.delay_ms(1 << 20) for _ in range(1000)) == 0
