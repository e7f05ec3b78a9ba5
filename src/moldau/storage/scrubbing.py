"""Reading closed files again to see whether the disk still holds what was written.

Every batch of a `.log` file is checked by length, format, offsets and checksum, every index entry
by the batch it points to, snapshots by their checksum. Nothing is changed, so a running broker may
be looked at too; the segment it writes to is left out. What is damaged is named as a range of
bytes and offsets, which is what a repair from another replica needs to know.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from moldau.model.names import TopicPartition
from moldau.records.batch import CRC_START, HEADER_BYTES, MAGIC_V2, read_header, read_overhead
from moldau.records.checksum import crc32c
from moldau.storage.batch_walk import BATCH_LENGTH_MIN
from moldau.storage.checkpoints import read_epochs
from moldau.storage.epoch_history import UNDEFINED_EPOCH, EpochHistory
from moldau.storage.faults import CorruptFile, StorageFault
from moldau.storage.files import (
    EPOCHS_FILE,
    KRAFT_METADATA_DIRECTORY,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_file_name,
    parse_offset_file_name,
    parse_partition_directory,
)
from moldau.storage.index import OffsetIndex, TimeIndex
from moldau.storage.snapshots import decode_snapshot
from moldau.storage.txn_index import TxnIndex

OLD_BATCH_BYTES_MIN = 14
"""Of a message in the formats before 0.11, without its offset and size."""


class Damage(NamedTuple):
    """Something that is not as it was written."""

    partition: TopicPartition
    path: str
    reason: str
    position: int
    position_end: int
    """The bytes in doubt; up to the end of the file where no later batch can be found."""
    offset: int
    offset_end: int
    """The offsets that they held, end exclusive: from the last good batch to the next."""


class Scrubbed(NamedTuple):
    """One file that was read."""

    path: str
    size_bytes: int
    damages: tuple[Damage, ...]


Reader = Callable[[int], None]
"""Hears how many bytes were read, and may wait: the pace."""


def partitions_in(log_directory: str) -> Iterator[tuple[TopicPartition, str]]:
    try:
        names = sorted(os.listdir(log_directory))
    except OSError as error:
        raise StorageFault.of("cannot read", log_directory, error) from error
    for name in names:
        partition = parse_partition_directory(name)
        path = os.path.join(log_directory, name)
        if partition is not None and name != KRAFT_METADATA_DIRECTORY and os.path.isdir(path):
            yield partition, path


def scrub_partition(
    partition: TopicPartition, directory: str, *, with_last: bool, has_read: Reader
) -> Iterator[Scrubbed]:
    """Every file of the closed segments; `with_last` the last segment too, of a stopped broker.
    Files that retention removes meanwhile are passed over."""
    parsed = [p for p in map(parse_offset_file_name, os.listdir(directory)) if p is not None]
    bases = sorted(offset for offset, suffix in parsed if suffix == LOG_SUFFIX)
    for number, base in enumerate(bases):
        is_last = number == len(bases) - 1
        if is_last and not with_last:
            continue
        next_base = None if is_last else bases[number + 1]
        try:
            yield from _scrub_segment(partition, directory, base, next_base, has_read)
        except FileNotFoundError:
            continue
    for offset, suffix in sorted(parsed):
        if suffix == SNAPSHOT_SUFFIX:
            path = os.path.join(directory, offset_file_name(offset, suffix))
            try:
                yield _scrub_snapshot(partition, path, offset)
            except FileNotFoundError:
                continue


def _scrub_segment(
    partition: TopicPartition, directory: str, base: int, next_base: int | None, has_read: Reader
) -> Iterator[Scrubbed]:
    path = os.path.join(directory, offset_file_name(base, LOG_SUFFIX))
    starts: dict[int, tuple[int, int]] = {}
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        batches = _Batches(file.fileno(), size, base, next_base, has_read, _epochs(directory))
        damages = tuple(Damage(partition, path, *damage) for damage in batches.damaged(starts))
        yield Scrubbed(path, size, damages)
    whole = Damage(partition, "", "", 0, 0, base, batches.offset_end)
    for suffix, check in _INDEX_CHECKS.items():
        index = os.path.join(directory, offset_file_name(base, suffix))
        if suffix == TXN_INDEX_SUFFIX and not os.path.exists(index):
            continue
        size = os.path.getsize(index) if os.path.exists(index) else 0
        reason = "" if damages else check(index, base, starts)
        found = whole._replace(path=index, reason=reason, position_end=size)
        yield Scrubbed(index, size, (found,) if reason else ())


def _epochs(directory: str) -> EpochHistory:
    """No checksum covers the epoch that a leader stamps into a batch: this file does."""
    try:
        return EpochHistory(read_epochs(os.path.join(directory, EPOCHS_FILE)))
    except CorruptFile:
        return EpochHistory()


class _Batches:
    """The walk over one `.log` file, which goes on behind damage where a next batch is found."""

    def __init__(
        self,
        descriptor: int,
        size: int,
        base: int,
        next_base: int | None,
        has_read: Reader,
        epochs: EpochHistory,
    ) -> None:
        self._descriptor = descriptor
        self._size = size
        self._next_base = next_base
        self._has_read = has_read
        self._epochs = epochs
        self.offset_end = base

    def damaged(
        self, starts: dict[int, tuple[int, int]]
    ) -> Iterator[tuple[str, int, int, int, int]]:
        """(reason, byte range, offset range) of each; fills `starts` with position to last offset
        and largest timestamp of the good batches."""
        position = 0
        while position < self._size:
            reason, end, known = self._batch_at(position)
            if reason:
                offset = self.offset_end
                if end is None:
                    yield reason, position, self._size, offset, self._next_base or offset + 1
                    return
                yield reason, position, end, offset, max(offset + 1, self._offset_at(end))
            elif known is not None:
                starts[position] = known
                self.offset_end = known[0] + 1
            assert end is not None
            position = end

    def _batch_at(self, position: int) -> tuple[str, int | None, tuple[int, int] | None]:
        """Why the batch is bad, where the next one starts, its last offset and timestamp."""
        head = os.pread(self._descriptor, HEADER_BYTES, position)
        if len(head) < OLD_BATCH_BYTES_MIN + 12:
            return "the file ends within a batch", None, None
        base_offset, size = read_overhead(head)
        end = position + size
        if size < OLD_BATCH_BYTES_MIN + 12 or end > self._size:
            return f"a batch cannot have {size} bytes here", None, None
        if base_offset < self.offset_end:
            return f"offset {base_offset} after {self.offset_end - 1}", end, None
        if head[16] != MAGIC_V2:
            # Messages of the formats before 0.11 carry checksums of their own.
            from moldau.storage.old_messages import old_message_fault

            content = os.pread(self._descriptor, size, position)
            self._has_read(size)
            return old_message_fault(content), end, None
        if size - 12 < BATCH_LENGTH_MIN:
            return f"a batch cannot have {size} bytes", end, None
        content = os.pread(self._descriptor, size, position)
        self._has_read(size)
        header = read_header(content)
        if self._next_base is not None and header.last_offset >= self._next_base:
            return f"offset {header.last_offset} belongs to the next segment", end, None
        known = self._epochs.epoch_at(base_offset)
        if known not in (header.leader_epoch, UNDEFINED_EPOCH):
            return f"the leader epoch is {header.leader_epoch}, not {known}", end, None
        if crc32c(memoryview(content)[CRC_START:]) != header.crc:
            return "the checksum is wrong", end, None
        return "", end, (header.last_offset, header.max_timestamp)

    def _offset_at(self, position: int) -> int:
        """Where the next batch begins; the next segment if there is none."""
        head = os.pread(self._descriptor, 12, position)
        if len(head) < 12:
            return self._next_base or self.offset_end + 1
        return int.from_bytes(head[:8], "big", signed=True)


def _index_fault(path: str, base: int, starts: dict[int, tuple[int, int]]) -> str:
    index = OffsetIndex(path, base)
    try:
        index.check_size()
        for number in range(len(index)):
            offset, position = index.entry(number)
            if starts and starts.get(position, (None,))[0] != offset:
                return f"entry {number} points to byte {position}, where offset {offset} is not"
    except CorruptFile as corrupt:
        return corrupt.reason
    finally:
        index.unmap()
    return ""


def _time_index_fault(path: str, base: int, starts: dict[int, tuple[int, int]]) -> str:
    timestamps = dict(starts.values())
    index = TimeIndex(path, base)
    try:
        index.check_size()
        last = -1
        for number in range(len(index)):
            timestamp, offset = index.entry(number)
            if timestamp <= last:
                return f"entry {number} is not later than the one before it"
            if timestamps and timestamps.get(offset) not in (timestamp, None):
                return f"entry {number} says {timestamp} for offset {offset}, which has another"
            last = timestamp
    except CorruptFile as corrupt:
        return corrupt.reason
    finally:
        index.unmap()
    return ""


def _txn_index_fault(path: str, base: int, starts: dict[int, tuple[int, int]]) -> str:
    offsets = {offset for offset, _ in starts.values()}
    try:
        for number, aborted in enumerate(TxnIndex(path, base).entries):
            if offsets and aborted.last_offset not in offsets:
                return f"entry {number} names a marker at {aborted.last_offset}, which is not there"
    except CorruptFile as corrupt:
        return corrupt.reason
    return ""


_INDEX_CHECKS = {
    OFFSET_INDEX_SUFFIX: _index_fault,
    TIME_INDEX_SUFFIX: _time_index_fault,
    TXN_INDEX_SUFFIX: _txn_index_fault,
}


def _scrub_snapshot(partition: TopicPartition, path: str, offset: int) -> Scrubbed:
    with open(path, "rb") as file:
        content = file.read()
    try:
        decode_snapshot(content, path)
    except CorruptFile as corrupt:
        damage = Damage(partition, path, corrupt.reason, 0, len(content), offset, offset)
        return Scrubbed(path, len(content), (damage,))
    return Scrubbed(path, len(content), ())
