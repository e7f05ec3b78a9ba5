"""The batches of a partition as they are restored: from the backup's files up to the cut, and then
the markers that end what is open there.

A batch that the cut goes through loses the records behind it, and ends there.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.backup.batch_scan import BatchScan
from moldau.backup.moments import data_path
from moldau.backup.restore_plan import Plan, PlannedPartition, is_commit
from moldau.backup.verification import checked_chunks
from moldau.records import batch_kernel
from moldau.records.batch import BatchHeader, Buffer, whole_headers
from moldau.records.batch_codec import (
    ControlType,
    EndMarker,
    Record,
    assemble,
    decode_batch,
    encode_marker,
)
from moldau.records.checksum import crc32c
from moldau.records.compression import compress


class RestoredBatches:
    """`chunks` goes once; afterwards the rest is known."""

    def __init__(self, plan: Plan, partition: PlannedPartition) -> None:
        self._plan = plan
        self._partition = partition
        self.scan = BatchScan()
        self.offset_end = partition.log_start
        self.committed = self.aborted = 0
        """Transactions that were open at the cut, by how they end."""

    def chunks(self) -> Iterator[Buffer]:
        """Raises Damaged."""
        plan, partition = self._plan, self._partition
        for row in partition.files:
            is_over = False
            for chunk in checked_chunks(data_path(plan.directory, partition.place, row.name), row):
                if is_over:
                    # To its end, for only then it is known to be whole.
                    continue
                kept, is_over = self._kept(chunk)
                if len(kept):
                    self.scan.take(kept)
                    self.offset_end = _end_of(kept)
                    yield kept
            if is_over:
                break
        if plan.timestamp_end is None and self.scan.open:
            self.offset_end = max(self.offset_end, partition.offset_end)
        markers = self._markers()
        if markers:
            yield markers

    def _kept(self, chunk: Buffer) -> tuple[Buffer, bool]:
        """What is before the cut, and whether that was the end."""
        limit, until_ms = self._partition.offset_end, self._plan.timestamp_end
        view = memoryview(chunk)
        for position, header in whole_headers(view):
            is_late = until_ms is not None and header.max_timestamp >= until_ms
            if not is_late and header.last_offset < limit:
                continue
            cut = _first_late(view, position, until_ms) if is_late else limit
            if cut is None:
                continue
            cut = min(cut, limit)
            before = bytes(view[:position])
            if cut > header.base_offset and not header.is_control:
                before += shortened(view[position : position + header.size_bytes], header, cut)
            return before, True
        return view, False

    def _markers(self) -> bytes:
        """In the order in which the transactions were begun."""
        found = bytearray()
        for transaction in sorted(self.scan.open.values(), key=lambda each: each.first_offset):
            commits = is_commit(self._plan.settle, transaction)
            kind = ControlType.COMMIT if commits else ControlType.ABORT
            found += encode_marker(
                EndMarker(kind, 0),
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                timestamp=self._plan.closing_ms,
                base_offset=self.offset_end,
                leader_epoch=max(self.scan.leader_epoch, 0),
            )
            self.offset_end += 1
            self.committed += commits
            self.aborted += not commits
        if found:
            self.scan.take(bytes(found))
        return bytes(found)


class Sum:
    """What a partition's batches are, in one number: their checksums in a row."""

    def __init__(self) -> None:
        self._sums = bytearray()

    def take(self, batches: Buffer) -> None:
        """Whole batches, however they are put together."""
        view = memoryview(batches)
        for position, header in whole_headers(view):
            own = crc32c(view[position : position + header.size_bytes])
            self._sums += own.to_bytes(4, "big")
            if len(self._sums) > 1 << 16:
                self._sums = bytearray(crc32c(self._sums).to_bytes(4, "big"))

    @property
    def value(self) -> int:
        return crc32c(self._sums)


def _end_of(batches: Buffer) -> int:
    last: BatchHeader | None = None
    for _, header in whole_headers(batches):
        last = header
    assert last is not None, "a piece without a batch"
    return last.offset_end


def _first_late(view: memoryview, position: int, until_ms: int | None) -> int | None:
    """The offset of the batch's first record of that time or later."""
    assert until_ms is not None
    late = (each.offset for each in decode_batch(view, position) if each.timestamp >= until_ms)
    return next(late, None)


def shortened(batch: memoryview, header: BatchHeader, cut: int) -> bytes:
    """The batch without its records from offset `cut` on."""
    records: list[Record] = [each for each in decode_batch(batch) if each.offset < cut]
    base_timestamp = records[0].timestamp if records else header.base_timestamp
    deltas = [each.offset - header.base_offset for each in records]
    body = batch_kernel.write_records(records, base_timestamp, deltas)
    stamps = [each.timestamp for each in records]
    is_append_time = header.has_log_append_time
    return bytes(
        assemble(
            header._replace(
                last_offset_delta=cut - 1 - header.base_offset,
                base_timestamp=base_timestamp,
                max_timestamp=header.max_timestamp if is_append_time else max(stamps, default=-1),
                record_count=len(records),
            ),
            compress(header.codec, body),
        )
    )
