"""Random histories of a log on a disk that fails: kills, power cuts and errors at any change.

The model is a list of batches. After a kill the log must hold every batch that was acknowledged,
after a power cut every one below the recovery point, and never anything but a beginning of what
was written, or of what each segment after the recovery point was given; producers, aborted
transactions and epochs must follow from the batches that are there, and no file may be left over.
A failure names its seed.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from moldau.model.names import TopicPartition
from moldau.records.batch import BatchHeader, read_header
from moldau.records.batch_codec import ControlType, EndMarker, encode_marker
from moldau.storage.directories.log_store import LogStore
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log_files import parse_offset_file_name
from moldau.storage.log_state.producer_state import Origin
from moldau.storage.storage_faults import StorageFault
from tests.support import seeds
from tests.support.broker_logs import broker_logs, topic_config
from tests.support.faulty_disk import DISK_FAULTS, Crash, FaultyDisk, storage_on
from tests.support.log_truth import SEQUENCE_MASK, Truth
from tests.support.logs import SmallSettings, batch, loaded, read_all
from tests.support.virtual_time import ManualClock

NOW_MS = 1_700_000_000_000
PARTITION = TopicPartition("logs", 0)
TOPIC_ID = bytes(range(16))
BLOCK = 50
BLOCKS_SHORT = range(8)
BLOCKS_LONG = range(8, 212)
STEPS = 40
RESTARTS_MAX = 50
SEEDS_THAT_FAILED = (1904, 4326, 7624, 4352, 6694, 8287, 9555, 25922)
"""Three truncations into a gap that a power cut had left; four log starts that a start had ignored
and the next one believed; a producer that a log knew of which was to start over."""


class Life:
    """One random life of a log, through as many processes as it takes."""

    def __init__(self, seed: int, root: Path) -> None:
        self.chance = random.Random(seed)
        self.disk = FaultyDisk(str(root), self.chance)
        self.path = str(root / "data")
        self.clock = ManualClock(NOW_MS)
        self.settings = SmallSettings(
            segment_bytes=self.chance.choice([1300, 2500, 1 << 20]),
            index_interval_bytes=self.chance.choice([0, 200, 4096]),
            segment_ms=self.chance.choice([50, 10**9]),
            file_delete_delay_ms=self.chance.choice([0, 1000]),
            flush_messages=self.chance.choice([1, 10, 2**63 - 1]),
            preallocate=self.chance.random() < 0.1,
        )
        self.batches: list[BatchHeader] = []
        """All that are in the log, or were and went by retention."""
        self.aborts: set[int] = set()
        self.epoch = 0
        self.log_start_checkpointed = 0
        # What the operation under way may leave behind, should it not come to its end.
        self.appending: BatchHeader | None = None
        self.truncating: int | None = None
        self.start_offset_next = 0
        self.durable_end = 0
        self.refused: BatchHeader | None = None
        """The batch after the last one, should it be there: written, cut off again, not answered;
        a power cut may undo the cut."""
        self.store: LogStore
        self.actions: list[Callable[[], None]] = [
            *[self.append] * 10,
            *[self.append_idempotent] * 8,
            *[self.append_transactional] * 5,
            *[self.end_transaction] * 4,
            *[self.flush] * 2,
            *[self.checkpoint] * 2,
            self.roll,
            self.truncate,
            self.truncate_fully,
            self.delete_records,
            self.retain,
            self.remove_deleted,
            self.lead_again,
            self.stop,
        ]

    @property
    def log(self) -> PartitionLog:
        return self.store.logs[PARTITION]

    def run(self) -> None:
        with storage_on(self.disk):
            self.plan_trouble()
            self.survive(self.open)
            for _ in range(STEPS):
                self.survive(self.chance.choice(self.actions))
            self.crash(power_cut=False)
            self.crash(power_cut=True)

    def plan_trouble(self) -> None:
        self.power_cut = self.chance.random() < 0.5
        if self.chance.random() < 0.8:
            self.disk.crash_at = self.disk.changes + self.chance.choice(
                [self.chance.randrange(1, 30), self.chance.randrange(1, 150)]
            )
        if self.chance.random() < 0.4:
            at = self.disk.changes + self.chance.randrange(1, 60)
            self.disk.fail_at[at] = self.chance.choice(DISK_FAULTS)

    def survive(self, action: Callable[[], None]) -> None:
        failures = self.disk.failures
        try:
            action()
        except Crash:
            self.crash(power_cut=self.power_cut)
            return
        except StorageFault:
            assert self.disk.failures > failures, "a fault without a cause"
            if self.appending is None or self.log_or_none() is None or self.log.fault:
                # Half of something may be done: the broker stops using the directory.
                self.crash(power_cut=self.chance.random() < 0.5)
                return
            if self.log.offset_end == self.appending.offset_end:
                # Written, but the flush that flush.messages asks for has failed: not answered.
                self.batches.append(self.appending)
        if self.log_or_none() is None:
            # A flush or a checkpoint found the disk broken: the directory was taken offline.
            assert self.disk.failures, "a fault without a cause"
            if self.appending in self.batches:
                self.appending = None
            self.crash(power_cut=self.chance.random() < 0.5)
            return
        self.forget_operation()
        if self.log.fault is not None:
            assert self.disk.failures, "a fault without a cause"
            self.crash(power_cut=self.chance.random() < 0.5)
            return
        self.check()

    def log_or_none(self) -> PartitionLog | None:
        return self.store.logs.get(PARTITION) if hasattr(self, "store") else None

    def forget_operation(self) -> None:
        if self.appending is not None:
            self.refused = None if self.appending in self.batches else self.appending
        self.appending = self.truncating = None
        self.durable_end = self.log.recovery_point
        self.start_offset_next = self.log.log_start_offset

    # What may happen

    def open(self) -> None:
        self.store = broker_logs(self.path, {PARTITION.topic: self.settings}, self.clock)
        self.store.open("cluster")
        self.store.create(PARTITION, TOPIC_ID, topic_config(self.settings))

    def stamp(self) -> int:
        return NOW_MS + len(self.batches) * 3 + self.chance.randrange(-40, 40)

    def write(self, sent: bytes, origin: Origin = Origin.CLIENT) -> None:
        buffer = bytearray(sent)
        header = read_header(buffer)
        base = self.log.offset_end
        self.appending = header._replace(base_offset=base, leader_epoch=self.epoch)
        appended = self.log.append_as_leader(memoryview(buffer), header, self.epoch, origin)
        assert appended.base_offset == base
        self.batches.append(self.appending)

    def append(self) -> None:
        size = self.chance.choice([0, 20, 200])
        self.write(batch(self.chance.randrange(1, 6), timestamp=self.stamp(), size=size))

    def send(self, producer_id: int, *, transactional: bool) -> None:
        entry = self.log.producers.entry(producer_id)
        due = 0 if entry is None else (entry.last_sequence + 1) & SEQUENCE_MASK
        sent = batch(
            self.chance.randrange(1, 4),
            timestamp=self.stamp(),
            producer_id=producer_id,
            epoch=0,
            sequence=due,
            transactional=transactional,
        )
        self.write(sent)

    def append_idempotent(self) -> None:
        self.send(self.chance.randrange(3), transactional=False)

    def append_transactional(self) -> None:
        self.send(self.chance.randrange(100, 103), transactional=True)

    def end_transaction(self) -> None:
        commit = self.chance.random() < 0.5
        offset = self.log.offset_end
        if commit:
            self.aborts.discard(offset)
        else:
            self.aborts.add(offset)
        marker = encode_marker(
            EndMarker(ControlType.COMMIT if commit else ControlType.ABORT, 0),
            producer_id=self.chance.randrange(100, 103),
            producer_epoch=0,
            timestamp=NOW_MS,
        )
        self.write(marker, Origin.COORDINATOR)

    def flush(self) -> None:
        self.log.flush()

    def checkpoint(self) -> None:
        self.start_offset_next = self.log.log_start_offset
        self.store.write_checkpoints({})
        if not self.disk.failures:
            self.log_start_checkpointed = self.log.log_start_offset

    def roll(self) -> None:
        self.log.roll()

    def truncate(self) -> None:
        start, end = self.log.log_start_offset, self.log.offset_end
        if end <= start:
            return
        offset = self.chance.randrange(start, end + 1)
        if any(each.base_offset < start and each.offset_end > offset for each in self.batches):
            return
        self.truncating = offset
        self.log.truncate_to(offset)
        assert self.log.offset_end <= offset
        self.batches = [each for each in self.batches if each.offset_end <= offset]
        self.epoch += 1

    def truncate_fully(self) -> None:
        if self.chance.random() < 0.7:
            return
        self.truncating = 0
        offset = self.log.offset_end + self.chance.randrange(1, 20)
        self.log.truncate_fully(offset)
        self.batches = []
        self.log_start_checkpointed = 0
        self.epoch += 1

    def delete_records(self) -> None:
        log = self.log
        offset = self.chance.randrange(log.log_start_offset, log.offset_end + 1)
        self.start_offset_next = offset
        log.advance_log_start(offset)
        if self.chance.random() < 0.7:
            log.delete_old_segments(NOW_MS, log.offset_end)

    def retain(self) -> None:
        log = self.log
        self.start_offset_next = log.offset_end
        kept_bytes = self.chance.choice([300, 1500])
        log.settings = topic_config(replace(self.settings, retention_bytes=kept_bytes))
        try:
            log.delete_old_segments(NOW_MS, log.offset_end)
        finally:
            log.settings = topic_config(self.settings)

    def remove_deleted(self) -> None:
        self.clock.now_ms += self.chance.choice([1, 2000])
        self.store.remove_deleted_files()

    def lead_again(self) -> None:
        self.epoch += self.chance.randrange(1, 3)

    def stop(self) -> None:
        """Once, or several times without anybody using the log in between."""
        for _ in range(self.chance.choice([1, 1, 2, 3])):
            self.store.close({PARTITION: self.log.offset_end})
            self.open()
        self.use()

    def use(self) -> None:
        """A log at rest reads its files now, and repairs them if need be."""
        loaded(self.store.logs[PARTITION])

    # What a crash leaves

    def crash(self, *, power_cut: bool) -> None:
        if (log := self.log_or_none()) is not None:
            log.cool()
        lost_power = False
        for _ in range(RESTARTS_MAX):
            if hasattr(self, "store"):
                for directory in self.store.directories:
                    directory.unlock()
            self.disk.restart(power_cut=power_cut)
            lost_power = lost_power or power_cut
            self.plan_trouble()
            power_cut = self.power_cut
            try:
                self.open()
                self.use()
            except (Crash, StorageFault):
                continue
            break
        else:
            raise AssertionError("no start succeeded")
        self.check_recovered(lost_power)
        self.forget_operation()
        self.refused = None
        self.check()
        self.check_files()

    def check_recovered(self, lost_power: bool) -> None:
        """The log must be a beginning of what was written, long enough."""
        log = self.log
        last = self.appending or self.refused
        written = [*self.batches, last] if last else self.batches
        floor = max((each.offset_end for each in self.batches), default=0)
        if self.truncating is not None:
            kept = [each for each in self.batches if each.offset_end <= self.truncating]
            floor = max((each.offset_end for each in kept), default=0)
        if lost_power:
            floor = min(floor, self.durable_end)
        assert log.offset_end >= floor, f"acknowledged batches up to {floor} are lost"
        assert log.log_start_offset <= self.start_offset_next or self.truncating == 0
        # Where whole segments went the directory says so, which a power cut may undo.
        # A log that is to start over far ahead may be found empty, and starts over where it is.
        is_kept = log.log_start_offset >= self.log_start_checkpointed
        assert lost_power or is_kept or self.truncating == 0
        self.log_start_checkpointed = min(self.log_start_checkpointed, log.log_start_offset)
        self.batches = [each for each in written if each.offset_end <= log.offset_end]
        if self.truncating == 0 and not read_all(log):
            self.batches = []
        if lost_power:
            self.forget_lost_ends(floor)

    def forget_lost_ends(self, floor: int) -> None:
        """A power cut may have taken the end of a closed segment that was not flushed. What lies in
        the next one is kept nevertheless: a gap is no reason to remove anything."""
        there = set(read_all(self.log))
        bases = {segment.base_offset for segment in self.log.segments.as_list()}
        kept: list[BatchHeader] = []
        for each in self.batches:
            is_hidden = each.last_offset < self.log.log_start_offset
            if each.offset_end > floor and each not in there and not is_hidden:
                continue
            if kept and kept[-1].offset_end != each.base_offset and not is_hidden:
                assert each.base_offset in bases, "a gap in the middle of a segment"
            kept.append(each)
        self.batches = kept

    # What must hold

    def check(self) -> None:
        log = self.log
        start = log.log_start_offset
        here = [each for each in self.batches if each.last_offset >= start]
        assert read_all(log, self.chance.choice([1, 500, 1 << 20])) == here
        if here:
            # Where a power cut took the last batches, the empty segment after them has the offset.
            assert log.offset_end == max(here[-1].offset_end, log.segments.active.base_offset)
        assert log.offset_end >= start
        truth = Truth.of(self.batches, self.aborts)
        self.check_producers(truth)
        self.check_aborted(truth)
        stable = min((first for first in truth.open.values() if first >= start), default=None)
        if stable is not None:
            assert log.last_stable_offset(log.offset_end) <= stable
        for each in here:
            offset = max(each.base_offset, start)
            assert log.epoch_at(offset) == each.leader_epoch

    def check_producers(self, truth: Truth) -> None:
        log = self.log
        for entry in log.producers.entries:
            if entry.batches:
                due = (entry.last_sequence + 1) & SEQUENCE_MASK
                assert truth.sequences.get(entry.producer_id) == due
        for producer_id, offset in truth.written.items():
            if offset >= max(log.segments.base_offset, log.log_start_offset):
                entry = log.producers.entry(producer_id)
                assert entry is not None
                assert entry.batches, f"producer {producer_id} is forgotten"

    def check_aborted(self, truth: Truth) -> None:
        log = self.log
        found = log.aborted_transactions(log.log_start_offset, log.offset_end)
        first_of = {each.last_offset: each.first_offset for each in found}
        for _, first, marker in truth.aborted:
            if first >= log.segments.base_offset and marker >= log.log_start_offset:
                assert first_of.pop(marker) == first
            else:
                first_of.pop(marker, None)
        assert not first_of, f"aborted transactions that never were: {first_of}"

    def check_files(self) -> None:
        bases = {segment.base_offset for segment in self.log.segments}
        for name in os.listdir(self.log.directory):
            parsed = parse_offset_file_name(name)
            if parsed is None:
                assert name in ("leader-epoch-checkpoint", "partition.metadata")
            elif parsed[1] == ".snapshot":
                assert parsed[0] in bases or parsed[0] > max(bases)
            else:
                assert parsed[0] in bases, f"{name} is left over"
                assert parsed[1] in (".log", ".index", ".timeindex", ".txnindex")
        assert not [name for name in os.listdir(self.path) if name.endswith(".tmp")]


@pytest.fixture
def root() -> Iterator[Path]:
    """In memory where there is such a place: the shadow, not the disk, says what is durable."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="moldau-crashes-", dir=memory))
    yield path
    shutil.rmtree(path)


def live(block: int, root: Path) -> None:
    live_all(seeds.several(BLOCK, first=block * BLOCK), root)


def live_all(chosen: Iterable[int], root: Path) -> None:
    for seed in chosen:
        directory = root / str(seed)
        directory.mkdir()
        life = Life(seed, directory)
        try:
            life.run()
        except BaseException as error:
            error.add_note(f"the last changes: {life.disk.history}")
            raise
        finally:
            if hasattr(life, "store"):
                for each in life.store.directories:
                    each.unlock()
        shutil.rmtree(directory)


@pytest.mark.parametrize("block", BLOCKS_SHORT)
def test_a_log_loses_nothing_to_kills_power_cuts_and_disk_errors(block: int, root: Path) -> None:
    live(block, root)


def test_a_log_loses_nothing_where_it_once_did(root: Path) -> None:
    live_all(SEEDS_THAT_FAILED, root)


@pytest.mark.long
@pytest.mark.parametrize("block", BLOCKS_LONG)
def test_a_log_loses_nothing_ten_thousand_times(block: int, root: Path) -> None:
    live(block, root)
