"""A process that dies at any change of the disk during compaction loses nothing by it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

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
    for i in range(6):
        bench.put(("a", f"{i}" * 40), (f"b{i % 3}", "x" * 40), ("c", f"{i}"))
        bench.put(
            ("t", f"{i}"), producer_id=7, producer_epoch=0, base_sequence=i, transactional=True
        )
        bench.end_transaction(7, commit=i % 2 == 0)
        bench.put(("gone", f"{i}" if i < 5 else None))
        bench.roll()
    return bench


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


@pytest.mark.parametrize("delay_ms", [0, 60_000])
def test_a_kill_at_any_change_of_the_disk_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay_ms: int
) -> None:
    at, survived = 1, False
    while not survived:
        root = tmp_path / f"{at}"
        bench = filled(root, delay_ms)
        expected = seen(bench)
        last_sequence = bench.log.producers.entries[0].last_sequence
        offset_end = bench.log.offset_end
        try:
            with dying_at(at, monkeypatch):
                bench.cleaner.look()
            survived = True
        except Killed:
            pass
        bench.crash()
        assert seen(bench) == expected, f"killed at change {at}"
        assert bench.log.offset_end == offset_end
        assert bench.log.producers.entries[0].last_sequence == last_sequence
        assert not [*bench.names(".cleaned"), *bench.names(".swap"), *bench.names(".deleted")]
        bench.cleaner.look()
        assert seen(bench) == expected, f"compacted after a kill at change {at}"
        assert len(bench.log.segments) <= 4
        bench.let_go()
        at += 1
    assert at > 30


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
