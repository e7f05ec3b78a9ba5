"""A process that dies at any change of the disk during compaction loses nothing by it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moldau.storage.compaction.compaction_job import InThread, RoundRunner
from moldau.storage.compaction.compaction_process import InProcess
from tests.support import seeds
from tests.support.compaction import CompactionBench, small_cleaner

CHANGES = ("rename", "replace", "unlink", "write", "fsync", "utime", "open")


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead process leaves what it wrote, flushed or not: waiting for the disk shows nothing."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class Killed(BaseException):
    """Not an Exception: nobody may catch it and go on."""


class Executioner:
    """Counts changes of the disk; at the chosen one, and at all after it, the process is dead."""

    def __init__(self, die_at: int) -> None:
        self.changes = 0
        self._die_at = die_at

    def watch(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            if change is REAL["open"] and not arguments[1] & (os.O_CREAT | os.O_TRUNC):
                return change(*arguments, **options)
            self.changes += 1
            if self.changes >= self._die_at:
                raise Killed
            return change(*arguments, **options)

        return watched


REAL = {name: getattr(os, name) for name in CHANGES} | {"fsync": lambda descriptor: None}


@contextmanager
def dying_at(change: int, patch: pytest.MonkeyPatch) -> Iterator[Executioner]:
    executioner = Executioner(change)
    with patch.context() as patched:
        for name in CHANGES:
            patched.setattr(os, name, executioner.watch(REAL[name]))
        yield executioner


def filled(root: Path, delay_ms: int) -> CompactionBench:
    """Several segments that become two, with an aborted transaction and a tombstone."""
    bench = CompactionBench(root)
    bench.change(segment_bytes=1300, file_delete_delay_ms=delay_ms)
    fill(bench)
    return bench


def fill(bench: CompactionBench) -> None:
    """Segments end with a record that compaction takes: that leaves gaps between them."""
    sequence = next((each.last_sequence for each in bench.log.producers.entries), -1) + 1
    for i in range(6):
        bench.put(("a", f"{i}" * 40), (f"b{i % 3}", "x" * 40), ("c", f"{i}"))
        bench.put(
            ("t", f"{i}"),
            producer_id=7,
            producer_epoch=0,
            base_sequence=sequence + i,
            transactional=True,
        )
        bench.end_transaction(7, commit=i % 2 == 0)
        bench.put(("gone", f"{i}" if i < 5 else None))
        bench.roll()


def seen(bench: CompactionBench) -> dict[str, str | None]:
    """The newest committed value of each key."""
    log = bench.log
    aborted = {
        (each.producer_id, offset)
        for each in log.aborted_transactions(0, log.offset_end)
        for offset in range(each.first_offset, each.last_offset)
    }
    return {
        key: value
        for offset, key, value in bench.records()
        if (7, offset) not in aborted or key != "t"
    }


class Case(NamedTuple):
    delay_ms: int
    has_recovery_point: bool
    is_first: bool
    """Whether it is the log's first round: nothing on disk says that there ever was one."""
    knows_settings: bool = True


CASES = [
    Case(delay_ms, point, first)
    for delay_ms in (0, 60_000)
    for point in (False, True)
    for first in (True, False)
]
CASES += [Case(60_000, point, True, knows_settings=False) for point in (False, True)]


def prepared(root: Path, case: Case, place: RoundRunner) -> CompactionBench:
    bench = filled(root, case.delay_ms)
    bench.place, bench.knows_settings = place, case.knows_settings
    bench.crash()
    if not case.is_first:
        compact_whole(bench)
        fill(bench)
    if case.has_recovery_point:
        bench.log.flush()
        bench.store.write_checkpoints({})
    return bench


def compact_whole(bench: CompactionBench) -> None:
    """The round with all that follows it: the cleaner's checkpoint, the recovery point, the end of
    the old files."""
    bench.cleaner.look()
    bench.log.flush()
    bench.store.write_checkpoints({})
    bench.clock.now_ms += 60_001
    bench.store.remove_deleted_files()
    bench.cleaner.look()


