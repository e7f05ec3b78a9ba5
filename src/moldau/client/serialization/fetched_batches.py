"""From the bytes of a fetch to the records a user sees: which batches count, and what is in them.

Nothing here waits or keeps time. A fetch is kept as bytes until the user asks for its records;
then a batch is decoded as a whole and handed out in slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from moldau.client.consumer.consumer_records import ConsumerRecord, TimestampType
from moldau.client.serialization.serializers import Deserialize, deserializer
from moldau.client.shared.client_errors import KafkaError, RecordDeserializationError, error_class
from moldau.client.shared.user_callbacks import tried
from moldau.config.client_settings.consumer_settings import ConsumerConfig
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.records import batch_kernel
from moldau.records.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    read_header,
)
from moldau.records.batch_codec import (
    DECOMPRESSED_BYTES_MAX,
    ControlType,
    decode_batch,
    decode_marker,
)
from moldau.records.checksum import crc32c
from moldau.records.column_decoding import WRONG_CHECKSUM, read_batches, read_rows
from moldau.records.compression import decompress
from moldau.records.old_formats.up_conversion import is_old, to_batches
from moldau.wire.messages.fetch import AbortedTransaction

WRONG = "its checksum is wrong"


class Fetched:
    """What one fetch brought of one partition: batches that count, from an offset on."""

    __slots__ = (
        "batches",
        "current",
        "is_torn",
        "next_offset",
        "position",
        "round",
        "rows",
        "size_bytes",
        "tp",
        "view",
    )

    def __init__(
        self,
        tp: TopicPartition,
        round: int,
        view: memoryview,
        batches: list[batch_kernel.BatchRow],
        position: int,
        next_offset: int,
    ) -> None:
        self.tp = tp
        self.round = round
        self.view = view
        self.batches = batches
        """Those not yet begun, last first."""
        self.position = position
        self.next_offset = next_offset
        """Behind everything in it, also what a reader does not see."""
        self.rows: list[ConsumerRecord] = []
        """Decoded and not yet handed out, last first."""
        self.current: batch_kernel.BatchRow | None = None
        """The batch that `rows` came from."""
        self.is_torn = False
        """While it is read: what breaks reading off leaves it without some records."""
        self.size_bytes = len(view)

    @property
    def is_empty(self) -> bool:
        return not self.rows and not self.batches


def batches_of(
    tp: TopicPartition,
    round: int,
    view: memoryview,
    offset: int,
    aborted: Sequence[AbortedTransaction] | None,
) -> Fetched:
    """Find the batches in a fetch from `offset` on, without those that readers must not see.

    `aborted` is given for readers of committed records only.
    """
    rows = batch_kernel.scan_batches(view, 0, len(view))
    size_bytes = len(view)
    if is_old(view, rows[-1][0] + rows[-1][1] if rows else 0):
        # Brokers pass on what was written before 0.11 as it is.
        try:
            view = memoryview(to_batches(view))
        except ApiError as fault:
            raise error_class(fault.error)(fault.message) from None
        rows = batch_kernel.scan_batches(view, 0, len(view))
    if not rows and size_bytes > 0:
        raise error_class(Error.MESSAGE_TOO_LARGE)(
            f"The record at {tp}, offset {offset}, is larger than the fetch size of"
            f" {size_bytes} bytes: raise max.partition.fetch.bytes"
        )
    next_offset = max(offset, rows[-1][3] + 1) if rows else offset
    if aborted is None:
        counting = [row for row in rows if not row[7] & CONTROL_FLAG and row[3] >= offset]
    else:
        counting = [row for row in committed(view, rows, aborted) if row[3] >= offset]
    counting.reverse()
    return Fetched(tp, round, view, counting, offset, next_offset)


def committed(
    view: memoryview, rows: Sequence[batch_kernel.BatchRow], aborted: Sequence[AbortedTransaction]
) -> list[batch_kernel.BatchRow]:
    """Without control batches and without what aborted transactions wrote.

    A producer's records are dropped from its transaction's first offset up to the abort marker.
    """
    upcoming = sorted(aborted, key=lambda row: row.first_offset, reverse=True)
    aborting: set[int] = set()
    counting = []
    for row in rows:
        position, _, _, last_offset, _, _, producer_id, attributes = row
        while upcoming and upcoming[-1].first_offset <= last_offset:
            aborting.add(upcoming.pop().producer_id)
        if attributes & CONTROL_FLAG:
            if producer_id in aborting and _is_abort(view, position):
                aborting.discard(producer_id)
        elif not (attributes & TRANSACTIONAL_FLAG and producer_id in aborting):
            counting.append(row)
    return counting


def _is_abort(view: memoryview, position: int) -> bool:
    try:
        records = decode_batch(view, position)
        marker = decode_marker(records[0]) if records else None
    except ApiError as fault:
        raise error_class(fault.error)(fault.message) from None
    return marker is not None and marker.kind is ControlType.ABORT


def body_of(
    tp: TopicPartition, view: memoryview, row: batch_kernel.BatchRow, check_crcs: bool
) -> tuple[BatchHeader, Any]:
    """A batch's header and its records' bytes, decompressed; what is damaged is refused."""
    position, size = row[0], row[1]
    header = read_header(view, position)
    if check_crcs and crc32c(view[position + CRC_START : position + size]) != header.crc:
        raise corrupt(tp, header.base_offset, WRONG)
    body = view[position + HEADER_BYTES : position + size]
    if header.attributes & CODEC_MASK:
        try:
            return header, decompress(header.codec, body, DECOMPRESSED_BYTES_MAX)
        except ApiError as fault:
            raise corrupt(tp, header.base_offset, fault.message) from None
    return header, body


def corrupt(tp: TopicPartition, base_offset: int, reason: str) -> KafkaError:
    return error_class(Error.CORRUPT_MESSAGE)(
        f"The batch of {tp} at offset {base_offset} is corrupt: {reason}. Seek behind it to go on"
    )


class RecordReader:
    """Turns fetched bytes into records; keys and values stay bytes without a deserializer."""

    def __init__(
        self,
        *,
        check_crcs: bool = True,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
    ) -> None:
        self.check_crcs = check_crcs
        self._key = key_deserializer
        self._value = value_deserializer

    @classmethod
    def of(cls, config: ConsumerConfig) -> RecordReader:
        given = config.given
        return cls(
            check_crcs=config.check_crcs,
            key_deserializer=deserializer(config.key_deserializer, given, is_key=True),
            value_deserializer=deserializer(config.value_deserializer, given, is_key=False),
        )

    def take(self, fetched: Fetched, count: int) -> list[ConsumerRecord]:
        """The next records, at most `count`; none means that the fetch is used up.

        `fetched.position` is then behind the last of them.
        """
        rows = fetched.rows
        if rows:
            taken = rows[: -count - 1 : -1]
            del rows[-count:]
        else:
            taken = self._read(fetched, count)
            if len(taken) > count:
                rows = fetched.rows = taken[: count - 1 : -1]
                del taken[count:]
        if taken and (rows or fetched.batches):
            fetched.position = taken[-1].offset + 1
        else:
            fetched.position = fetched.next_offset
        return taken

    def _read(self, fetched: Fetched, count: int) -> list[ConsumerRecord]:
        """All records from the position on of as many batches as it takes to have `count`.

        A batch that is broken, or a record that no deserializer can read, ends the list, and is
        told when it would be the first."""
        rows: list[ConsumerRecord] = []
        tp, batches = fetched.tp, fetched.batches
        makers = (ConsumerRecord, _bound(self._key, tp.topic), _bound(self._value, tp.topic))
        while batches and len(rows) < count:
            try:
                fault_index = self._read_some(rows, fetched, count, makers)
                if fault_index >= 0:
                    is_checksum = fault_index == WRONG_CHECKSUM
                    reason = f"record {fault_index} is broken"
                    base_offset = batches[-1][2]
                    raise corrupt(tp, base_offset, WRONG if is_checksum else reason)
            except KafkaError:
                # If there are more rows than are asked for, they are of this batch.
                fetched.current = batches[-1]
                if rows:
                    break
                raise
        return rows

    def _read_some(
        self, rows: list[ConsumerRecord], fetched: Fetched, count: int, makers: Any
    ) -> int:
        """A compressed batch, or several others; what is wrong with the next one, or -1."""
        tp, view, batches = fetched.tp, fetched.view, fetched.batches
        if batches[-1][7] & CODEC_MASK:
            header, body = body_of(tp, view, batches[-1], self.check_crcs)
            index, fault = tried(self._read_compressed, rows, fetched, header, body, makers)
            if fault is None:
                assert index is not None, "an index or a fault"
                return index
        else:
            limits = (count, fetched.position, self.check_crcs)
            shared = (tp.topic, tp.partition, _KINDS)
            found, fault = tried(read_batches, rows, view, batches, limits, shared, makers)
            if found is not None:
                fetched.current = found[1] or fetched.current
                return found[0]
        assert fault is not None, "an index or a fault"
        raise self._unreadable(fetched, rows, fault) from fault

    def _unreadable(
        self, fetched: Fetched, rows: list[ConsumerRecord], fault: Exception
    ) -> RecordDeserializationError:
        """Which record it was: the first of its batch that did not become a row."""
        tp = fetched.tp
        header, body = body_of(tp, fetched.view, fetched.batches[-1], False)
        offset = rows[-1].offset + 1 if rows else fetched.position
        plain: list[ConsumerRecord] = []
        numbers, shared = packed(tp, header, body, offset)
        read_rows(plain, body, numbers, shared, (ConsumerRecord, None, None))
        bad = plain[0]
        text = (
            f"Error deserializing key/value for partition {tp} at offset {bad.offset}. If needed,"
            f" please seek past the record to continue consumption: {fault}"
        )
        return RecordDeserializationError(text, tp, bad.offset, bad.key, bad.value, bad.headers)

    def _read_compressed(
        self,
        rows: list[ConsumerRecord],
        fetched: Fetched,
        header: BatchHeader,
        body: Any,
        makers: Any,
    ) -> int:
        known = len(rows)
        numbers, shared = packed(fetched.tp, header, body, fetched.position)
        fault_index = read_rows(rows, body, numbers, shared, makers)
        if fault_index >= 0:
            del rows[known:]
        else:
            fetched.current = fetched.batches.pop()
        return fault_index


_KINDS = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)


def _bound(deserialize: Deserialize | None, topic: str) -> Any:
    return None if deserialize is None else partial(deserialize, topic)


def packed(tp: TopicPartition, header: BatchHeader, body: Any, offset: int) -> tuple[Any, Any]:
    """What `read_rows` wants to know of one decompressed batch, from an offset on."""
    has_append_time = header.attributes & LOG_APPEND_TIME_FLAG != 0
    numbers = (
        0,
        len(body),
        header.base_offset,
        header.base_timestamp,
        header.record_count,
        max(offset - header.base_offset, 0),
        header.max_timestamp if has_append_time else -1,
    )
    return numbers, (tp.topic, tp.partition, _KINDS[has_append_time], header.leader_epoch)
