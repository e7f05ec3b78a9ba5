"""Compaction on a disk that may stop at any change: whatever is on its way when the process is
killed or the power fails, the newest record of every key is there afterwards, none twice, none at
another offset, and no `.cleaned` or `.swap` file is left over."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau.records.batch import read_header
from moldau.records.batch_codec import Record, decode_batch, encode_batch
from moldau.storage.compaction.compaction_scheduler import Cleaner
from moldau.storage.directories.log_store import LogStore
from moldau.storage.log.partition_log import PartitionLog
from tests.support import seeds
from tests.support.at_once import AtOnce
from tests.support.broker_logs import broker_logs, topic_config
from tests.support.compaction import NOW_MS, PARTITION, small_cleaner
from tests.support.faulty_disk import Crash, FaultyDisk, storage_on
from tests.support.logs import SmallSettings, region_bytes
from tests.support.virtual_time import ManualClock

BLOCK = 25
BLOCKS_SHORT = range(4)
BLOCKS_LONG = range(4, 84)
STEPS = 60
RESTARTS_MAX = 50


class Life:
    def __init__(self, seed: int, root: Path) -> None:
        self.chance = random.Random(seed)
        self.disk = FaultyDisk(str(root), self.chance)
        self.path = str(root / "data")
        self.clock = ManualClock(NOW_MS)
        self.settings = SmallSettings(
            segment_bytes=self.chance.choice([400, 900]),
            index_interval_bytes=self.chance.choice([0, 200]),
            cleanup_policy=("compact",),
            min_cleanable_dirty_ratio=0.0,
            # Every record is flushed, so that a power cut may take none that was acknowledged.
            flush_messages=1,
            file_delete_delay_ms=self.chance.choice([0, 1000]),
        )
        self.keys: list[bytes] = []
        """By offset."""
        self.store: LogStore
        self.cleaner: Cleaner

    @property
    def log(self) -> PartitionLog:
        return self.store.logs[PARTITION]

    def run(self) -> None:
        actions = [*[self.append] * 12, *[self.compact] * 3, self.roll, self.checkpoint, self.tidy]
        with storage_on(self.disk):
            self.survive(self.open)
            for _ in range(STEPS):
                self.survive(self.chance.choice(actions))

    def survive(self, action: Callable[[], None]) -> None:
        try:
            action()
            self.check()
        except Crash:
            self.restart()

    def restart(self) -> None:
        for _ in range(RESTARTS_MAX):
            if hasattr(self, "store"):
                for directory in self.store.directories:
                    directory.unlock()
            self.disk.restart(power_cut=self.chance.random() < 0.5)
            try:
                self.open()
            except Crash:
                continue
            break
        end = self.log.offset_end
        assert end in (len(self.keys), len(self.keys) - 1), "the last may not be acknowledged"
        del self.keys[end:]
        self.check()
        left = [name for name in os.listdir(self.log.directory) if name.endswith(LEFTOVERS)]
        assert left == []

    def open(self) -> None:
        self.disk.crash_at = self.disk.changes + self.chance.randrange(20, 200)
        # A start that cannot read a topic's settings goes on with the defaults.
        known = {PARTITION.topic: self.settings} if self.chance.random() < 0.8 else {}
        self.store = broker_logs(self.path, known, self.clock)
        self.store.open("cluster")
        self.store.create(PARTITION, bytes(range(16)), topic_config(self.settings))
        self.cleaner = Cleaner(
            self.store,
            high_watermark=lambda partition: self.log.offset_end,
            settings=small_cleaner,
            clock=self.clock,
            new_thread=AtOnce,
        )

    def append(self) -> None:
        offset, key = self.log.offset_end, b"k%d" % self.chance.randrange(6)
        buffer = bytearray(encode_batch([Record(0, NOW_MS, key, b"%d" % offset)]))
        self.keys.append(key)
        self.log.append_as_leader(memoryview(buffer), read_header(buffer), 0)

    def compact(self) -> None:
        self.cleaner.look()

    def roll(self) -> None:
        self.log.roll()

    def checkpoint(self) -> None:
        self.store.write_checkpoints({})

    def tidy(self) -> None:
        self.clock.now_ms += 2000
        self.store.remove_deleted_files()

    def check(self) -> None:
        found: dict[int, bytes] = {}
        offset = self.log.log_start_offset
        while (read := self.log.read(offset, 1 << 20, self.log.offset_end)).region is not None:
            for record in decode_batches(region_bytes(read.region)):
                assert record.offset not in found, f"offset {record.offset} twice"
                assert record.value == b"%d" % record.offset
                found[record.offset] = record.key or b""
            offset = read.offset_end
        assert all(self.keys[at] == key for at, key in found.items())
        newest = {key: at for at, key in enumerate(self.keys)}
        missing = [at for at in newest.values() if at not in found]
        assert not missing, f"the newest records at {missing} are lost"


LEFTOVERS = (".cleaned", ".swap", ".deleted", ".tmp")


def decode_batches(content: bytes) -> Iterator[Record]:
    position = 0
    while position < len(content):
        size = read_header(content, position).size_bytes
        yield from decode_batch(content[position : position + size])
        position += size


@pytest.fixture
def root() -> Iterator[Path]:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="moldau-compactions-", dir=memory))
    yield path
    shutil.rmtree(path)


def live(block: int, root: Path) -> None:
    for seed in seeds.several(BLOCK, first=block * BLOCK):
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
def test_compaction_loses_no_newest_record_to_a_crash(block: int, root: Path) -> None:
    live(block, root)


@pytest.mark.long
@pytest.mark.parametrize("block", BLOCKS_LONG)
def test_compaction_loses_nothing_two_thousand_times(block: int, root: Path) -> None:
    live(block, root)
