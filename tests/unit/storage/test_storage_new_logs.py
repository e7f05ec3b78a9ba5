"""New logs, made ahead of their use: found by who creates them, and only by the right one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moldau.model.names import TopicPartition
from moldau.storage.directories.log_store import LogStore
from moldau.storage.directories.new_logs import NewLog
from moldau.storage.storage_faults import StorageFault
from tests.support.at_once import AtOnce
from tests.support.logs import SmallSettings
from tests.support.virtual_time import ManualClock

FIRST_ID, SECOND_ID = b"1" * 16, b"2" * 16
SETTINGS = SmallSettings()


@pytest.fixture
def store(tmp_path: Path) -> LogStore:
    opened = LogStore(
        [str(tmp_path / "a"), str(tmp_path / "b")],
        node_id=0,
        settings_for=lambda topic: SETTINGS,
        clock=ManualClock(1_700_000_000_000),
        threads=AtOnce(),
    )
    opened.open()
    return opened


def prepare(store: LogStore, *wanted: NewLog) -> None:
    calls: list[None] = []
    store.prepare(wanted, lambda: calls.append(None))
    assert calls == [None]


def new(partition: int, topic_id: bytes = FIRST_ID, epoch: int | None = 3) -> NewLog:
    return NewLog(TopicPartition("t", partition), topic_id, SETTINGS, epoch)


def test_a_prepared_log_is_created_without_making_a_file(
    store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(store, new(0))
    monkeypatch.setattr(os, "makedirs", lambda *_, **__: pytest.fail("made a directory"))
    monkeypatch.setattr(os, "open", lambda *_, **__: pytest.fail("opened a file"))
    log = store.create(TopicPartition("t", 0), FIRST_ID, SETTINGS)
    log.assign_epoch(3, 0)
    monkeypatch.undo()
    assert sorted(os.listdir(log.directory)) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert Path(log.directory, "leader-epoch-checkpoint").read_text() == "0\n1\n3 0\n"


def test_a_log_that_was_prepared_is_the_same_as_one_that_was_not(store: LogStore) -> None:
    prepare(store, new(0))
    logs = [store.create(TopicPartition("t", n), FIRST_ID, SETTINGS) for n in (0, 1)]
    for log in logs:
        log.assign_epoch(3, 0)
    first, second = (
        {path.name: path.read_bytes() for path in Path(log.directory).iterdir()} for log in logs
    )
    assert first == second
    assert (logs[0].topic_id, logs[0].offset_end) == (logs[1].topic_id, logs[1].offset_end)


def test_prepared_logs_are_spread_over_the_directories(store: LogStore) -> None:
    store.create(TopicPartition("earlier", 0), FIRST_ID, SETTINGS)
    prepare(store, *map(new, range(5)))
    for partition in range(5):
        store.create(TopicPartition("t", partition), FIRST_ID, SETTINGS)
    assert [len(store.logs_in(each)) for each in store.directories] == [3, 3]


def test_more_logs_than_one_work_holds_are_all_made(store: LogStore) -> None:
    prepare(store, *map(new, range(45)))
    made = {path for each in store.directories for path in os.listdir(each.path)}
    assert made >= {f"t-{partition}" for partition in range(45)}


def test_a_log_made_for_an_earlier_topic_of_that_name_gets_the_new_id(store: LogStore) -> None:
    prepare(store, new(0))
    log = store.create(TopicPartition("t", 0), SECOND_ID, SETTINGS)
    assert log.topic_id == SECOND_ID
    prepare(store, new(1, SECOND_ID))
    again = store.create(TopicPartition("t", 1), SECOND_ID, SETTINGS)
    assert Path(log.directory, "partition.metadata").read_bytes() == (
        Path(again.directory, "partition.metadata").read_bytes()
    )


def test_a_log_made_in_a_directory_that_failed_since_is_made_elsewhere(store: LogStore) -> None:
    prepare(store, new(0))
    failed, other = store.directories
    failed.fault = StorageFault("cannot use", failed.path, reason="pulled out")
    log = store.create(TopicPartition("t", 0), FIRST_ID, SETTINGS)
    assert os.path.dirname(log.directory) == other.path


def test_a_log_that_cannot_be_made_is_met_by_who_creates_it(store: LogStore) -> None:
    for each in store.directories:
        Path(each.path, "t-0").write_text("in the way")
    prepare(store, new(0))
    with pytest.raises(StorageFault, match="cannot create"):
        store.create(TopicPartition("t", 0), FIRST_ID, SETTINGS)


def test_without_a_directory_that_can_be_used_nothing_is_prepared(store: LogStore) -> None:
    for directory in store.directories:
        directory.fault = StorageFault("cannot write", directory.path)
    calls: list[None] = []
    store.prepare([new(0)], lambda: calls.append(None))
    assert calls == [None]
    with pytest.raises(StorageFault, match="no log directory is left"):
        store.create(TopicPartition("t", 0), FIRST_ID, SETTINGS)
