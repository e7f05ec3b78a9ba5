"""Finding offsets by timestamp: the segment by its largest timestamp, the batch by the indexes,
the record by looking into that one batch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from moldau.records.batch import MAGIC_V2, NO_TIMESTAMP, read_header
from moldau.records.batch_codec import decode_batch
from moldau.records.old_formats.up_conversion import to_batches
from moldau.storage.log.batch_walk import BatchPlace, walk_places
from moldau.storage.log.segment import Segment


class TimedOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


def first_at_or_after(
    segments: Sequence[Segment], timestamp: int, offset_start: int
) -> TimedOffset | None:
    """The first record from `offset_start` on that is not earlier than `timestamp`."""
    for segment in segments:
        if segment.offset_end <= offset_start and segment is not segments[-1]:
            continue
        if segment.latest_record_timestamp() < timestamp:
            continue
        found = _first_in_segment(segment, timestamp, offset_start)
        if found is not None:
            return found
    return None


def of_latest(segments: Sequence[Segment], offset_start: int) -> TimedOffset | None:
    """The record with the largest timestamp of all; the first of several."""
    latest: Segment | None = None
    for segment in segments:
        timestamp = segment.latest_record_timestamp()
        if timestamp >= 0 and (latest is None or timestamp > latest.max_timestamp):
            latest = segment
    if latest is None:
        return None
    place = latest.locate(latest.offset_of_max_timestamp)
    if place is None:
        return None
    return _record_in_batch(latest, place, latest.max_timestamp, offset_start)


def _first_in_segment(segment: Segment, timestamp: int, offset_start: int) -> TimedOffset | None:
    # Up to the indexed offset nothing is later than the indexed timestamp, which is not later than
    # the one we look for: start there.
    indexed = segment.time_index.floor(timestamp)
    start = segment.offset_index.floor(max(indexed.offset, offset_start)).position
    for place in walk_places(segment.file.fileno(), start, segment.size_bytes):
        if place.max_timestamp >= timestamp and place.offset_last >= offset_start:
            found = _record_in_batch(segment, place, timestamp, offset_start)
            if found is not None:
                return found
    return None


def _record_in_batch(
    segment: Segment, place: BatchPlace, timestamp: int, offset_start: int
) -> TimedOffset | None:
    size = place.position_end - place.position
    batch = os.pread(segment.file.fileno(), size, place.position)
    if place.magic < MAGIC_V2:
        batch = to_batches(batch)
    header = read_header(batch)
    if header.has_log_append_time:
        # All its records carry the same time.
        if header.max_timestamp < timestamp:
            return None
        offset = max(header.base_offset, offset_start)
        return TimedOffset(header.max_timestamp, offset, header.leader_epoch)
    for record in decode_batch(batch):
        if record.timestamp >= timestamp > NO_TIMESTAMP and record.offset >= offset_start:
            return TimedOffset(record.timestamp, record.offset, header.leader_epoch)
    return None
