"""Starts that do not get to their end: every log is loaded, or the broker does not run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau.model.names import TopicPartition
from moldau.records.batch import read_header
from moldau.storage.directories.log_store import LogStore
from moldau.storage.directories.storage_threads import OneThread
from moldau.storage.log.loaded_log import LoadedLog
from moldau.storage.recovery import log_loading
from moldau.storage.recovery.log_recovery import Recovery
from moldau.storage.storage_faults import StorageFault
from tests.support.at_once import AtOnce
from tests.support.logs import SmallSettings, batch
from tests.support.virtual_time import ManualClock

PARTITIONS = [TopicPartition("t", number) for number in range(4)]
TOPIC_ID = bytes(range(16))
Make = Callable[..., LogStore]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[LogStore] = []

    def build(threads: int = 2) -> LogStore:
        settings = SmallSettings()
        store = LogStore(
            [str(tmp_path / "data")],
            node_id=1,
            settings_for=lambda topic: settings,
            clock=ManualClock(1_700_000_000_000),
            threads=AtOnce(),
            recovery_threads=threads,
        )
        made.append(store)
        return store

    yield build
    for store in made:
        let_go(store)


def let_go(store: LogStore) -> None:
    """As a process that was killed does."""
    for directory in store.directories:
        directory.unlock()


def filled(store: LogStore) -> LogStore:
    store.open("cluster")
    for partition in PARTITIONS:
        buffer = bytearray(batch(3))
        log = store.create(partition, TOPIC_ID, SmallSettings())
        log.append_as_leader(buffer, read_header(buffer), 0)
    return store


@pytest.mark.parametrize("threads", [1, 2])
def test_a_log_that_cannot_be_loaded_because_of_a_bug_fails_the_start(
    make: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    threads: int,
) -> None:
    let_go(filled(make()))
    load_log = log_loading.load_log

    def broken(known: Recovery) -> LoadedLog:
        if known.topic_partition == PARTITIONS[2]:
            raise IndexError("a bug")
        return load_log(known)

    monkeypatch.setattr(log_loading, "load_log", broken)
    failed = make(threads)
    with pytest.raises(IndexError, match="a bug"), caplog.at_level(logging.ERROR):
        failed.open("cluster")
    assert "There was an error in one of the threads while t-2 was loaded" in caplog.text
    failed.close({})
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists(), "nothing was left cleanly"
    monkeypatch.undo()
    store = make(threads)
    store.open("cluster")
    assert [store.logs[partition].offset_end for partition in PARTITIONS] == [3] * 4


def test_a_work_that_fails_because_of_a_bug_costs_that_work_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    traces: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: traces.append(args.exc_value))
    outcomes: list[StorageFault | None] = []
    thread = OneThread(lambda done, outcome: done(outcome))

    def broken() -> StorageFault | None:
        raise IndexError("a bug")

    for work in (broken, lambda: None, broken, lambda: None):
        thread.run(work, outcomes.append)
    thread.stop()
    assert [str(each) for each in traces] == ["a bug", "a bug"]
    assert [outcome is None for outcome in outcomes] == [False, True, False, True]
    assert "an unforeseen error" in str(outcomes[0])


def test_a_stop_before_the_logs_are_loaded_changes_no_file(make: Make, tmp_path: Path) -> None:
    store = filled(make())
    store.logs[PARTITIONS[0]].advance_log_start(2)
    store.close({})

    def files() -> dict[str, bytes]:
        data = tmp_path / "data"
        return {path.name: path.read_bytes() for path in data.iterdir() if path.is_file()}

    before = files()
    store = make()
    store.lock("cluster")
    store.close({})
    assert files() == before
    store = make()
    store.open("cluster")
    assert store.logs[PARTITIONS[0]].log_start_offset == 2
