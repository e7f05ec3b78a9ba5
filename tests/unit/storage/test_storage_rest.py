"""Logs that are opened from a note after a clean stop: what they know without their files, what
loads them, and what makes a note void."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.model.names import TopicPartition
from moldau.records.batch import read_header
from moldau.storage.directories.storage_threads import Done, Work
from moldau.storage.log.log_at_rest import RestingLog
from moldau.storage.log.partition_log import Appended, PartitionLog
from moldau.storage.log.rest_notes import REST_FILE, read_notes
from moldau.storage.log.segment_list import OpenSegments
from moldau.storage.log_state.leader_epoch_history import EpochStart
from moldau.storage.storage_faults import StorageFault
from tests.support.logs import DAY_MS, SmallSettings, batch, loaded, read_all, spans
from tests.unit.storage.test_storage_log_store import StoreBench

T0 = TopicPartition("t", 0)


class Collected:
    """Threads that do nothing by themselves."""

    def __init__(self, works: list[tuple[Work, Done]]) -> None:
        self._works = works

    def run(self, work: Work, done: Done) -> None:
        self._works.append((work, done))

    def stop(self) -> None:
        pass


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[StoreBench]:
    bench = StoreBench(tmp_path, settings=SmallSettings(segment_bytes=400))
    yield bench
    while bench.opened:
        bench.close()


def append(log: PartitionLog, count: int = 1) -> None:
    write(log, batch(count))


def write(log: PartitionLog, sent: bytes) -> Appended:
    buffer = bytearray(sent)
    return log.append_as_leader(memoryview(buffer), read_header(buffer), 0)


def rest(bench: StoreBench, times: int = 6) -> RestingLog:
    """A log of several segments, after a clean stop and a start."""
    bench.open()
    log = bench.create()
    for _ in range(times):
        append(log, 2)
    bench.close()
    found = bench.open().logs[T0]
    assert isinstance(found, RestingLog)
    return found


def test_a_clean_stop_leaves_every_log_at_rest(bench: StoreBench) -> None:
    log = rest(bench)
    assert (log.log_start_offset, log.offset_end, log.recovery_point) == (0, 12, 12)
    assert (log.base_offset, log.latest_epoch, log.epoch_end_offset(0)) == (0, 0, (0, 12))
    assert log.segment_count == len(list(Path(log.directory).glob("*.log"))) > 2
    assert log.size_bytes == sum(p.stat().st_size for p in Path(log.directory).glob("*.log"))
    assert log.last_stable_offset(12) == 12
    store = bench.opened[-1]
    store.flush_due()
    assert (store.expire_producers(), store.logs[T0]) == (0, log), "none of this needs its files"


def test_a_log_at_rest_has_nothing_that_only_its_files_could_tell(bench: StoreBench) -> None:
    log = rest(bench)
    for name in ("segments", "producers", "read", "append_as_leader", "aborted_transactions"):
        assert not hasattr(log, name)
    assert log.epoch_end_offset(-1) is None


def test_the_first_read_loads_the_files(bench: StoreBench) -> None:
    log = loaded(rest(bench))
    assert spans(read_all(log)) == [(at, at + 1) for at in range(0, 12, 2)]
    assert bench.opened[-1].logs[T0] is log


def test_whoever_waits_for_a_log_is_told_in_turn_and_it_is_loaded_once(bench: StoreBench) -> None:
    bench.open()
    append(bench.create(), 2)
    bench.close()
    works: list[tuple[Work, Done]] = []
    log = bench.open(loading_threads=Collected(works)).logs[T0]
    assert isinstance(log, RestingLog)
    told: list[tuple[str, PartitionLog | StorageFault]] = []
    for name in "abc":
        log.wake(lambda outcome, name=name: told.append((name, outcome)))
    log.advance_log_start(1)
    log.assign_epoch(4, 2)
    [(work, done)] = works
    done(work())
    now = bench.opened[-1].logs[T0]
    assert told == [("a", now), ("b", now), ("c", now)]
    assert (now.log_start_offset, now.latest_epoch, now.offset_end) == (1, 4, 2)


def test_a_log_that_is_deleted_while_it_is_loaded_stays_deleted(bench: StoreBench) -> None:
    rest(bench)
    bench.close()
    works: list[tuple[Work, Done]] = []
    store = bench.open(loading_threads=Collected(works))
    log = store.logs[T0]
    assert isinstance(log, RestingLog)
    told: list[PartitionLog | StorageFault] = []
    log.wake(told.append)
    [(work, done)] = works
    outcome = work()
    store.delete(T0)
    done(outcome)
    [fault] = told
    assert isinstance(fault, StorageFault)
    assert T0 not in store.logs


def test_a_log_that_could_not_be_loaded_is_tried_again_by_the_next(bench: StoreBench) -> None:
    log = rest(bench)
    os.rename(log.directory, f"{log.directory}.away")
    with pytest.raises(StorageFault, match="cannot load the log"):
        loaded(log)
    os.rename(f"{log.directory}.away", log.directory)
    assert len(read_all(loaded(log))) == 6


def test_the_first_append_goes_where_the_log_ends(bench: StoreBench) -> None:
    log = loaded(rest(bench))
    append(log, 3)
    assert log.offset_end == 15
    assert spans(read_all(log))[-1] == (12, 14)


def test_sequences_go_on_after_a_rest(bench: StoreBench) -> None:
    bench.open()
    sent = batch(producer_id=7, epoch=0, sequence=0)
    write(bench.create(), sent)
    bench.close()
    log = bench.open().logs[T0]
    assert isinstance(log, RestingLog)
    assert write(loaded(log), sent).duplicate


def test_a_rest_outlasts_any_number_of_stops(bench: StoreBench) -> None:
    rest(bench)
    for _ in range(3):
        bench.close()
        log = bench.open().logs[T0]
        assert isinstance(log, RestingLog)
    assert len(read_all(loaded(log))) == 6


def test_an_epoch_given_at_rest_is_written_once_the_log_is_loaded(bench: StoreBench) -> None:
    log = rest(bench)
    log.assign_epoch(5, 12)
    assert (log.latest_epoch, log.epoch_end_offset(0)) == (5, (0, 12))
    now = loaded(log)
    assert now.last_epoch_start == EpochStart(5, 12)
    assert (now.epoch_end_offset(0), now.epoch_end_offset(5)) == ((0, 12), (5, 12))


@pytest.mark.parametrize(
    ("settings", "age_ms", "goes"),
    [
        ({"retention_ms": DAY_MS}, 0, False),
        ({"retention_ms": DAY_MS}, 2 * DAY_MS, True),
        ({"retention_bytes": 1 << 20}, 0, False),
        ({"retention_bytes": 100}, 0, True),
        ({"retention_bytes": 100, "cleanup_policy": ("compact",)}, 0, False),
    ],
)
def test_retention_loads_only_logs_that_may_lose_something(
    bench: StoreBench, settings: dict[str, object], age_ms: int, goes: bool
) -> None:
    log = rest(bench)
    log.settings = SmallSettings(segment_bytes=400, **settings)  # type: ignore[arg-type]
    bench.clock.now_ms += age_ms
    store = bench.opened[-1]
    store.delete_old_segments(lambda place: log.offset_end)
    now = store.logs[T0]
    assert (now is not log, now.segment_count < log.segment_count) == (goes, goes)


def test_deleted_records_are_remembered_through_a_rest(bench: StoreBench) -> None:
    log = rest(bench)
    log.advance_log_start(3)
    bench.close()
    log = bench.open().logs[T0]
    assert (isinstance(log, RestingLog), log.log_start_offset) == (True, 3)


@pytest.mark.parametrize("touched", ["grown", "new name", "touched"])
def test_a_log_that_somebody_changed_is_loaded_at_once(bench: StoreBench, touched: str) -> None:
    log = rest(bench)
    bench.close()
    directory = Path(log.directory)
    active = max(directory.glob("*.log"))
    if touched == "grown":
        active.write_bytes(active.read_bytes() + b"garbage")
    elif touched == "new name":
        (directory / "00000000000000000000.index.tmp").touch()
    else:
        os.utime(active, ns=(1, 1))
    log = bench.open().logs[T0]
    assert (isinstance(log, PartitionLog), log.offset_end) == (True, 12)
    assert not list(directory.glob("*.tmp"))


def test_a_log_with_an_open_transaction_does_not_rest(bench: StoreBench) -> None:
    bench.open()
    write(bench.create(), batch(producer_id=7, epoch=0, sequence=0, transactional=True))
    bench.close()
    log = bench.open().logs[T0]
    assert (isinstance(log, PartitionLog), log.last_stable_offset(1)) == (True, 0)


def test_files_that_change_under_a_log_at_rest_are_refused_with_a_sentence(
    bench: StoreBench,
) -> None:
    log = rest(bench)
    active = max(Path(log.directory).glob("*.log"))
    os.truncate(active, 0)
    with pytest.raises(StorageFault, match="its files were changed since the broker started"):
        loaded(log)
    assert log.fault is not None
    with pytest.raises(StorageFault, match="start the broker again"):
        loaded(log)


def test_a_crash_leaves_logs_at_rest_that_were_not_in_use(bench: StoreBench) -> None:
    rest(bench)
    bench.crash()
    store = bench.open()
    assert not store.was_clean
    assert isinstance(store.logs[T0], RestingLog)
    assert len(read_all(loaded(store.logs[T0]))) == 6


def test_after_a_crash_no_note_of_a_log_in_use_is_believed(bench: StoreBench) -> None:
    append(loaded(rest(bench)))
    bench.crash()
    log = bench.open().logs[T0]
    assert (isinstance(log, PartitionLog), log.offset_end) == (True, 13)


def test_after_a_crash_a_recovery_point_below_the_end_is_believed(bench: StoreBench) -> None:
    rest(bench)
    bench.crash()
    checkpoint = bench.root / "a" / "recovery-point-offset-checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace("t 0 12", "t 0 2"))
    assert isinstance(bench.open().logs[T0], PartitionLog)


@pytest.mark.parametrize("content", [b"", b"0\n1\nhalf a", b"0\n1\nt 0 zz 1\n", b"\xff"])
def test_damaged_notes_cost_time_only(bench: StoreBench, content: bytes) -> None:
    rest(bench)
    bench.close()
    parent = bench.root / "a"
    assert list(read_notes(str(parent))) == [T0]
    (parent / REST_FILE).write_bytes(content)
    log = bench.open().logs[T0]
    assert (isinstance(log, PartitionLog), log.offset_end) == (True, 12)


def test_no_more_segments_are_open_than_allowed(bench: StoreBench) -> None:
    store = bench.open()
    store._open_segments = OpenSegments(3)
    logs = [bench.create(partition=number) for number in range(8)]
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        for log in logs:
            append(log)
    assert len(os.listdir("/proc/self/fd")) <= before + 3
    for log in logs:
        assert len(read_all(log)) == 3
