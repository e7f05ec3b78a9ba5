"""What a consumer hands to its user: records, offsets, and who it is in its group.

All are plain tuples underneath, so that making a million of them a second is possible and they
can be compared, unpacked and pickled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import chain
from typing import Any, NamedTuple, overload

from moldau.model.names import TopicPartition
from moldau.records.batch_kernel import Headers


class TimestampType(IntEnum):
    """Who set a record's timestamp: its producer, or the broker when it was stored."""

    NO_TIMESTAMP = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class ConsumerRecord(NamedTuple):
    """One record as it was read. Key and value are bytes unless a deserializer is set."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: Any
    value: Any
    headers: Headers
    leader_epoch: int = -1

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class OffsetAndMetadata(NamedTuple):
    """A committed position: the offset of the next record to read, and a note."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int = -1


class ConsumerGroupMetadata(NamedTuple):
    """Who a consumer is in its group: what `send_offsets_to_transaction` wants to know."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class ConsumerRecords(Sequence[ConsumerRecord]):
    """The records of one poll: a sequence, and a look-up by partition.

    >>> records = consumer.poll(1.0)          # doctest: +SKIP
    >>> for record in records: ...            # doctest: +SKIP
    >>> for partition, some in records.items(): ...    # doctest: +SKIP
    """

    __slots__ = ("_by_partition", "_merged")

    def __init__(
        self, by_partition: Mapping[TopicPartition, list[ConsumerRecord]] | None = None
    ) -> None:
        self._by_partition: dict[TopicPartition, list[ConsumerRecord]] = dict(by_partition or {})
        self._merged: list[ConsumerRecord] | None = None

    @property
    def _all(self) -> list[ConsumerRecord]:
        """One list of all, made when first asked for: who goes through them does not need it."""
        merged = self._merged
        if merged is None:
            lists = list(self._by_partition.values())
            merged = lists[0] if len(lists) == 1 else list(chain.from_iterable(lists))
            self._merged = merged
        return merged

    def __len__(self) -> int:
        return sum(map(len, self._by_partition.values()))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return chain.from_iterable(self._by_partition.values())

    @overload
    def __getitem__(self, index: int) -> ConsumerRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[ConsumerRecord]: ...
    @overload
    def __getitem__(self, index: TopicPartition) -> list[ConsumerRecord]: ...
    def __getitem__(
        self, index: int | slice | TopicPartition
    ) -> ConsumerRecord | list[ConsumerRecord]:
        """By position, or all of one partition."""
        if isinstance(index, TopicPartition):
            return self._by_partition[index]
        return self._all[index]

    def __repr__(self) -> str:
        counts = {str(tp): len(some) for tp, some in self._by_partition.items()}
        return f"ConsumerRecords({counts})"

    def partitions(self) -> set[TopicPartition]:
        return set(self._by_partition)

    def records(self, of: TopicPartition | str) -> list[ConsumerRecord]:
        """Those of one partition, or of all partitions of one topic."""
        if isinstance(of, TopicPartition):
            return self._by_partition.get(of, [])
        return [
            record
            for partition, some in self._by_partition.items()
            if partition.topic == of
            for record in some
        ]

    def items(self) -> Iterator[tuple[TopicPartition, list[ConsumerRecord]]]:
        return iter(self._by_partition.items())

    def is_empty(self) -> bool:
        return not len(self)

    def count(self, value: Any = None) -> int:
        """How many there are in all, as Kafka's `count()`; given a record, how often it occurs."""
        return len(self) if value is None else self._all.count(value)
