"""Whether a segment's indexes can belong to its log, and rebuilding them if not.

This is for segments that a flush has made safe: their batches are not doubted, so a rebuild never
cuts the log. Segments that may be torn go through `recovery.check_segment` instead.
"""

from __future__ import annotations

import logging
import os

from moldau.records.batch import MAGIC_V2
from moldau.storage.log import producer_admission
from moldau.storage.log.batch_walk import (
    CHUNK_BYTES,
    BatchPlace,
    first_ending_after,
    read_batch,
    walk_headers,
    walk_places,
)
from moldau.storage.log.segment import Segment
from moldau.storage.log.transaction_index import AbortedTransaction
from moldau.storage.log_files import LOG_SUFFIX
from moldau.storage.log_state.producer_state import ProducerStates
from moldau.storage.storage_faults import CorruptFile

log = logging.getLogger("kafka.log.LogLoader")


def check_indexes(segment: Segment, *, closely: bool) -> None:
    """Raise CorruptFile if an index is missing or its size is wrong; `closely` compares the last
    entries with the log too. Either way a few look-ups, not a scan."""
    segment.offset_index.check_size()
    segment.time_index.check_size()
    segment.txn_index.check()
    if not segment.size_bytes:
        # A truncation to the segment's start reached the log, and not yet its indexes.
        for index in (segment.offset_index, segment.time_index):
            if index:
                raise CorruptFile(index.path, "it has entries, and the log is empty")
        if segment.txn_index.entries:
            raise CorruptFile(segment.txn_index.path, "it has entries, and the log is empty")
        return
    if not segment.offset_index and _has_batch_beyond(segment, segment.index_interval_bytes):
        raise CorruptFile(segment.offset_index.path, "entries are missing")
    if not segment.time_index and _has_timestamps(segment):
        raise CorruptFile(segment.time_index.path, "entries are missing")
    if closely:
        _check_last_entries(segment)


def _check_last_entries(segment: Segment) -> None:
    segment.offset_index.check()
    segment.time_index.check()
    last = segment.offset_index.last()
    place = _batch_at(segment, last.position) if last.position >= 0 else None
    is_there = place is not None and (
        place.offset_last == last.offset
        # Kafka indexed many old messages that came together as one, by the last of them.
        or (place.magic < MAGIC_V2 and place.offset_last < last.offset)
    )
    if place is None or (segment.offset_index and not is_there):
        raise CorruptFile(segment.offset_index.path, "the last entry points to no batch")
    if segment.offset_end > segment.base_offset:
        _check_rest(segment, last.position)
    if not segment.time_index:
        return
    timestamp, offset = segment.time_index.last()
    start = segment.offset_index.floor(offset).position
    descriptor = segment.file.fileno()
    latest = first_ending_after(descriptor, start, segment.size_bytes, offset)
    if latest is None or latest.max_timestamp != timestamp:
        raise CorruptFile(segment.time_index.path, "the last entry points to no such record")


def _check_rest(segment: Segment, position: int) -> None:
    """What was done when the segment was closed may not have reached the disk: the entry for its
    latest record, and cutting off what had been preallocated."""
    timestamp = segment.time_index.last().timestamp
    for place in walk_places(segment.file.fileno(), position, segment.size_bytes):
        position = place.position_end
        if place.max_timestamp > timestamp:
            raise CorruptFile(segment.time_index.path, "the latest record is missing")
    if position < segment.size_bytes:
        raise CorruptFile(segment.path(LOG_SUFFIX), f"no batch follows at byte {position}")


def rebuild_indexes(segment: Segment) -> None:
    """Offset and time index, as appending would have made them."""
    size_bytes = segment.size_bytes
    segment.reset()
    for place in walk_places(segment.file.fileno(), 0, size_bytes):
        if not segment.can_follow(place.base_offset, place.offset_last):
            break
        size = place.position_end - place.position
        segment.add_batch(size, place.offset_last, place.max_timestamp)
    segment.seal()
    rest = os.pread(segment.file.fileno(), CHUNK_BYTES, segment.size_bytes)
    if rest and not any(rest):
        segment.trim()
    elif rest:
        log.error(
            "%s is damaged at byte %d: what follows cannot be read",
            segment.path(LOG_SUFFIX),
            segment.size_bytes,
        )


def rebuild_txn_index(segment: Segment, producers: ProducerStates) -> None:
    """`producers` is the state before the segment: open transactions may have begun there."""
    descriptor = segment.file.fileno()
    segment.txn_index.clear()
    for position, header in walk_headers(descriptor, 0, segment.size_bytes):
        if header.has_producer:
            batch = read_batch(descriptor, position, header) if header.is_control else b""
            done = producer_admission.record(producers, batch, header, header.base_offset)
            if done is not None and done.aborted:
                segment.txn_index.append(AbortedTransaction.of(done))


def _batch_at(segment: Segment, position: int) -> BatchPlace | None:
    return next(walk_places(segment.file.fileno(), position, segment.size_bytes), None)


def _has_timestamps(segment: Segment) -> bool:
    place = _batch_at(segment, 0)
    return place is not None and place.max_timestamp >= 0


def _has_batch_beyond(segment: Segment, position: int) -> bool:
    for place in walk_places(segment.file.fileno(), 0, segment.size_bytes):
        if place.position > position:
            return True
    return False
