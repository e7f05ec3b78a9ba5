"""A log's copy in another directory: it follows its source and takes its place."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from moldau.model.names import TopicPartition
from moldau.records.batch import read_header
from moldau.storage.directories.future_log import (
    FutureLog,
    future_directory_name,
    leftovers,
    parse_future_directory,
)
from moldau.storage.directories.log_store import LogStore
from moldau.storage.log_state.checkpoint_files import CHECKPOINT_FILES
from moldau.storage.storage_faults import StorageFault
from tests.support.at_once import AtOnce
from tests.support.logs import SmallSettings, batch, read_all, region_bytes, spans
from tests.support.virtual_time import ManualClock

PLACE = TopicPartition("t", 0)
TOPIC_ID = b"t" * 16


@dataclass
class TwoDirectories:
    root: Path
    settings: SmallSettings

    def __post_init__(self) -> None:
        self.paths = [str(self.root / name) for name in ("a", "b")]
        self.clock = ManualClock(1_700_000_000_000)
        self.store = self.open()
        self.source = self.store.create(PLACE, TOPIC_ID, self.settings)

    def open(self) -> LogStore:
        store = LogStore(
            self.paths,
            node_id=0,
            settings_for=lambda topic: self.settings,
            clock=self.clock,
            threads=AtOnce(),
        )
        store.open()
        return store

    def append(self, count: int, epoch: int = 0) -> None:
        for _ in range(count):
            data = bytearray(batch(2))
            self.source.append_as_leader(data, read_header(data), epoch)

    def copy(self) -> FutureLog:
        """All that there is, in small pieces."""
        future = FutureLog(self.store, self.source, self.paths[1])
        catch_up(future)
        return future


def catch_up(future: FutureLog) -> None:
    future.align()
    while future.offset_lag:
        source = future.source
        region, _ = source.read(future.log.offset_end, 200, source.offset_end)
        assert region is not None
        future.append(region_bytes(region))


@pytest.fixture
def two(tmp_path: Path) -> TwoDirectories:
    return TwoDirectories(tmp_path, SmallSettings(segment_bytes=500, file_delete_delay_ms=0))


def test_a_copy_takes_the_place_of_its_source(two: TwoDirectories) -> None:
    two.append(10)
    future = two.copy()
    assert parse_future_directory(os.path.basename(future.log.directory)) == PLACE
    expected = read_all(two.source)
    moved = future.take_over()
    assert two.store.get(PLACE) is moved
    assert moved.directory == os.path.join(two.paths[1], "t-0")
    assert read_all(moved) == expected
    assert moved.topic_id == TOPIC_ID
    assert [len(two.store.logs_in(each)) for each in two.store.directories] == [0, 1]
    assert not Path(two.paths[0], "t-0").exists()


def test_what_was_moved_is_found_in_its_new_directory_after_a_crash(two: TwoDirectories) -> None:
    two.append(10)
    moved = two.copy().take_over()
    data = bytearray(batch(2))
    moved.append_as_leader(data, read_header(data), 0)
    expected = read_all(moved)
    for directory in two.store.directories:
        directory.unlock()
    again = two.open().get(PLACE)
    assert again is not None
    assert again.directory == moved.directory
    assert read_all(again) == expected


def test_a_copy_loses_what_its_source_was_truncated_by(two: TwoDirectories) -> None:
    two.append(5, epoch=0)
    future = two.copy()
    two.source.truncate_to(6)
    two.append(4, epoch=2)
    # As long as before, yet another history.
    assert two.source.offset_end > future.log.offset_end
    catch_up(future)
    assert read_all(future.log) == read_all(two.source)
    assert future.log.epoch_end_offset(0) == two.source.epoch_end_offset(0)


def test_a_copy_that_retention_overtakes_starts_again_where_the_source_does(
    two: TwoDirectories,
) -> None:
    two.append(2)
    future = two.copy()
    two.append(20)
    two.source.advance_log_start(30)
    catch_up(future)
    moved = future.take_over()
    assert moved.log_start_offset == 30
    assert spans(read_all(moved))[-1][1] == 43


def test_a_source_that_starts_within_a_batch_is_copied_from_that_batch_on(
    two: TwoDirectories,
) -> None:
    two.append(6)
    two.source.advance_log_start(5)
    expected = spans(read_all(two.source))
    moved = two.copy().take_over()
    assert (moved.log_start_offset, moved.offset_end) == (5, 12)
    assert spans(read_all(moved)) == expected


def test_an_incomplete_copy_never_takes_over(two: TwoDirectories) -> None:
    two.append(2)
    future = two.copy()
    two.append(1)
    with pytest.raises(AssertionError, match="not complete"):
        future.take_over()


def test_a_discarded_copy_leaves_the_source_alone(two: TwoDirectories) -> None:
    two.append(3)
    future = two.copy()
    future.discard()
    assert not Path(future.log.directory).exists()
    assert two.store.get(PLACE) is two.source
    assert two.source.fault is None
    assert len(read_all(two.source)) == 3


def test_an_unfinished_copy_is_found_by_the_next_run(two: TwoDirectories) -> None:
    two.append(3)
    future = two.copy()
    for directory in two.store.directories:
        directory.unlock()
    assert leftovers(two.open()) == {PLACE: [future.log.directory]}


def test_a_copy_whose_files_went_away_never_takes_over(two: TwoDirectories) -> None:
    two.append(10)
    future = two.copy()
    gone = future.log.segments.as_list()[1]
    for suffix in (".log", ".index", ".timeindex"):
        os.unlink(gone.path(suffix))
    with pytest.raises(StorageFault):
        future.take_over()
    assert two.store.get(PLACE) is two.source
    assert two.source.fault is None
    assert not Path(two.paths[1], "t-0").exists()
    two.append(1)
    assert len(read_all(two.source)) == 11


def test_a_copy_that_is_shorter_on_disk_than_what_was_copied_never_takes_over(
    two: TwoDirectories,
) -> None:
    two.append(10)
    future = two.copy()
    with open(future.log.segments.as_list()[0].path(".log"), "r+b") as file:
        file.truncate(50)
    with pytest.raises(StorageFault, match="cannot use the copy"):
        future.take_over()
    assert two.store.get(PLACE) is two.source


def test_a_flush_notices_that_a_segment_in_use_is_gone(two: TwoDirectories) -> None:
    two.append(10)
    os.unlink(two.source.segments.active.path(".log"))
    with pytest.raises(StorageFault, match="No such file"):
        two.source.flush()
    assert two.source.fault is not None


def test_a_flush_does_not_mind_that_a_segment_was_deleted_meanwhile(two: TwoDirectories) -> None:
    two.append(10)
    work = two.source.begin_flush()
    assert work is not None
    two.source.truncate_fully(20)
    assert two.source.finish_flush(work, work.run()) is None
    work = two.source.begin_flush()
    two.append(10)
    work = two.source.begin_flush()
    assert work is not None
    two.store.delete(PLACE)
    assert two.source.finish_flush(work, work.run()) is None


def test_a_moved_log_keeps_its_start_and_none_of_an_earlier_one(two: TwoDirectories) -> None:
    """The target's checkpoints still speak of a log of that name that was there before."""
    target = two.store.directories[1]
    target.write_checkpoints({name: {PLACE: 900} for name in CHECKPOINT_FILES})
    two.append(10)
    two.source.advance_log_start(7)
    moved = two.copy().take_over()
    expected = spans(read_all(moved))
    for directory in two.store.directories:
        directory.unlock()
    again = two.open().get(PLACE)
    assert again is not None
    assert (again.log_start_offset, again.offset_end) == (7, 20)
    assert spans(read_all(again)) == expected
    assert PLACE not in target.high_watermarks()


def test_a_source_that_cannot_be_taken_away_does_not_undo_the_move(
    two: TwoDirectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.append(5)
    future = two.copy()
    real, source = os.rename, two.source.directory

    def refuse(old: str, new: str) -> None:
        if old == source:
            raise PermissionError(1, "refused")
        real(old, new)

    monkeypatch.setattr(os, "rename", refuse)
    moved = future.take_over()
    monkeypatch.undo()
    assert two.store.get(PLACE) is moved
    data = bytearray(batch(2))
    moved.append_as_leader(data, read_header(data), 0)
    expected = read_all(moved)
    for directory in two.store.directories:
        directory.unlock()
    store = two.open()
    again = store.get(PLACE)
    assert again is not None
    assert (again.directory, read_all(again)) == (moved.directory, expected)
    assert len(store.online) == 2
    assert [name for name in os.listdir(two.paths[0]) if name.endswith("-stray")]


def test_a_long_name_stays_a_legal_one() -> None:
    name = future_directory_name(TopicPartition("t" * 249, 7), "0" * 32)
    assert len(name) == 255
    assert name.endswith("-7." + "0" * 32 + "-future")
