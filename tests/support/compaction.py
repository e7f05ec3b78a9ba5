"""A compacted log on a temporary directory, its cleaner, and what readers see of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from moldau.model.names import TopicPartition
from moldau.records.batch import BatchHeader, read_header
from moldau.records.batch_codec import (
    ControlType,
    EndMarker,
    Record,
    decode_batch,
    encode_batch,
    encode_marker,
)
from moldau.records.compression import Codec
from moldau.storage.compaction.compaction_job import InThread, RoundRunner
from moldau.storage.compaction.compaction_scheduler import Cleaner, CleanerSettings
from moldau.storage.directories.storage_threads import Threads
from moldau.storage.log.partition_log import Appended, PartitionLog
from moldau.storage.log_state.producer_state import Origin
from tests.support.at_once import AtOnce
from tests.support.broker_logs import broker_logs, topic_config
from tests.support.logs import SmallSettings, loaded, region_bytes
from tests.support.virtual_time import ManualClock

NOW_MS = 1_700_000_000_000
PARTITION = TopicPartition("compacted", 0)
COMPACTED = SmallSettings(
    cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0, index_interval_bytes=200
)


def small_cleaner(**changes: float) -> CleanerSettings:
    defaults = CleanerSettings(1, 1 << 20, 0.9, 512 * 1024, 1.7e308)
    return defaults._replace(**changes)  # type: ignore[arg-type]


@dataclass
class CompactionBench:
    root: Path
    settings: SmallSettings = COMPACTED
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW_MS))
    cleaning: CleanerSettings = field(default_factory=small_cleaner)
    high_watermark: int | None = None
    """None: everything is committed."""
    place: RoundRunner = field(default_factory=InThread)
    knows_settings: bool = True
    """Whether a start knows the topic's settings, as it should."""

    def __post_init__(self) -> None:
        self.log: PartitionLog
        self.cleaner: Cleaner
        self.open()

    @property
    def directory(self) -> Path:
        return self.root / "data" / str(PARTITION)

    def open(self, thread: Threads | None = None) -> None:
        known = {PARTITION.topic: self.settings} if self.knows_settings else {}
        self.store = broker_logs(str(self.root / "data"), known, self.clock)
        self.store.open()
        made = self.store.create(PARTITION, bytes(range(16)), topic_config(self.settings))
        self.log = loaded(made)
        self.cleaner = Cleaner(
            self.store,
            high_watermark=self._committed,
            settings=lambda: self.cleaning,
            clock=self.clock,
            new_thread=lambda: thread or AtOnce(),
            new_runner=lambda: self.place,
        )

    def _committed(self, partition: TopicPartition) -> int | None:
        log = self.store.get(partition)
        if log is None:
            return None
        return log.offset_end if self.high_watermark is None else self.high_watermark

    def change(self, **settings: object) -> None:
        self.settings = replace(self.settings, **settings)  # type: ignore[arg-type]
        self.log.settings = topic_config(self.settings)

    def crash(self) -> None:
        """The process is gone, and with it its locks; the next start recovers."""
        self.let_go()
        self.open()

    def let_go(self) -> None:
        for directory in self.store.directories:
            directory.unlock()
        for each in self.store.logs.values():
            if isinstance(each, PartitionLog):
                each.segments.cool()

    def stop(self) -> None:
        self.cleaner.stop()
        self.store.close({PARTITION: self.log.offset_end})

    # -- writing -----------------------------------------------------------------------------

    def append(self, batch: bytes, **options: object) -> Appended:
        buffer = bytearray(batch)
        return self.log.append_as_leader(buffer, read_header(buffer), 0, **options)  # type: ignore[arg-type]

    def put(
        self, *pairs: tuple[str, str | None], codec: Codec = Codec.NONE, **fields: Any
    ) -> Appended:
        """One batch of these keys and values; None is a tombstone."""
        return self.append(encode_batch(records_of(pairs, self.clock), codec=codec, **fields))

    def end_transaction(self, producer_id: int, *, commit: bool, epoch: int = 0) -> Appended:
        marker = encode_marker(
            EndMarker(ControlType.COMMIT if commit else ControlType.ABORT, 0),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp=self.clock.wall_ms(),
        )
        return self.append(marker, origin=Origin.COORDINATOR)

    def roll(self) -> None:
        self.log.roll()

    def compact(self) -> None:
        """Close the segment being written and compact everything before."""
        self.roll()
        self.cleaner.look()

    # -- reading -----------------------------------------------------------------------------

    def batches(self) -> list[tuple[BatchHeader, bytes]]:
        return read_batches_of(self.log)

    def records(self) -> list[tuple[int, str, str | None]]:
        """(offset, key, value) of everything but control records, committed or not."""
        return [
            (record.offset, _text(record.key) or "", _text(record.value))
            for header, content in self.batches()
            if not header.is_control
            for record in decode_batch(content)
        ]

    def names(self, suffix: str = "") -> list[str]:
        return sorted(p.name for p in self.directory.iterdir() if p.name.endswith(suffix))


def records_of(pairs: Iterable[tuple[str, str | None]], clock: ManualClock) -> list[Record]:
    return [
        Record(i, clock.wall_ms(), key.encode(), None if value is None else value.encode())
        for i, (key, value) in enumerate(pairs)
    ]


def read_batches_of(log: PartitionLog, max_bytes: int = 1 << 20) -> list[tuple[BatchHeader, bytes]]:
    """Every batch from the log start on, by following reads as a consumer does."""
    found: list[tuple[BatchHeader, bytes]] = []
    offset = log.log_start_offset
    while True:
        read = log.read(offset, max_bytes, log.offset_end)
        if read.region is None:
            return found
        content, at = region_bytes(read.region), 0
        while at < len(content):
            header = read_header(content, at)
            found.append((header, content[at : at + header.size_bytes]))
            at += header.size_bytes
        assert read.offset_end > offset, "a reader would not get on"
        offset = read.offset_end


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
