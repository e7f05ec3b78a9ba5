"""Logs on a temporary directory: small settings, made-up batches, and reading everything back."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from moldau.model.file_regions import FileRegion
from moldau.model.names import TopicPartition
from moldau.records.batch import BatchHeader, read_header, whole_headers
from moldau.records.batch_codec import ControlType, EndMarker, Record, encode_batch, encode_marker
from moldau.records.compression import Codec
from moldau.storage.log.log_at_rest import AnyLog, RestingLog
from moldau.storage.log.offsets_by_timestamp import TimedOffset, TimeSearch
from moldau.storage.log.partition_log import Appended, PartitionLog
from moldau.storage.log_state.producer_room import ProducerRoom
from moldau.storage.log_state.producer_state import Origin
from moldau.storage.recovery.log_recovery import Recovery, load_log
from moldau.storage.storage_faults import StorageFault
from tests.support.virtual_time import ManualClock

DAY_MS = 86_400_000
LONG_MAX = 2**63 - 1
PARTITION = TopicPartition("logs", 0)


@dataclass(frozen=True)
class SmallSettings:
    """Apache Kafka's defaults, to be made small where a test wants it."""

    segment_bytes: int = 1 << 30
    internal_segment_bytes: int | None = None
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = -1
    retention_bytes: int = -1
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    file_delete_delay_ms: int = 60_000
    cleanup_policy: tuple[str, ...] = ("delete",)
    preallocate: bool = False
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    min_cleanable_dirty_ratio: float = 0.5

    @property
    def roll_ms(self) -> int:
        return self.segment_ms


@dataclass
class LogBench:
    """One partition's log, opened again as often as a test likes."""

    root: Path
    settings: SmallSettings = field(default_factory=SmallSettings)
    clock: ManualClock = field(default_factory=lambda: ManualClock(1_700_000_000_000))
    partition: TopicPartition = PARTITION
    log_start_offset: int = 0
    recovery_point: int = 0

    def __post_init__(self) -> None:
        self.directory = self.root / str(self.partition)
        self.directory.mkdir(exist_ok=True)
        self.discarded: list[str] = []
        self.rolled: list[int] = []
        self.producer_room = ProducerRoom.of(DAY_MS, 1 << 30)
        self.log = self.open(clean=True)

    def open(self, *, clean: bool) -> PartitionLog:
        """Load what is on disk; without `clean` as after a crash, from the recovery point on."""
        known = Recovery(
            self.partition,
            str(self.directory),
            self.settings,
            clean,
            self.log_start_offset,
            self.recovery_point,
            self.clock,
            DAY_MS,
            "compact" in self.settings.cleanup_policy,
        )
        self.log = PartitionLog(
            self.partition,
            bytes(16),
            str(self.directory),
            self.settings,
            self.clock,
            load_log(known),
            producer_room=self.producer_room,
            discard=lambda paths, delay_ms: self.discarded.extend(paths),
            went_back=lambda log: None,
            rolled=lambda log: self.rolled.append(log.offset_end),
        )
        return self.log

    def stop_and_open(self) -> PartitionLog:
        """A clean stop and start; the checkpoints are remembered."""
        self.log.close()
        self.remember()
        return self.open(clean=True)

    def crash_and_open(self) -> PartitionLog:
        """As after kill -9: memory is gone, what was written is on disk."""
        self.log.segments.cool()
        return self.open(clean=False)

    def remember(self) -> None:
        self.recovery_point = self.log.recovery_point
        self.log_start_offset = self.log.log_start_offset

    def change(self, **settings: object) -> None:
        self.settings = replace(self.settings, **settings)  # type: ignore[arg-type]
        self.log.settings = self.settings

    def append(self, batch: bytes, leader_epoch: int = 0, **options: object) -> Appended:
        buffer = bytearray(batch)
        header = read_header(buffer)
        return self.log.append_as_leader(memoryview(buffer), header, leader_epoch, **options)  # type: ignore[arg-type]

    def mark(
        self,
        producer_id: int,
        epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int = 0,
        leader_epoch: int = 0,
    ) -> Appended:
        """End the producer's transaction."""
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        marker = encode_marker(
            EndMarker(kind, coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp=self.clock.wall_ms(),
        )
        return self.append(marker, leader_epoch, origin=Origin.COORDINATOR)

    def files(self, suffix: str = "") -> list[str]:
        return sorted(name for name in os.listdir(self.directory) if name.endswith(suffix))

    def file(self, base_offset: int, suffix: str) -> Path:
        return self.directory / f"{base_offset:020d}{suffix}"


def batch(
    count: int = 1,
    *,
    timestamp: int = 1_700_000_000_000,
    size: int = 50,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """`count` records of about `size` bytes; the timestamp grows by one each."""
    records = [Record(i, timestamp + i, b"k%d" % i, bytes(size)) for i in range(count)]
    return encode_batch(
        records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def region_bytes(region: FileRegion) -> bytes:
    return os.pread(region.file.fileno(), region.size_bytes, region.position)


def headers_of(region: FileRegion | None) -> list[BatchHeader]:
    """The batches of a read, which must be whole."""
    if region is None:
        return []
    content = region_bytes(region)
    headers = [header for _, header in whole_headers(content)]
    assert sum(header.size_bytes for header in headers) == region.size_bytes, "a torn batch"
    return headers


def loaded(log: AnyLog) -> PartitionLog:
    """With its files, at once: a bench has no threads. Raises StorageFault."""
    outcomes: list[PartitionLog | StorageFault] = [log] if isinstance(log, PartitionLog) else []
    if isinstance(log, RestingLog):
        log.wake(outcomes.append)
    [outcome] = outcomes
    if isinstance(outcome, StorageFault):
        raise outcome
    return outcome


def read_all(log: AnyLog, max_bytes: int = 1 << 20) -> list[BatchHeader]:
    """Every batch from the log start on, by following reads as a consumer does."""
    found: list[BatchHeader] = []
    log = loaded(log)
    offset = log.log_start_offset
    while True:
        read = log.read(offset, max_bytes, log.offset_end)
        if read.region is None:
            return found
        headers = headers_of(read.region)
        assert headers[-1].offset_end <= read.offset_end
        found += headers
        offset = read.offset_end


def first_from(log: PartitionLog, timestamp: int) -> TimedOffset | None:
    """The first record that is not earlier, as a search in turns finds it."""
    search = log.time_search(timestamp)
    while search is not None:
        found = search.run()
        if isinstance(found, TimedOffset):
            return found
        search = found or log.time_search(timestamp, behind=search.segment)
    return None


def latest_of(log: PartitionLog) -> TimedOffset | None:
    """The first record with the largest timestamp."""
    search = log.max_timestamp_search()
    found = None if search is None else search.run()
    assert not isinstance(found, TimeSearch)
    return found


def spans(headers: Sequence[BatchHeader]) -> list[tuple[int, int]]:
    return [(header.base_offset, header.last_offset) for header in headers]


@contextmanager
def full_disk(file_bytes_max: int) -> Iterator[None]:
    """No file of this process may grow past the limit: writes are cut short there, then fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
