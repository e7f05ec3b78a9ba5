"""Whether the files beside a `.log` say what its batches say, entry by entry.

Each check is shown the good batches in their order and keeps no more than where it stands, so a
segment of a million batches costs no memory. None of these files has a checksum: only the batches
can tell. What a compacted segment's `.txnindex` says about records that are gone cannot be told.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from moldau.model.errors import ApiError
from moldau.records.batch import BatchHeader
from moldau.records.batch_codec import decode_batch
from moldau.storage.log import producer_admission
from moldau.storage.log.segment_indexes import OffsetPosition, TimestampOffset
from moldau.storage.log.transaction_index import AbortedTransaction, TxnIndex, encode_aborted
from moldau.storage.log_files import read_whole
from moldau.storage.log_state.leader_epoch_history import UNDEFINED_EPOCH, EpochHistory
from moldau.storage.log_state.producer_state import ProducerStates
from moldau.storage.scrubbing.scrub_batches import BadRange
from moldau.storage.storage_faults import CorruptFile

_POSITION_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class IndexCheck:
    """`fault` is the first thing that is wrong; empty as long as nothing is."""

    def __init__(self) -> None:
        self.fault = ""
        self._number = 0

    def see(self, position: int, header: BatchHeader, content: bytes) -> None:
        raise NotImplementedError

    def end(self) -> str:
        return self.fault

    def _blame(self, reason: str) -> None:
        self.fault = self.fault or reason


def read_entries(path: str, entry: struct.Struct) -> tuple[bytes, str]:
    """The whole entries of an index, and what is wrong with its size."""
    content = read_whole(path)
    if content is None:
        return b"", "the file is missing"
    rest = len(content) % entry.size
    fault = f"found {len(content)} bytes, not a multiple of {entry.size}" if rest else ""
    return content[: len(content) - rest], fault


def offset_entries(path: str, base_offset: int) -> list[OffsetPosition]:
    content, _ = read_entries(path, _POSITION_ENTRY)
    return [
        OffsetPosition(base_offset + relative, position)
        for relative, position in _POSITION_ENTRY.iter_unpack(content)
    ]


class OffsetIndexCheck(IndexCheck):
    """An entry is a batch's last offset and position; entries come in the order of both."""

    def __init__(self, path: str, base_offset: int) -> None:
        super().__init__()
        content, self.fault = read_entries(path, _POSITION_ENTRY)
        self._base_offset = base_offset
        self._entries: Iterator[tuple[int, int]] = _POSITION_ENTRY.iter_unpack(content)
        self._next = next(self._entries, None)

    def see(self, position: int, header: BatchHeader, content: bytes) -> None:
        while self._next is not None and self._next[1] <= position:
            offset = self._base_offset + self._next[0]
            if self._next[1] < position or offset != header.last_offset:
                self._blame_entry()
            self._number += 1
            self._next = next(self._entries, None)

    def end(self) -> str:
        if self._next is not None:
            self._blame_entry()
        return self.fault

    def _blame_entry(self) -> None:
        assert self._next is not None
        relative, position = self._next
        offset = self._base_offset + relative
        self._blame(f"entry {self._number} points to byte {position}, where offset {offset} is not")


class TimeIndexCheck(IndexCheck):
    """An entry is the largest timestamp so far and where it first was: a batch's last offset, or
    (Apache Kafka writes that too) the offset of the very record."""

    def __init__(self, path: str, base_offset: int) -> None:
        super().__init__()
        content, self.fault = read_entries(path, _TIME_ENTRY)
        self._base_offset = base_offset
        self._entries: Iterator[tuple[int, int]] = _TIME_ENTRY.iter_unpack(content)
        self._timestamp_last = -1
        self._largest = -1
        self._next = self._take()

    def _take(self) -> TimestampOffset | None:
        entry = next(self._entries, None)
        if entry is None:
            return None
        return TimestampOffset(entry[0], self._base_offset + entry[1])

    def see(self, position: int, header: BatchHeader, content: bytes) -> None:
        while self._next is not None and self._next.offset <= header.last_offset:
            timestamp, offset = self._next
            if timestamp <= self._timestamp_last:
                self._blame(f"entry {self._number} is not later than the one before it")
            if timestamp <= self._largest or not _holds(header, content, timestamp, offset):
                self._blame_entry()
            self._timestamp_last = timestamp
            self._number += 1
            self._next = self._take()
        self._largest = max(self._largest, header.max_timestamp)

    def end(self) -> str:
        if self._next is not None:
            self._blame_entry()
        return self.fault

    def _blame_entry(self) -> None:
        assert self._next is not None
        timestamp, offset = self._next
        self._blame(f"entry {self._number} says {timestamp} for offset {offset}, which is not so")


