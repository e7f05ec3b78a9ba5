"""Logs that are deleted, made anew, put aside, or found in two directories: nothing is inherited by
name, and nothing is removed that nobody has deleted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.records.batch import read_header
from moldau.storage.directories.log_store import LogStore
from moldau.storage.directories.new_logs import NewLog
from moldau.storage.directories.storage_threads import Done, Work
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log_state.checkpoint_files import CHECKPOINT_FILES, read_offsets
from moldau.storage.storage_faults import StorageFault
from tests.support.at_once import AtOnce
from tests.support.logs import SmallSettings, batch, read_all, spans
from tests.support.virtual_time import ManualClock

PLACE = TopicPartition("t", 0)
OLD, NEW = b"o" * 16, b"n" * 16


class Later(AtOnce):
    """Keeps works until a test wants them done."""

    def __init__(self) -> None:
        self.works: list[tuple[Work, Done]] | None = None

    def run(self, work: Work, done: Done) -> None:
        if self.works is None:
            super().run(work, done)
        else:
            self.works.append((work, done))

    def do_all(self) -> None:
        works, self.works = self.works or [], None
        for work, done in works:
            done(work())


class Bench:
    def __init__(self, root: Path) -> None:
        self.paths = [str(root / "a"), str(root / "b")]
        self.settings = SmallSettings(file_delete_delay_ms=0)
        self.threads = Later()
        self.clock = ManualClock(1_700_000_000_000)
        self.store = self.open()

    def open(self, *paths: str) -> LogStore:
        self.store = LogStore(
            paths or self.paths,
            node_id=1,
            settings_for=lambda topic: self.settings,
            clock=self.clock,
            threads=self.threads,
        )
        self.store.open("c" * 22)
        return self.store

    def crash(self) -> None:
        for directory in self.store.directories:
            directory.unlock()

    def create(self, topic_id: bytes, count: int) -> PartitionLog:
        log = self.store.create(PLACE, topic_id, self.settings)
        append(log, count)
        return log

    def names(self, suffix: str) -> list[str]:
        return [n for path in self.paths for n in os.listdir(path) if n.endswith(suffix)]


def append(log: PartitionLog, count: int, epoch: int = 0) -> None:
    for _ in range(count):
        data = bytearray(batch(1))
        log.append_as_leader(data, read_header(data), epoch)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.crash()


def test_a_new_topic_inherits_no_checkpoint_of_the_old_one(bench: Bench) -> None:
    old = bench.create(OLD, 10)
    old.advance_log_start(8)
    bench.store.write_checkpoints({PLACE: 10})
    home = os.path.dirname(old.directory)
    directory = next(each for each in bench.store.directories if each.path == home)
    directory.write_checkpoints({name: {PLACE: 8} for name in CHECKPOINT_FILES})
    bench.store.delete(PLACE)
    bench.store.new_logs.preferred[PLACE] = home
    bench.create(NEW, 5)
    for name in CHECKPOINT_FILES:
        assert PLACE not in read_offsets(directory.file(name)), name
    bench.crash()
    again = bench.open().get(PLACE)
    assert again is not None
    assert (again.log_start_offset, again.offset_end, again.topic_id) == (0, 5, NEW)
    assert PLACE not in {p for p, mark in bench.store.high_watermarks.items() if mark}


def test_a_checkpoint_that_was_under_way_says_nothing_of_the_old_topic(bench: Bench) -> None:
    old = bench.create(OLD, 10)
    other = bench.store.create(TopicPartition("u", 0), OLD, bench.settings)
    append(other, 3)
    old.advance_log_start(8)
    home = os.path.dirname(old.directory)
    bench.threads.works = []
    bench.store.write_checkpoints({PLACE: 10})
    bench.store.delete(PLACE)
    bench.store.new_logs.preferred[PLACE] = home
    new = bench.create(NEW, 5)
    bench.threads.do_all()
    for directory in bench.store.directories:
        assert PLACE not in directory.log_starts()
        assert PLACE not in directory.high_watermarks()
        assert directory.recovery_points().get(PLACE, 0) <= new.recovery_point
    assert any(TopicPartition("u", 0) in d.recovery_points() for d in bench.store.directories)


def test_a_new_log_has_nothing_of_a_directory_that_could_not_be_deleted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = bench.create(OLD, 10)

    def refuse(_old: str, _new: str) -> None:
        raise PermissionError(1, "refused")

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", refuse)
        with pytest.raises(StorageFault):
            bench.store.delete(PLACE)
        # It is still known, so that it can be deleted again, and cannot be written to.
        assert bench.store.get(PLACE) is old
        assert old.fault is not None
    bench.store.delete(PLACE)
    assert bench.store.get(PLACE) is None
    assert read_all(bench.create(NEW, 0)) == []


def test_records_that_lie_where_a_new_log_is_to_be_are_kept_aside(bench: Bench) -> None:
    old = bench.create(OLD, 10)
    home = os.path.dirname(old.directory)
    del bench.store.logs[PLACE], bench.store._placed[home][PLACE]
    bench.store.new_logs.preferred[PLACE] = home
    new = bench.create(NEW, 0)
    assert (new.offset_end, new.directory) == (0, old.directory)
    (stray,) = bench.names("-stray")
    assert os.path.getsize(os.path.join(home, stray, f"{0:020d}.log"))


def test_a_log_made_ahead_for_an_earlier_topic_leaves_nothing(bench: Bench) -> None:
    bench.store.prepare([NewLog(PLACE, OLD, bench.settings, 7)], lambda: None)
    new = bench.create(NEW, 1)
    assert new.latest_epoch == 0
    assert bench.names("-stray") == []
    assert len(bench.names("t-0")) == 1


def test_of_two_logs_of_one_topic_the_one_that_reaches_further_is_served(bench: Bench) -> None:
    log = bench.create(OLD, 3)
    home = os.path.dirname(log.directory)
    (away,) = (path for path in bench.paths if path != home)
    bench.crash()
    shutil.copytree(log.directory, os.path.join(away, "t-0"))
    bench.open(home)
    append(bench.store.logs[PLACE], 2)
    bench.crash()
    store = bench.open()
    assert [each.fault for each in store.directories] == [None, None]
    assert spans(read_all(store.logs[PLACE])) == [(n, n) for n in range(5)]
    assert os.path.dirname(store.logs[PLACE].directory) == home
    (stray,) = bench.names("-stray")
    assert os.path.exists(os.path.join(away, stray))


def test_of_logs_of_two_topics_the_one_is_served_that_is_asked_for(bench: Bench) -> None:
    """A disk comes back whose topic was deleted and made anew meanwhile."""
    for wanted in (OLD, NEW):
        logs = {}
        for path, topic_id, count in ((bench.paths[0], OLD, 9), (bench.paths[1], NEW, 4)):
            bench.crash()
            store = bench.open(path)
            if PLACE in store.logs:
                store.delete(PLACE)
            logs[topic_id] = bench.create(topic_id, count)
        bench.crash()
        store = bench.open()
        assert len(store.online) == 2
        assert store.get(PLACE) is None
        assert store.has(PLACE)
        with pytest.raises(StorageFault, match="cannot choose"):
            store.create(PLACE, NO_TOPIC_ID, bench.settings)
        chosen = store.create(PLACE, wanted, bench.settings)
        assert chosen.topic_id == wanted
        assert chosen.offset_end == logs[wanted].offset_end
    assert len(bench.names("-stray")) == 2


MANY = [TopicPartition("many", n) for n in range(50)]


def many_logs(bench: Bench) -> list[PartitionLog]:
    made = [bench.store.create(place, OLD, bench.settings) for place in MANY]
    logs = [each for each in made if isinstance(each, PartitionLog)]
    for each in logs:
        append(each, 2)
    return logs


def plain_names(bench: Bench) -> set[str]:
    names = {n for path in bench.paths for n in os.listdir(path)}
    return names & {str(place) for place in MANY}


def test_many_logs_are_gone_at_once_and_their_directories_are_renamed_in_the_thread(
    bench: Bench,
) -> None:
    logs = many_logs(bench)
    over: list[int] = []
    bench.threads.works = []
    bench.store.delete_all(MANY, lambda: over.append(len(plain_names(bench))))
    assert not any(bench.store.has(place) for place in MANY)
    assert all(each.fault is not None for each in logs)
    assert len(plain_names(bench)) == len(MANY)
    bench.threads.do_all()
    assert over == [0]
    bench.crash()
    assert not bench.open().logs


def test_a_log_made_anew_while_the_old_one_is_yet_to_be_renamed_keeps_its_own_directory(
    bench: Bench,
) -> None:
    logs = many_logs(bench)
    bench.threads.works = []
    bench.store.delete_all(MANY, lambda: None)
    for old in (logs[0], logs[-1]):
        bench.store.new_logs.preferred[old.topic_partition] = os.path.dirname(old.directory)
    new = bench.store.create(MANY[0], NEW, bench.settings)
    assert isinstance(new, PartitionLog)
    append(new, 3)
    ahead = NewLog(MANY[-1], NEW, bench.settings, 0)
    bench.store.prepare([ahead], lambda: None)
    bench.threads.do_all()
    last = bench.store.create(MANY[-1], NEW, bench.settings)
    assert isinstance(last, PartitionLog)
    append(last, 4)
    assert plain_names(bench) == {str(MANY[0]), str(MANY[-1])}
    assert bench.names("-stray") == []
    bench.crash()
    store = bench.open()
    found = {place: (each.offset_end, each.topic_id) for place, each in store.logs.items()}
    assert found == {MANY[0]: (3, NEW), MANY[-1]: (4, NEW)}


def test_logs_whose_directories_cannot_be_renamed_are_still_there_and_may_be_deleted_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_logs(bench)
    rename = os.rename

    def refuse_one(old: str, new: str) -> None:
        if old.endswith(str(MANY[30])):
            raise PermissionError(1, "refused")
        rename(old, new)

    bench.threads.works = []
    bench.store.delete_all(MANY, lambda: None)
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", refuse_one)
        with pytest.raises(StorageFault):
            bench.store.create(MANY[30], NEW, bench.settings)
        bench.threads.do_all()
    assert list(bench.store.logs) == [MANY[30]]
    assert bench.store.logs[MANY[30]].fault is not None
    bench.store.delete(MANY[30])
    assert plain_names(bench) == set()
