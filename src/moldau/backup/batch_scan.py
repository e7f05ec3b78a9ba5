"""What goes by while batches of a partition are copied: how many, how far, which transactions are
open. Pure, and per batch."""

from __future__ import annotations

from typing import NamedTuple

from moldau.records.batch import Buffer, whole_headers
from moldau.records.old_formats.up_conversion import is_old, to_batches


class OpenTransaction(NamedTuple):
    producer_id: int
    producer_epoch: int
    first_offset: int


class Counts(NamedTuple):
    batches: int = 0
    records: int = 0
    raw_bytes: int = 0
    producer_id_last: int = -1
    timestamp_last: int = -1

    def __add__(self, other: object) -> Counts:
        assert isinstance(other, Counts)
        return Counts(
            self.batches + other.batches,
            self.records + other.records,
            self.raw_bytes + other.raw_bytes,
            max(self.producer_id_last, other.producer_id_last),
            max(self.timestamp_last, other.timestamp_last),
        )


class BatchScan:
    def __init__(self) -> None:
        self.counts = Counts()
        self.open: dict[int, OpenTransaction] = {}
        """By producer id: a producer has one at a time."""
        self.leader_epoch = -1

    def take(self, batches: Buffer) -> None:
        count = records = producer_id_last = timestamp_last = 0
        producer_id_last = timestamp_last = -1
        for _, header in whole_headers(batches):
            count += 1
            records += header.record_count
            timestamp_last = max(timestamp_last, header.max_timestamp)
            self.leader_epoch = max(self.leader_epoch, header.leader_epoch)
            if not header.has_producer:
                continue
            producer_id = header.producer_id
            producer_id_last = max(producer_id_last, producer_id)
            if header.is_control:
                self.open.pop(producer_id, None)
            elif header.is_transactional and producer_id not in self.open:
                self.open[producer_id] = OpenTransaction(
                    producer_id, header.producer_epoch, header.base_offset
                )
        self.counts += Counts(count, records, len(batches), producer_id_last, timestamp_last)


def whole_batches(fetched: Buffer, offset_start: int, offset_end: int) -> tuple[memoryview, int]:
    """Of what a fetch from `offset_start` brought: the whole batches before `offset_end`, and
    where the next one would begin."""
    view = memoryview(fetched)
    if len(view) and is_old(view):
        # From before Kafka 0.11: as batches the records keep their offsets.
        view = memoryview(to_batches(view))
    first = last = 0
    offset_next = offset_start
    for position, header in whole_headers(view):
        if header.base_offset >= offset_end:
            break
        if header.last_offset < offset_start:
            first = last = position + header.size_bytes
            continue
        last = position + header.size_bytes
        offset_next = header.offset_end
    return view[first:last], offset_next
