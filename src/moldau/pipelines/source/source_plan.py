"""Which offsets to read: where a read starts and ends, and which tasks share the way between.

Runs on the driver. Offsets that are no longer there, or not yet, and those of a topic that was
deleted and created anew since, are data loss: it is told as an error, or with failOnDataLoss=false
as a warning, and what is left is read.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from moldau.model.names import NO_TOPIC_ID, TopicPartition, uuid_text
from moldau.pipelines.source.pushed_filters import Bounds
from moldau.pipelines.source.source_client import SourceClient
from moldau.pipelines.source.source_offsets import (
    EARLIEST,
    LATEST,
    OffsetRange,
    Offsets,
    Position,
    offsets_text,
    split_ranges,
)
from moldau.pipelines.source.source_options import Edge, SourceError, SourceOptions

log = logging.getLogger("moldau.pipelines.source")

NOWHERE = Position({}, {})
ADVICE = (
    "records may be lost; set failOnDataLoss to false to go on with what is there,"
    " or start with other offsets"
)


class DataLossError(SourceError):
    """Records that should be read are gone."""


def lost(options: SourceOptions, sentence: str) -> None:
    if options.fail_on_data_loss:
        raise DataLossError(f"{sentence}: {ADVICE}")
    log.warning("%s: some records may have been missed", sentence)


class SourcePlan:
    def __init__(self, client: SourceClient) -> None:
        self.client = client
        self.options = client.options
        self._ids: dict[str, bytes] = {}

    def topic_id(self, topic: str) -> bytes:
        """Of the topic that offsets were planned for."""
        return self._ids.get(topic) or self.client.topic_id(topic)

    def batch_ranges(self, bounds: Bounds) -> list[OffsetRange]:
        """The tasks of a batch read, less what pushed filters rule out."""
        partitions = {tp for tp in self.client.partitions(must_exist=True) if bounds.admits(tp)}
        # Ends first: a record that comes later is in no answer about the start.
        ends = self._edge(self.options.end, partitions, is_start=False)
        starts = self._edge(self.options.start, partitions, is_start=True)
        starts = {tp: max(offset, bounds.offset_first) for tp, offset in starts.items()}
        ends = {tp: min(offset, bounds.offset_end) for tp, offset in ends.items()}
        if bounds.timestamp_first_ms is not None:
            starts = self._younger(starts, ends, bounds.timestamp_first_ms)
        return self._split(starts, ends)

    def first(self) -> Position:
        """Where a new stream starts."""
        partitions = self.client.partitions(must_exist=True)
        self.check_same(self._look({tp.topic for tp in partitions}), NOWHERE)
        return self._position(self._edge(self.options.start, partitions, is_start=True))

    def latest(self, begin: Position) -> Position:
        """The ends of all partitions there are now; `begin` is how far the stream is.

        An end that is behind what was read already is asked for once more, since a broker that
        has just become the leader may not know better yet; then it is left to `stream_ranges`.
        """
        partitions = self.client.partitions(must_exist=False)
        self.check_same(self._look({tp.topic for tp in partitions}), begin)
        known = begin.offsets_in(self._ids)
        ends = self.client.latest(partitions)
        if any(offset < known.get(tp, 0) for tp, offset in ends.items()):
            ends |= self.client.latest(ends)
        return self._position(ends)

    def with_new(self, start: Offsets, end: Offsets) -> Offsets:
        """The start, and the first offsets of partitions that are new since."""
        return start | self.client.earliest([tp for tp in end if tp not in start])

    def stream_ranges(
        self, start: Offsets, end: Offsets, *, is_first: bool = False
    ) -> list[OffsetRange]:
        """The tasks of a micro-batch. `is_first`: the start may be a later one than that of an
        attempt before, whose end was kept as the real start; nothing lies between."""
        gone = sorted(tp for tp in start if tp not in end)
        if gone and not is_first:
            names = ", ".join(map(str, gone))
            lost(self.options, f"{names} is gone, perhaps with its topic")
        fresh = self.client.earliest([tp for tp in end if tp not in start])
        for tp, offset in fresh.items():
            if offset > 0:
                lost(self.options, f"The new partition {tp} starts at offset {offset}, not at 0")
        starts = {tp: offset for tp, offset in (start | fresh).items() if tp in end}
        for tp, offset in starts.items():
            if end[tp] < offset and not is_first:
                lost(self.options, f"{tp} was read up to offset {offset} and now ends at {end[tp]}")
        return self._split(starts, end)

    def check_same(self, topic_ids: Mapping[str, bytes], begin: Position) -> None:
        """A name that means another topic than it did, before a restart or since the last look:
        the offsets so far say nothing about it."""
        for topic, now in sorted(topic_ids.items()):
            known = begin.topic_ids.get(topic) or self._ids.get(topic, now)
            if NO_TOPIC_ID not in (now, known) and now != known:
                lost(
                    self.options,
                    f"The topic {topic} was deleted and created anew (its id was"
                    f" {uuid_text(known)} and is {uuid_text(now)}), so what was read of it says"
                    " nothing about the one there is",
                )
            self._ids[topic] = now

    def _look(self, topics: Collection[str]) -> dict[str, bytes]:
        return {topic: self.client.topic_id(topic) for topic in topics}

    def _position(self, offsets: Offsets) -> Position:
        topics = sorted({tp.topic for tp in offsets})
        ids = {topic: self._ids.get(topic, NO_TOPIC_ID) for topic in topics}
        return Position(
            offsets, {topic: each for topic, each in ids.items() if each != NO_TOPIC_ID}
        )

    def _split(self, starts: Offsets, ends: Offsets) -> list[OffsetRange]:
        ranges = [OffsetRange(tp, starts[tp], ends[tp]) for tp in sorted(starts)]
        options = self.options
        return split_ranges(ranges, options.min_partitions, options.max_records_per_partition)

    def _younger(self, starts: Offsets, ends: Offsets, timestamp_ms: int) -> Offsets:
        """Skip what is older than a time. All records before the first that is not older are
        older themselves, whatever order timestamps are in; the other end has no such rule."""
        found = self.client.at_timestamps(dict.fromkeys(starts, timestamp_ms))
        return {
            tp: max(offset, found[tp]) if found[tp] >= 0 else ends[tp]
            for tp, offset in starts.items()
        }

    def _edge(self, edge: Edge, partitions: Collection[TopicPartition], is_start: bool) -> Offsets:
        if edge.timestamp is not None:
            return self._at(dict.fromkeys(partitions, edge.timestamp), is_start)
        if edge.timestamps is not None:
            self._check_all(edge.timestamps, partitions, is_start)
            return self._at({tp: edge.timestamps[tp] for tp in partitions}, is_start)
        if edge.offsets is not None:
            self._check_all(edge.offsets, partitions, is_start)
            return self._specific({tp: edge.offsets[tp] for tp in partitions}, is_start)
        if edge.default == EARLIEST:
            return self.client.earliest(partitions)
        return self.client.latest(partitions)

    def _check_all(
        self, given: Offsets, partitions: Collection[TopicPartition], is_start: bool
    ) -> None:
        """Only partitions that a pushed filter has ruled out may be given and not be read."""
        lacking = sorted(set(partitions) - given.keys())
        if lacking:
            side = "start" if is_start else "end"
            raise SourceError(
                f"{lacking[0]} is read, and the {side} given has no offset for it: give one for"
                f" every partition (-2 is the earliest, -1 the latest), not"
                f" {offsets_text(given)}"
            )

    def _specific(self, offsets: Offsets, is_start: bool) -> Offsets:
        """-1 and -2 looked up; offsets outside of what is there are data loss."""
        earliest = self.client.earliest(offsets)
        latest = self.client.latest(offsets)
        found: Offsets = {}
        for tp, offset in offsets.items():
            if offset in (EARLIEST, LATEST):
                found[tp] = earliest[tp] if offset == EARLIEST else latest[tp]
                continue
            found[tp] = min(max(offset, earliest[tp]), latest[tp])
            if found[tp] != offset:
                side = "startingOffsets" if is_start else "endingOffsets"
                lost(
                    self.options,
                    f"{side} asks for offset {offset} of {tp}, which holds offsets"
                    f" {earliest[tp]} to {latest[tp]}",
                )
        return found

    def _at(self, timestamps: Offsets, is_start: bool) -> Offsets:
        found = self.client.at_timestamps(timestamps)
        none = [tp for tp in sorted(found) if found[tp] < 0]
        if none and is_start and not self.options.latest_if_no_timestamp:
            raise SourceError(
                f"No record of {none[0]} is as young as the starting timestamp"
                f" {timestamps[none[0]]}: set startingOffsetsByTimestampStrategy to latest to"
                " start at the end there"
            )
        return found | self.client.latest(none)
