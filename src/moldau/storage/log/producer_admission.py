"""Batches in, producer rules out: what a log asks before it writes a batch and notes after.

Splits batches into data and transaction markers and hands their fields to `ProducerStates`.
"""

from __future__ import annotations

from moldau.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader, Buffer
from moldau.records.batch_codec import EndMarker, decode_batch, decode_marker
from moldau.storage.log_state.producer_room import ProducerRoom
from moldau.storage.log_state.producer_state import (
    BatchSpan,
    CompletedTransaction,
    Origin,
    ProducerStates,
)

_SEQUENCE_MASK = 0x7FFFFFFF


def admit(
    producers: ProducerStates,
    batch: Buffer,
    header: BatchHeader,
    offset: int,
    origin: Origin,
    transaction_version: int,
    room: ProducerRoom,
) -> BatchSpan | None:
    """Refuse what breaks the producer's sequence; the earlier batch that this one repeats, or None
    for one to write."""
    attributes, producer_id, epoch, base_sequence = header[5], header[9], header[10], header[11]
    transactional = bool(attributes & TRANSACTIONAL_FLAG)
    if attributes & CONTROL_FLAG:
        marker = _marker(batch)
        if marker is not None:
            producers.check_marker(producer_id, epoch, marker, offset, transaction_version)
        return None
    if producers.is_next(producer_id, epoch, base_sequence, transactional):
        return None
    if origin is Origin.CLIENT:
        span = producers.duplicate_of(producer_id, epoch, base_sequence, header.last_sequence)
        if span is not None:
            return span
    producers.check_data(producer_id, epoch, base_sequence, transactional, offset, origin)
    if origin is Origin.CLIENT and producers.entry(producer_id) is None:
        room.take_in(producers, producer_id)
    return None


def record(
    producers: ProducerStates, batch: Buffer, header: BatchHeader, base_offset: int
) -> CompletedTransaction | None:
    """Note a batch that is in the log; the transaction that it ended, if it was a marker."""
    attributes, delta, timestamp = header[5], header[6], header[8]
    producer_id, epoch, base_sequence = header[9], header[10], header[11]
    if attributes & CONTROL_FLAG:
        marker = _marker(batch)
        if marker is None:
            return None
        return producers.record_marker(producer_id, epoch, marker, base_offset, timestamp)
    producers.record_data(
        producer_id,
        epoch,
        (base_sequence + delta) & _SEQUENCE_MASK if base_sequence >= 0 else base_sequence,
        base_offset,
        base_offset + delta,
        timestamp,
        bool(attributes & TRANSACTIONAL_FLAG),
    )
    return None


def _marker(batch: Buffer) -> EndMarker | None:
    """None if the batch is empty (compaction may leave it so) or marks something else."""
    records = decode_batch(batch)
    return decode_marker(records[0]) if records else None
