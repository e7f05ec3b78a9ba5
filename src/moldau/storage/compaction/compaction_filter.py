"""What stays of one batch when its log is compacted.

A batch that keeps all its records is passed on as it is. Otherwise it is written again with the
same offsets, sequences and leader epoch, so that a gap is all a reader sees. A batch that first
keeps a tombstone, or a marker that nothing needs any more, gets a delete horizon (attributes bit 6,
the horizon in place of the base timestamp): once that has passed, they go (KIP-534).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.model.errors import ApiError
from moldau.records.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
)
from moldau.records.batch_codec import (
    DECOMPRESSED_BYTES_MAX,
    ControlType,
    assemble,
    decode_batch,
    decode_marker,
)
from moldau.records.compaction_kernel import GROWTH_BYTES_MAX, copy_kept, judge_records
from moldau.records.compression import compress, decompress
from moldau.storage.compaction.compaction_transactions import SeenTransactions
from moldau.storage.compaction.offset_map import OffsetMap
from moldau.storage.log.transaction_index import AbortedTransaction

_EMPTY_ATTRIBUTES = LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG


class LastRecord(NamedTuple):
    """The last that a producer wrote: its batch stays, be it empty, for its sequence is there."""

    offset_last: int | None
    """None if all we know of it is a marker, which stays for its epoch."""
    epoch: int


class BrokenBatch(Exception):
    """The batch at `offset` cannot be taken apart; it must not be copied as if it were good."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"the batch at offset {offset} is damaged: {reason}")


class BatchFilter:
    def __init__(
        self,
        offsets: OffsetMap,
        seen: SeenTransactions,
        last_records: Mapping[int, LastRecord],
        *,
        offset_end: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """`offset_end` is where this round of compaction ends: the batch before it stays too, so
        that the end of the compacted part can still be told from the log."""
        self._offsets = offsets
        self._seen = seen
        self._last_records = last_records
        self._offset_end = offset_end
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self.aborted: AbortedTransaction | None = None
        """Set by an abort marker that stays: the new segment's index must have it."""

    def apply(self, batch: memoryview, header: BatchHeader) -> Buffer | None:
        """What to write instead of the batch, whose checksum is right; None if it goes."""
        self.aborted = None
        horizon = header.base_timestamp if header.attributes & DELETE_HORIZON_FLAG else None
        horizon_passed = horizon is not None and horizon <= self._now_ms
        if header.is_control:
            unneeded, self.aborted = self._seen.end(header, control_kind(batch, header))
            drops_all = unneeded and horizon_passed
            if not drops_all and header.record_count:
                if unneeded and horizon is None:
                    return _with_horizon(batch, header, self._horizon_ms)
                return batch
        else:
            drops_all = header.is_transactional and self._seen.is_aborted(header)
            if not drops_all and header.record_count:
                kept = self._keep(batch, header, tombstones_stay=not horizon_passed)
                if kept is not None:
                    return kept
        return _emptied(header) if self._must_stay(header) else None

    def _must_stay(self, header: BatchHeader) -> bool:
        if header.offset_end == self._offset_end:
            return True
        last = self._last_records.get(header.producer_id) if header.has_producer else None
        if last is None:
            return False
        if last.offset_last is not None:
            return header.last_offset == last.offset_last
        return header.is_control and header.producer_epoch == last.epoch

    def _keep(
        self, batch: memoryview, header: BatchHeader, *, tombstones_stay: bool
    ) -> Buffer | None:
        body, start = open_body(batch, header)
        keep = bytearray(header.record_count)
        broken, kept, tombstones, delta_first, delta_max = judge_records(
            self._offsets.table,
            keep,
            body,
            (start, len(body)),
            header.base_offset,
            self._offsets.offset_latest,
            tombstones_stay,
        )
        if broken >= 0:
            raise BrokenBatch(header.base_offset, f"record {broken} is broken")
        if not kept:
            return None
        has_horizon = bool(header.attributes & DELETE_HORIZON_FLAG)
        needs_horizon = tombstones > 0 and not has_horizon
        if kept == header.record_count and not needs_horizon:
            return batch
        base = header.base_timestamp
        if needs_horizon:
            base = self._horizon_ms
        elif not has_horizon:
            base = header.base_timestamp + delta_first
            if header.has_log_append_time:
                base = header.max_timestamp
        written = header._replace(
            base_timestamp=base,
            max_timestamp=header.max_timestamp
            if header.has_log_append_time
            else header.base_timestamp + delta_max,
            attributes=header.attributes | (DELETE_HORIZON_FLAG if needs_horizon else 0),
            record_count=kept,
        )
        return _write(written, header, body, start, keep)


def _with_horizon(batch: memoryview, header: BatchHeader, horizon_ms: int) -> Buffer:
    body, start = open_body(batch, header)
    written = header._replace(
        base_timestamp=horizon_ms, attributes=header.attributes | DELETE_HORIZON_FLAG
    )
    return _write(written, header, body, start, bytearray(b"\1" * header.record_count))


def open_body(batch: memoryview, header: BatchHeader) -> tuple[Buffer, int]:
    """The records of a batch, decompressed, and where in the buffer they start."""
    if not header.attributes & CODEC_MASK:
        return batch, HEADER_BYTES
    try:
        return decompress(header.codec, batch[HEADER_BYTES:], DECOMPRESSED_BYTES_MAX), 0
    except ApiError as refusal:
        raise BrokenBatch(header.base_offset, refusal.message) from None


def _write(
    written: BatchHeader, original: BatchHeader, body: Buffer, start: int, keep: bytearray
) -> Buffer:
    """The records that stay, with timestamps counted from the new header's base."""
    fixed = original.has_log_append_time
    shift = (original.max_timestamp if fixed else original.base_timestamp) - written.base_timestamp
    room = bytearray(len(body) - start + GROWTH_BYTES_MAX * len(keep))
    end = copy_kept(room, 0, keep, body, (start, len(body)), shift, fixed)
    records = memoryview(room)[:end]
    return assemble(written, compress(written.codec, records) if written.codec else records)


def _emptied(header: BatchHeader) -> Buffer:
    """Offsets, sequence, epochs and the largest timestamp, without a record."""
    return assemble(
        header._replace(
            attributes=header.attributes & _EMPTY_ATTRIBUTES,
            base_timestamp=NO_TIMESTAMP,
            record_count=0,
        ),
        b"",
    )


def control_kind(batch: memoryview, header: BatchHeader) -> ControlType | None:
    """What a control batch does to its transaction; None if nothing."""
    if not header.record_count:
        return None
    try:
        marker = decode_marker(decode_batch(batch)[0])
    except ApiError as refusal:
        raise BrokenBatch(header.base_offset, refusal.message) from None
    return None if marker is None else marker.kind
