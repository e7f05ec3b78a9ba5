"""Where a log starts, when that goes back: what the checkpoint said before must not come true
later, when the log has grown past it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau.model.names import TopicPartition
from moldau.records.batch import read_header
from moldau.storage.directories.log_store import LogStore
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.storage_faults import StorageFault
from tests.support.at_once import AtOnce
from tests.support.logs import SmallSettings, batch, read_all, spans
from tests.support.virtual_time import ManualClock

PARTITION = TopicPartition("t", 0)


class Later(AtOnce):
    """Works wait until they are asked for, if they are to."""

    def __init__(self) -> None:
        self.is_waiting = False
        self._works: list[Callable[[], None]] = []

    def run(
        self,
        work: Callable[[], StorageFault | None],
        done: Callable[[StorageFault | None], None],
    ) -> None:
        if self.is_waiting:
            self._works.append(lambda: done(work()))
        else:
            done(work())

    def finish(self) -> None:
        self.is_waiting = False
        for work in self._works:
            work()


class Bench:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.threads = Later()
        self.open()

    def open(self) -> None:
        settings = SmallSettings()
        self.store = LogStore(
            [str(self.root)],
            node_id=1,
            settings_for=lambda topic: settings,
            clock=ManualClock(1_700_000_000_000),
            threads=self.threads,
        )
        self.store.open("cluster")
        self.store.create(PARTITION, bytes(range(16)), settings)

    @property
    def log(self) -> PartitionLog:
        return self.store.logs[PARTITION]

    def append(self, *counts: int) -> None:
        for count in counts:
            buffer = bytearray(batch(count))
            self.log.append_as_leader(buffer, read_header(buffer), 0)

    def hide_before(self, offset: int) -> None:
        self.log.advance_log_start(offset)
        self.store.write_checkpoints({})

    def leave(self) -> None:
        for directory in self.store.directories:
            directory.unlock()

    def crash(self) -> None:
        """The process is gone, and with it its locks."""
        self.leave()
        self.open()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.leave()


def test_a_log_start_that_one_start_has_ignored_hides_nothing_from_the_next(bench: Bench) -> None:
    bench.append(2, 2, 2, 2)
    bench.hide_before(6)
    file = bench.root / "t-0" / "00000000000000000000.log"
    content = file.read_bytes()
    # A power cut took the end.
    file.write_bytes(content[: len(content) // 2])
    bench.crash()
    assert (bench.log.log_start_offset, bench.log.offset_end) == (0, 4)
    bench.append(2, 2, 2)
    bench.crash()
    assert (bench.log.log_start_offset, bench.log.offset_end) == (0, 10)
    assert len(read_all(bench.log)) == 5


def test_what_is_written_after_starting_over_further_back_stays_in_sight(bench: Bench) -> None:
    bench.append(5, 5)
    bench.hide_before(8)
    bench.log.truncate_fully(3)
    bench.append(5, 5)
    bench.crash()
    assert (bench.log.log_start_offset, bench.log.offset_end) == (3, 13)


def test_what_is_written_after_a_truncation_before_the_log_start_stays_in_sight(
    bench: Bench,
) -> None:
    bench.append(5, 5)
    bench.hide_before(7)
    # Batches are whole: the one that 7 lies in goes.
    bench.log.truncate_to(7)
    bench.append(5, 5)
    bench.crash()
    assert (bench.log.log_start_offset, bench.log.offset_end) == (5, 15)
    assert spans(read_all(bench.log)) == [(5, 9), (10, 14)]


def test_a_checkpoint_that_is_written_late_does_not_bring_an_earlier_log_start_back(
    bench: Bench,
) -> None:
    bench.append(5, 5)
    bench.threads.is_waiting = True
    bench.hide_before(8)
    bench.log.truncate_fully(3)
    bench.threads.finish()
    bench.append(5, 5)
    bench.crash()
    assert (bench.log.log_start_offset, bench.log.offset_end) == (3, 13)


def test_a_checkpoint_that_is_written_late_does_not_vouch_for_what_was_truncated(
    bench: Bench,
) -> None:
    bench.append(5, 5)
    bench.log.flush()
    bench.threads.is_waiting = True
    bench.store.write_checkpoints({})
    bench.log.truncate_to(5)
    bench.threads.finish()
    assert bench.store.directories[0].recovery_points() == {PARTITION: 5}
