"""Finding offsets by timestamp: the segment by its largest timestamp, the batch by the indexes,
the record by looking into that one batch.

The segment is chosen on the event loop. The search in it is for a thread: it reads the disk, walks
over as many batches as lie there, and decompresses.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from moldau.model.names import Millis, Offset
from moldau.records.batch import MAGIC_V2, read_header
from moldau.records.batch_codec import find_timestamp
from moldau.records.old_formats.up_conversion import to_batches
from moldau.storage.log.batch_walk import BatchPlace, walk_places
from moldau.storage.log.segment import Segment
from moldau.storage.log.segment_file import SegmentFile
from moldau.storage.storage_faults import StorageFault

BATCHES_PER_TURN = 2_000
"""Looked at before other searches have a turn."""


class TimedOffset(NamedTuple):
    timestamp: Millis
    offset: Offset
    leader_epoch: int


class TimeSearch(NamedTuple):
    """The first record from `offset_start` on that is not earlier than `timestamp`, in a part of
    one segment that does not change any more and stays readable."""

    segment: Offset
    """Where it starts."""
    file: SegmentFile
    position: int
    position_end: int
    timestamp: Millis
    offset_start: Offset

    def run(self) -> TimedOffset | TimeSearch | None:
        """What is found, or what is left of the search. Raises StorageFault, and ApiError for what
        is no batch."""
        try:
            return self._run()
        except OSError as error:
            raise StorageFault.of("cannot read", self.file.path, error) from error

    def _run(self) -> TimedOffset | TimeSearch | None:
        places = walk_places(self.file.fileno(), self.position, self.position_end)
        for count, place in enumerate(places):
            if count == BATCHES_PER_TURN:
                return self._replace(position=place.position)
            if place.max_timestamp >= self.timestamp and place.offset_last >= self.offset_start:
                found = self._in_batch(place)
                if found is not None:
                    return found
        return None

    def _in_batch(self, place: BatchPlace) -> TimedOffset | None:
        size_bytes = place.position_end - place.position
        batch = os.pread(self.file.fileno(), size_bytes, place.position)
        if place.magic < MAGIC_V2:
            batch = to_batches(batch)
        found = find_timestamp(batch, 0, max(self.timestamp, 0), self.offset_start)
        return None if found is None else TimedOffset(*found, read_header(batch).leader_epoch)


def search_behind(
    segments: Iterable[Segment], behind: Offset, timestamp: Millis, offset_start: Offset
) -> TimeSearch | None:
    """In the next segment after the one at `behind` that has such a record."""
    for segment in segments:
        is_passed = segment.base_offset <= behind or segment.offset_end <= offset_start
        if is_passed or segment.latest_record_timestamp() < timestamp:
            continue
        # Up to the indexed offset nothing is later than the indexed timestamp, which is not later
        # than the one we look for: start there.
        indexed = segment.time_index.floor(timestamp)
        start = segment.offset_index.floor(max(indexed.offset, offset_start)).position
        return _search(segment, start, timestamp, offset_start)
    return None


def search_of_latest(segments: Iterable[Segment], offset_start: Offset) -> TimeSearch | None:
    """For the record with the largest timestamp of all; the first of several."""
    latest: Segment | None = None
    for segment in segments:
        timestamp = segment.latest_record_timestamp()
        if timestamp >= 0 and (latest is None or timestamp > latest.max_timestamp):
            latest = segment
    if latest is None:
        return None
    start = latest.offset_index.floor(latest.offset_of_max_timestamp).position
    return _search(latest, start, latest.max_timestamp, offset_start)


def _search(
    segment: Segment, start: int, timestamp: Millis, offset_start: Offset
) -> TimeSearch | None:
    return TimeSearch(
        segment.base_offset, segment.file, start, segment.size_bytes, timestamp, offset_start
    )