def _holds(header: BatchHeader, content: bytes, timestamp: int, offset: int) -> bool:
    """Whether the batch has that timestamp, as its largest, at that offset."""
    if offset < header.base_offset or timestamp != header.max_timestamp:
        return False
    if offset == header.last_offset or header.has_log_append_time:
        return offset in (header.base_offset, header.last_offset)
    try:
        records = decode_batch(content)
    except ApiError:
        return False
    return any(each.offset == offset and each.timestamp == timestamp for each in records)


class TxnIndexCheck(IndexCheck):
    """The aborted transactions whose markers are in the segment. With `producers`, the state before
    the segment, every field is found anew; without it (compaction took records away) an entry must
    at least name a marker of its producer."""

    def __init__(self, path: str, base_offset: int, producers: ProducerStates | None) -> None:
        super().__init__()
        self._producers = producers
        self._entries: list[AbortedTransaction] = []
        try:
            self._entries = TxnIndex(path, base_offset).entries
            content = read_whole(path) or b""
            if content != b"".join(map(encode_aborted, self._entries)):
                self.fault = "an entry has no known version, or is not whole"
        except CorruptFile as corrupt:
            self.fault = corrupt.reason

    def see(self, position: int, header: BatchHeader, content: bytes) -> None:
        if not header.has_producer:
            return
        if self._producers is None:
            if header.is_control:
                self._see_marker(header)
            return
        batch = content if header.is_control else b""
        done = producer_admission.record(self._producers, batch, header, header.base_offset)
        if done is None or not done.aborted:
            return
        expected = AbortedTransaction.of(done)
        found = self._entries[self._number] if self._number < len(self._entries) else None
        if found != expected:
            self._blame(
                f"entry {self._number} is not the transaction that aborted at "
                f"{expected.last_offset}"
            )
        self._number += 1

    def _see_marker(self, header: BatchHeader) -> None:
        if self._number == len(self._entries):
            return
        entry = self._entries[self._number]
        if entry.last_offset == header.base_offset:
            if entry.producer_id != header.producer_id or entry.first_offset > entry.last_offset:
                self._blame_entry()
            self._number += 1

    def end(self) -> str:
        if self._number < len(self._entries):
            self._blame_entry()
        return self.fault

    def _blame_entry(self) -> None:
        marker = self._entries[self._number].last_offset
        self._blame(f"entry {self._number} names a marker at {marker}, which is not there")


class EpochCheck:
    """No checksum covers the epoch that a leader stamps into a batch: the epoch file does. Where
    the two disagree and no batch at all is for the file, the file is wrong."""

    def __init__(self, history: EpochHistory) -> None:
        self._history = history
        self._agreed: set[int] = set()
        self._runs: list[tuple[int, int, BadRange]] = []
        """(the file's epoch, the batches', where) of batches in a row that disagree alike."""
        self._counts: dict[int, int] = {}
        self._inside = ""

    def see(self, position: int, header: BatchHeader, content: bytes) -> None:
        known, epoch = self._history.epoch_at(header.base_offset), header.leader_epoch
        later = self._history.epoch_at(header.last_offset)
        if later != known != UNDEFINED_EPOCH:
            self._inside = self._inside or (
                f"it has epoch {later} begin inside the batch of offset {header.base_offset}"
            )
            return
        if known in (epoch, UNDEFINED_EPOCH):
            self._agreed.add(known)
            return
        self._counts[known] = self._counts.get(known, 0) + 1
        end = position + header.size_bytes
        if self._runs:
            before, found, where = self._runs[-1]
            if (before, found, where.position_end) == (known, epoch, position):
                grown = where._replace(position_end=end, offset_end=header.offset_end)
                self._runs[-1] = known, epoch, grown
                return
        reason = f"the leader epoch is {epoch}, not {known}"
        where = BadRange(reason, position, end, header.base_offset, header.offset_end)
        self._runs.append((known, epoch, where))

    @property
    def file_fault(self) -> str:
        if self._inside:
            return self._inside
        for known, epoch, where in self._runs:
            if self._is_files_fault(known):
                return f"it says epoch {known} for offset {where.offset}, whose batch says {epoch}"
        return ""

    @property
    def bad_batches(self) -> list[BadRange]:
        return [where for known, _, where in self._runs if not self._is_files_fault(known)]

    def _is_files_fault(self, known: int) -> bool:
        return known not in self._agreed and self._counts[known] > 1
