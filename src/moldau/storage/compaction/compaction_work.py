"""One round of compaction of one log: the part that a thread or another process does.

First the dirty part is read and the newest offset of each key noted, then all segments up to there
are copied, group by group, without what is no longer needed. Only closed segments are read, by
name, and only `.cleaned` files are written; the loop puts them in place (`segment_swap.py`). What
the round needs to know of the log was copied into the `Round` before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Protocol

from moldau.records.batch import BatchHeader, Buffer, read_header
from moldau.storage.compaction.compaction_filter import (
    BatchFilter,
    BrokenBatch,
    control_kind,
    open_body,
)
from moldau.storage.compaction.compaction_plan import SourceSegment
from moldau.storage.compaction.compaction_round import Counts, Limits, Refused, Round
from moldau.storage.compaction.compaction_transactions import SeenTransactions
from moldau.storage.compaction.offset_map import OffsetMap
from moldau.storage.rewriting.rewrite_claim import claim
from moldau.storage.rewriting.segment_rewriting import CleanedSegment, DamagedSegment, read_batches
from moldau.storage.storage_faults import StorageFault

BUFFER_BYTES_MIN = 64 * 1024
BATCHES_PER_SIGN = 4096
"""A buffer may be large and its batches small: so many without a word are enough."""


class MapTooSmall(Refused):
    """One batch has more keys than the map takes, so no round would ever get past it."""


class CompactionSteps(Protocol):
    """A round as the loop sees it: `map_keys` comes first, then `write` for each of `groups` in
    order. Both block; the loop puts a group in place before it asks for the next."""

    counts: Counts
    offset_end: int
    """Once the keys are mapped: how far this round gets."""
    groups: list[list[SourceSegment]]

    def map_keys(self) -> None: ...
    def write(self, number: int) -> None:
        """The group as one new segment, complete and on disk under its `.cleaned` names."""

    def close(self) -> None:
        """Give the memory back."""


class Compaction:
    """The steps, done where it stands."""

    def __init__(
        self,
        what: Round,
        limits: Limits,
        took: Callable[[int], None],
        *,
        keeps_claim: bool = False,
    ) -> None:
        """`took(bytes)` is called for everything read or written: it may wait, to keep to a pace,
        and raise, to break the round off. A process that might outlive its broker keeps its claim
        on the directory, so that the next broker can tell."""
        self.what = what
        self.counts = Counts()
        self.offset_end = what.first_dirty
        self.groups: list[list[SourceSegment]] = []
        self._took = took
        self._keeps_claim = keeps_claim
        self._claim: int | None = None
        self._buffer_bytes = max(BUFFER_BYTES_MIN, limits.buffer_bytes)
        self._limits = limits
        self._offsets: OffsetMap | None = None
        self._filter: BatchFilter | None = None

    def close(self) -> None:
        if self._offsets is not None:
            self._offsets.close()
            self._offsets = None
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    # -- mapping -----------------------------------------------------------------------------

    def map_keys(self) -> None:
        what, limits = self.what, self._limits
        claimed = claim(what.directory)
        if self._keeps_claim:
            self._claim = claimed
        else:
            os.close(claimed)
        keys_max = max(1, what.first_uncleanable - what.first_dirty)
        offsets = OffsetMap(limits.map_bytes, limits.map_load_factor, keys_max)
        self._offsets = offsets
        dirty = [each for each in what.segments if each.offset_end > what.first_dirty]
        # A producer's earlier transactions, whose markers are not read, must not count here.
        seen = SeenTransactions(
            each for each in what.aborted if each.last_offset >= dirty[0].base_offset
        )
        for segment in dirty:
            if not self._map_segment(segment, offsets, seen):
                break
            # Gaps at the end of a segment count as read.
            offsets.offset_latest = segment.offset_end - 1
        self.offset_end = offsets.offset_latest + 1
        if self.offset_end <= what.first_dirty:
            raise MapTooSmall(
                f"a batch at or after offset {what.first_dirty} has more keys than the "
                f"{offsets.capacity} that fit; raise log.cleaner.dedupe.buffer.size"
            )
        self.groups = what.groups(self.offset_end)
        self._filter = BatchFilter(
            offsets,
            SeenTransactions(what.aborted),
            what.last_records,
            offset_end=what.first_uncleanable,
            now_ms=what.now_ms,
            delete_retention_ms=what.delete_retention_ms,
        )

    def _map_segment(
        self, segment: SourceSegment, offsets: OffsetMap, seen: SeenTransactions
    ) -> bool:
        """False if the map is full."""
        first_dirty = self.what.first_dirty
        for position, header, batch in self._batches(segment):
            self.counts.map_bytes_read += header.size_bytes
            try:
                if header.is_control:
                    seen.end(header, control_kind(batch, header))
                elif (
                    not (header.is_transactional and seen.is_aborted(header))
                    and header.last_offset >= first_dirty
                ):
                    body, start = open_body(batch, header)
                    if not offsets.note(header, body, start, first_dirty):
                        return False
            except BrokenBatch as broken:
                raise DamagedSegment(segment.path, position, str(broken)) from None
            except ValueError as broken:
                reason = f"record {broken} of the batch at {header.base_offset} is broken"
                raise DamagedSegment(segment.path, position, reason) from None
            if header.last_offset >= first_dirty:
                offsets.offset_latest = header.last_offset
        return True

    # -- copying -----------------------------------------------------------------------------

    def write(self, number: int) -> None:
        what, group = self.what, self.groups[number]
        cleaned = CleanedSegment(what.directory, group[0].base_offset, what.index_interval_bytes)
        is_whole = False
        try:
            for segment in group:
                self._copy(segment, cleaned)
            try:
                modified_ns = os.stat(group[-1].path).st_mtime_ns
            except OSError as error:
                raise StorageFault.of("cannot read", group[-1].path, error) from error
            cleaned.finish(modified_ns)
            is_whole = True
        finally:
            if not is_whole:
                cleaned.abandon()

    def _copy(self, segment: SourceSegment, cleaned: CleanedSegment) -> None:
        assert self._filter is not None
        judge, counts, out = self._filter, self.counts, bytearray()
        for position, header, batch in self._batches(segment):
            try:
                kept = judge.apply(batch, header)
            except BrokenBatch as broken:
                raise DamagedSegment(segment.path, position, str(broken)) from None
            counts.bytes_read += len(batch)
            counts.records_read += header.record_count
            if judge.aborted is not None:
                cleaned.add_aborted(judge.aborted)
            if kept is None:
                continue
            if kept is batch:
                counts.records_written += header.record_count
                cleaned.add(len(kept), header.last_offset, header.max_timestamp)
            else:
                self._add_changed(kept, header, cleaned)
            out += kept
            if len(out) >= self._buffer_bytes:
                self._flush(out, cleaned)
        self._flush(out, cleaned)

    def _add_changed(self, kept: Buffer, header: BatchHeader, cleaned: CleanedSegment) -> None:
        written = read_header(kept)
        self.counts.records_written += written.record_count
        cleaned.add(len(kept), header.last_offset, written.max_timestamp)

    def _flush(self, out: bytearray, cleaned: CleanedSegment) -> None:
        if out:
            cleaned.write(bytes(out))
            self.counts.bytes_written += len(out)
            self._took(len(out))
            out.clear()

    def _batches(self, segment: SourceSegment) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        found = read_batches(segment.path, 0, segment.size_bytes, self._buffer_bytes, self._took)
        for number, each in enumerate(found, 1):
            if number % BATCHES_PER_SIGN == 0:
                self._took(0)
            yield each