def kill_at_every(
    changes: Iterator[int], case: Case, root: Path, patch: pytest.MonkeyPatch, place: RoundRunner
) -> int:
    """At each of these changes, until a round survives; the change that it survived."""
    for at in changes:
        bench = prepared(root / f"{at}", case, place)
        expected = seen(bench)
        last_sequence = bench.log.producers.entries[0].last_sequence
        offset_end = bench.log.offset_end
        survived = False
        with contextlib.suppress(Killed), dying_at(at, patch):
            compact_whole(bench)
            survived = True
        place.rest()
        bench.crash()
        assert seen(bench) == expected, f"killed at change {at}"
        assert bench.log.offset_end == offset_end
        assert bench.log.producers.entries[0].last_sequence == last_sequence
        assert not [*bench.names(".cleaned"), *bench.names(".swap"), *bench.names(".deleted")]
        bench.cleaner.look()
        assert seen(bench) == expected, f"compacted after a kill at change {at}"
        assert len(bench.log.segments) <= 4
        place.rest()
        bench.let_go()
        shutil.rmtree(root / f"{at}")
        if survived:
            return at
    raise AssertionError("no round survived")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_kill_at_any_change_of_the_disk_loses_nothing(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = count(seeds.chance().randrange(1, 8), 7)
    assert kill_at_every(changes, case, tmp_path, monkeypatch, InThread()) > 30


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_kill_at_every_single_change_of_the_disk_loses_nothing(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kill_at_every(count(1), case, tmp_path, monkeypatch, InThread()) > 30


def test_a_kill_while_a_process_compacts_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = seeds.chance()
    place = InProcess(round_bytes_min=0)
    changes = count(chance.randrange(1, 13), 12)
    assert kill_at_every(changes, chance.choice(CASES), tmp_path, monkeypatch, place) > 10


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_kill_at_every_single_change_while_a_process_compacts_loses_nothing(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = InProcess(round_bytes_min=0)
    assert kill_at_every(count(1), case, tmp_path, monkeypatch, place) > 10


def test_a_kill_during_the_recovery_from_a_kill_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = 1, 1
    while True:
        bench = filled(tmp_path / f"{first}-{second}", 60_000)
        expected = seen(bench)
        try:
            with dying_at(first, monkeypatch):
                bench.cleaner.look()
            bench.let_go()
            break
        except Killed:
            pass
        bench.let_go()
        try:
            with dying_at(second, monkeypatch):
                bench.open()
            first, second = first + 5, 0
        except Killed:
            pass
        bench.crash()
        assert seen(bench) == expected, f"killed at change {first}, then at {second}"
        bench.let_go()
        second += 9
    assert first > 30


@pytest.mark.parametrize("change", ["rename", "unlink"])
def test_a_change_that_fails_during_a_round_loses_nothing(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, at, is_over = REAL[change], 0, False
    while not is_over:
        at += 1
        bench = filled(tmp_path / f"{at}", 0)
        expected, calls = seen(bench), count(1)

        def once(*paths: str, calls: Iterator[int] = calls, at: int = at) -> None:
            if next(calls) == at:
                raise OSError(errno.EIO, "Input/output error")
            real(*paths)

        with monkeypatch.context() as patched:
            patched.setattr(os, change, once)
            bench.cleaner.look()
        is_over = next(calls) <= at
        bench.crash()
        assert seen(bench) == expected, f"{change} {at} failed"
        bench.cleaner.look()
        assert seen(bench) == expected, f"compacted after {change} {at} failed"
        bench.let_go()
    assert at > 10


def test_a_disk_that_fails_during_compaction_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = filled(tmp_path, 0)
    expected = seen(bench)
    with monkeypatch.context() as patched:

        def full(descriptor: int, ns: tuple[int, int]) -> None:
            raise OSError(28, "No space left on device")

        patched.setattr(os, "utime", full)
        bench.cleaner.look()
    assert not bench.cleaner.is_busy
    assert bench.log.fault is None
    assert seen(bench) == expected
    assert not [*bench.names(".cleaned"), *bench.names(".swap")]
    bench.cleaner.look()
    assert seen(bench) == expected
    assert bench.log.cleaned_end == bench.log.segments.active.base_offset
    bench.cleaning = small_cleaner()
    bench.let_go()
