"""A process that dies at any change of the disk while a log moves, or is deleted and made anew: the
next start finishes or undoes it, takes no directory offline and loses nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from moldau.model.names import TopicPartition
from moldau.records.batch import read_header
from moldau.storage.directories.future_log import FutureLog, leftovers
from moldau.storage.directories.log_store import LogStore
from moldau.storage.log.partition_log import PartitionLog
from tests.support.at_once import AtOnce
from tests.support.logs import SmallSettings, batch, read_all, region_bytes, spans
from tests.support.virtual_time import ManualClock

PLACE = TopicPartition("t", 0)
OLD, NEW = b"o" * 16, b"n" * 16
CHANGES = ("rename", "replace", "unlink", "rmdir", "mkdir", "makedirs", "pwrite", "write", "open")
REAL = {name: getattr(os, name) for name in CHANGES}


class Killed(BaseException):
    """Not an Exception: nobody may catch it and go on."""


@contextmanager
def dying_at(change: int, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """At that change of the disk, and at all after it, the process is dead."""
    left = change

    def watch(real: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            if real is REAL["open"] and not arguments[1] & (os.O_CREAT | os.O_TRUNC):
                return real(*arguments, **options)
            if left <= 0:
                raise Killed
            left -= 1
            return real(*arguments, **options)

        return watched

    with patch.context() as patched:
        for name in CHANGES:
            patched.setattr(os, name, watch(REAL[name]))
        yield


class World:
    def __init__(self, root: Path) -> None:
        self.paths = [str(root / "a"), str(root / "b")]
        self.settings = SmallSettings(segment_bytes=400, file_delete_delay_ms=0)
        self.store = self.open()

    def open(self) -> LogStore:
        self.store = LogStore(
            self.paths,
            node_id=1,
            settings_for=lambda topic: self.settings,
            clock=ManualClock(1_700_000_000_000),
            threads=AtOnce(),
        )
        self.store.open("c" * 22)
        return self.store

    def crash(self) -> None:
        for directory in self.store.directories:
            directory.unlock()

    def fill(self, topic_id: bytes, count: int) -> PartitionLog:
        log = self.store.create(PLACE, topic_id, self.settings)
        for _ in range(count):
            data = bytearray(batch(1))
            log.append_as_leader(data, read_header(data), 0)
        return log

    def move(self) -> None:
        source = self.store.logs[PLACE]
        (target,) = (p for p in self.paths if p != os.path.dirname(source.directory))
        future = FutureLog(self.store, source, target)
        future.align()
        while future.offset_lag:
            region, _ = source.read(future.log.offset_end, 200, source.offset_end)
            assert region is not None
            future.append(region_bytes(region))
        future.take_over()

    def checked(self) -> PartitionLog | None:
        """The log after a start that must take no directory offline."""
        store = self.open()
        assert [each.fault for each in store.directories] == [None, None]
        return store.get(PLACE)


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead process leaves what it wrote, flushed or not: waiting for the disk shows nothing."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def kill_everywhere(
    root: Path,
    patch: pytest.MonkeyPatch,
    begin: Callable[[World], None],
    work: Callable[[World], None],
) -> Iterator[World]:
    """A world for each change during `work`, killed there; the last one was not."""
    change, is_over = 0, False
    while not is_over:
        world = World(root / str(change))
        begin(world)
        try:
            with dying_at(change, patch):
                work(world)
            is_over = True
        except Killed:
            pass
        world.crash()
        yield world
        change += 1
    assert change > 10


def test_a_move_killed_at_any_change_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(world: World) -> None:
        world.fill(OLD, 9).advance_log_start(2)
        world.store.write_checkpoints({PLACE: 9})

    expected = [(n, n) for n in range(2, 9)]
    homes = set()
    for world in kill_everywhere(tmp_path, monkeypatch, begin, World.move):
        log = world.checked()
        assert log is not None
        assert (log.topic_id, log.log_start_offset) == (OLD, 2)
        assert spans(read_all(log)) == expected
        homes.add(world.paths.index(os.path.dirname(log.directory)))
        for paths in leftovers(world.store).values():
            world.store.departures.discard(PLACE, *paths)
        # And again, to the end: whatever was left is in nobody's way.
        world.move()
        world.crash()
        log = world.checked()
        assert log is not None
        assert spans(read_all(log)) == expected
        world.crash()
    assert homes == {0, 1}


def test_a_topic_made_anew_is_itself_wherever_the_process_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[PartitionLog] = []

    def begin(world: World) -> None:
        written.clear()
        world.fill(OLD, 9).advance_log_start(7)
        world.store.write_checkpoints({PLACE: 9})

    def work(world: World) -> None:
        world.store.delete(PLACE)
        written.append(world.store.create(PLACE, NEW, world.settings))
        world.fill(NEW, 5)

    for world in kill_everywhere(tmp_path, monkeypatch, begin, work):
        log = world.checked()
        acknowledged = written[0].offset_end if written else 0
        if log is not None and log.topic_id == OLD:
            assert not acknowledged
            assert (log.log_start_offset, log.offset_end) == (7, 9)
            world.store.set_aside(PLACE, "a test")
        elif acknowledged:
            assert log is not None
            assert log.topic_id == NEW
        elif log is not None:
            assert not log.size_bytes
        log = world.store.create(PLACE, NEW, world.settings)
        assert log.log_start_offset == 0
        assert log.offset_end >= acknowledged
        assert spans(read_all(log)) == [(n, n) for n in range(log.offset_end)]
        world.crash()
