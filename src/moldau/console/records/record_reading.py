"""What a fetch brought, batch by batch, with a mark on what readers of committed records skip.

Nothing is dropped silently: control batches and records of aborted transactions are there, marked.
Offsets that no record has are passed, since it is the batches' offsets that count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from moldau.client.admin.admin_core import AdminCore
from moldau.client.admin.admin_results import OffsetSpec, checked
from moldau.client.consumer.consumer_records import ConsumerRecord
from moldau.client.consumer.fetch_session import FetchSettings
from moldau.client.consumer.partition_fetch import PartitionFetch
from moldau.client.serialization.fetched_batches import (
    batches_of,
    body_of,
    committed,
    corrupt,
    packed,
)
from moldau.model.errors import ApiError
from moldau.model.names import TopicPartition
from moldau.records.batch import (
    CONTROL_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from moldau.records.batch_codec import ControlType, Record, decode_marker
from moldau.records.batch_kernel import BatchRow, scan_batches
from moldau.records.column_decoding import read_rows
from moldau.wire.messages.fetch import FetchablePartitionResponse

FETCH_BYTES = 256 << 10
"""Of a page. A batch that is larger comes whole all the same."""
STABLE_TRIES = 3
COMMITTED, ABORTED, UNDECIDED, CONTROL = "committed", "aborted", "undecided", "control"
"""Undecided: behind the start of a transaction that is still open."""


class Seen(NamedTuple):
    """A record, and what became of the transaction that wrote it."""

    record: ConsumerRecord
    mark: str = COMMITTED


class Chunk(NamedTuple):
    """What one fetch brought of a partition, from `offset` on."""

    tp: TopicPartition
    offset: int
    next_offset: int
    """Behind everything in it; `offset` if it brought nothing."""
    high_watermark: int
    log_start_offset: int
    size_bytes: int
    view: memoryview
    batches: list[tuple[BatchRow, str]]
    """Those with offsets from `offset` on, in order, each with its mark."""


class ChunkReader:
    """Reads one partition, one fetch at a time.

    With `is_committed` a fetch ends at the last stable offset. Without, what lies before it is
    asked for in the same way, since only then does a broker say what was aborted.
    """

    def __init__(
        self,
        core: AdminCore,
        tp: TopicPartition,
        *,
        is_committed: bool,
        fetch_bytes: int = FETCH_BYTES,
        max_wait_ms: int = 0,
    ) -> None:
        self.tp = tp
        self._is_committed = is_committed
        self._core = core
        self._stable = PartitionFetch(
            core.cluster, _settings(core, True, fetch_bytes, max_wait_ms), tp
        )
        self._any = PartitionFetch(
            core.cluster, _settings(core, False, fetch_bytes, max_wait_ms), tp
        )
        self._stable_end = -1
        """How far the last fetch of stable records could go."""

    async def start(self) -> int:
        """The first offset of the log."""
        found = checked(await self._core.list_offsets({self.tp: OffsetSpec.EARLIEST}))
        return found[self.tp].offset

    async def read(self, offset: int) -> Chunk:
        """OutOfRangeError if the log holds no such offset."""
        for _ in range(STABLE_TRIES):
            if self._is_committed or self._stable_end < 0 or offset < self._stable_end:
                row = await self._stable.at(offset)
                self._stable_end = row.last_stable_offset
                chunk = chunk_of(self.tp, offset, row, is_stable=True)
                if self._is_committed or chunk.next_offset > offset:
                    return chunk
            row = await self._any.at(offset)
            if row.last_stable_offset <= offset:
                break
            # Transactions have ended meanwhile: how is worth knowing.
            self._stable_end = row.last_stable_offset
        return chunk_of(self.tp, offset, row, is_stable=False)


def _settings(core: AdminCore, is_stable: bool, size_bytes: int, wait_ms: int) -> FetchSettings:
    network = core.network.settings
    return FetchSettings(
        min_bytes=1,
        max_bytes=size_bytes,
        max_wait_ms=wait_ms,
        partition_max_bytes=size_bytes,
        request_timeout_ms=network.request_timeout_ms,
        retry_backoff_ms=network.retry_backoff_ms,
        metadata_max_age_ms=core.config.metadata_max_age_ms,
        is_read_committed=is_stable,
        rack="",
    )


def chunk_of(
    tp: TopicPartition, offset: int, row: FetchablePartitionResponse, *, is_stable: bool
) -> Chunk:
    records: Any = row.records if row.records is not None else memoryview(b"")
    size_bytes = len(records)
    # Finds out what cannot be read at all, and turns what is older than 0.11 into batches.
    fetched = batches_of(tp, 0, records, offset, None)
    view = fetched.view
    rows = scan_batches(view, 0, len(view))
    marked = [
        (batch, mark)
        for batch, mark in zip(
            rows, _marks(view, rows, row.aborted_transactions, is_stable), strict=True
        )
        if batch[3] >= offset
    ]
    return Chunk(
        tp,
        offset,
        fetched.next_offset,
        row.high_watermark,
        row.log_start_offset,
        size_bytes,
        view,
        marked,
    )


def _marks(
    view: memoryview, rows: Sequence[BatchRow], aborted: Any, is_stable: bool
) -> Iterator[str]:
    counting = {row[0] for row in committed(view, rows, aborted or [])} if aborted else None
    for row in rows:
        if row[7] & CONTROL_FLAG:
            yield CONTROL
        elif not row[7] & TRANSACTIONAL_FLAG:
            yield COMMITTED
        elif not is_stable:
            yield UNDECIDED
        else:
            yield COMMITTED if counting is None or row[0] in counting else ABORTED


def records_of(chunk: Chunk, batch: BatchRow) -> list[ConsumerRecord]:
    """The records of one batch from the chunk's offset on; KafkaError if it is damaged."""
    return rows_of(chunk, *body_of(chunk.tp, chunk.view, batch, True))


def rows_of(chunk: Chunk, header: BatchHeader, body: Any) -> list[ConsumerRecord]:
    """As `records_of`, of a body that was decompressed already."""
    found: list[ConsumerRecord] = []
    numbers, shared = packed(chunk.tp, header, body, chunk.offset)
    fault = read_rows(found, body, numbers, shared, (ConsumerRecord, None, None))
    if fault >= 0:
        raise corrupt(chunk.tp, header.base_offset, f"record {fault} is broken")
    return found


def marker_text(record: ConsumerRecord) -> str:
    """What a control record says."""
    plain = Record(record.offset, record.timestamp, record.key, record.value)
    try:
        marker = decode_marker(plain)
    except ApiError as fault:
        return fault.message
    if marker is None:
        return "control record"
    ended = "committed" if marker.kind is ControlType.COMMIT else "aborted"
    return f"transaction {ended}"
