"""`KafkaConsumer` as kafka-python has it: milliseconds, a dict from `poll`, its own iteration.

A consumer without a group may subscribe there: it reads every partition of its topics, and looks
for new ones when its metadata are old.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any, NamedTuple

from moldau import Consumer
from moldau import ConsumerRecord as Record
from moldau.client.consumer.consumer_coordinator import ConsumerRebalanceListener
from moldau.client.consumer.consumer_records import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
)
from moldau.compat.kafka_python.kafka_configs import BOOTSTRAP_TIMEOUT_MS, checked, translated
from moldau.config.client_settings.consumer_settings import ConsumerConfig
from moldau.errors import IllegalStateError, KafkaError, KafkaTimeoutError
from moldau.model.names import TopicPartition

OWN = frozenset({"key_deserializer", "value_deserializer", "consumer_timeout_ms"})
SLICE_MS = 1_000
"""An iteration looks so often whether its time is up and whether there are new partitions."""
RESETS = {"smallest": "earliest", "largest": "latest"}


class ConsumerRecord(NamedTuple):
    """A record with kafka-python's fields."""

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]
    checksum: None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


class KafkaConsumer:
    """kafka-python's consumer: topics, then settings as keywords; times are milliseconds.

    >>> for message in KafkaConsumer("orders", bootstrap_servers="localhost:9092"):
    ...     print(message.offset, message.value)
    """

    def __init__(self, *topics: str, **configs: Any) -> None:
        settings = translated(ConsumerConfig, configs, OWN)
        settings["consumer.timeout.ms"] = SLICE_MS
        settings.setdefault("partition.assignment.strategy", ["range", "roundrobin"])
        reset = settings.get("auto.offset.reset")
        settings["auto.offset.reset"] = RESETS.get(str(reset), reset or "latest")
        timeout_ms = configs.get("consumer_timeout_ms", float("inf"))
        self._timeout_s = float("inf") if timeout_ms < 0 else timeout_ms / 1000
        self._age_s = configs.get("metadata_max_age_ms", 300_000) / 1000
        self._group_id = configs.get("group_id")
        self._deserialize_key = configs.get("key_deserializer")
        self._deserialize_value = configs.get("value_deserializer")
        self._consumer: Consumer = checked(Consumer, settings)
        self._is_closed = False
        self._followed: set[str] | re.Pattern[str] | None = None
        """The subscription of a consumer without a group."""
        self._look_at = 0.0
        self._records: Any = None
        self._bootstrap(configs)
        if topics:
            self.subscribe(topics)

    def _bootstrap(self, configs: Mapping[str, Any]) -> None:
        limit_ms = configs.get("bootstrap_timeout_ms") or BOOTSTRAP_TIMEOUT_MS
        try:
            self._consumer.list_topics(limit_ms / 1000)
        except KafkaTimeoutError:
            self.close()
            raise KafkaTimeoutError(
                f"Unable to bootstrap from {configs.get('bootstrap_servers')}"
            ) from None

    # What to read.

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Read these topics, or those that match; with a group they are shared with it."""
        names = [topics] if isinstance(topics, str) else list(topics)
        if self._group_id is not None:
            self._consumer.subscribe(names, listener, pattern=pattern)
            return
        if self._followed is None and self._consumer.assignment():
            raise IllegalStateError(
                "You must choose only one way to configure your consumer: (1) subscribe to"
                " specific topics by name, (2) subscribe to topics matching a regex pattern, (3)"
                " assign itself specific topic-partitions."
            )
        self._followed = set(names) if pattern is None else re.compile(pattern)
        self._look_at = 0.0
        self._follow()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions."""
        wanted = list(partitions)
        if not wanted:
            self.unsubscribe()
            return
        if self._followed is not None:
            raise IllegalStateError("You must choose only one way to configure your consumer")
        self._consumer.assign(wanted)
        self._records = None

    def unsubscribe(self) -> None:
        """Read nothing any more."""
        self._followed = None
        self._records = None
        self._consumer.unsubscribe()

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are being read."""
        return self._consumer.assignment()

    def subscription(self) -> set[str] | None:
        """The topics that were subscribed to; None without a subscription."""
        if isinstance(self._followed, set):
            return set(self._followed)
        if self._followed is not None:
            return {tp.topic for tp in self.assignment()}
        return self._consumer.subscription() or None

    # Reading.

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Records by partition; an empty dict when the time-out is over first."""
        if timeout_ms < 0:
            raise ValueError("Timeout must not be negative")
        if max_records is not None and max_records <= 0:
            raise ValueError("max_records must be positive")
        self._check_open()
        self._records = None
        self._follow()
        records = self._consumer.poll(timeout_ms / 1000, max_records=max_records)
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        is_good = False
        try:
            for record in records:
                found.setdefault(record.topic_partition, []).append(self._converted(record))
            is_good = True
        finally:
            if not is_good or not update_offsets:
                first = {record.topic_partition: record.offset for record in reversed(records)}
                for tp, offset in first.items():
                    self._consumer.seek(tp, offset)
        return found

    def __iter__(self) -> KafkaConsumer:
        return self

    def __next__(self) -> ConsumerRecord:
        """The next record; ends after consumer_timeout_ms without one."""
        deadline = monotonic() + self._timeout_s
        while not self._is_closed and monotonic() < deadline:
            self._follow()
            if self._records is None:
                self._records = iter(self._consumer)
            record = next(self._records, None)
            if record is not None:
                return self._converted(record)
            self._records = None
        raise StopIteration

    def _converted(self, record: Record) -> ConsumerRecord:
        headers = list(record.headers)
        size = sum(len(name.encode()) + len(content or b"") for name, content in headers)
        topic, key, value = record.topic, record.key, record.value
        return ConsumerRecord(
            *(topic, record.partition, record.leader_epoch, record.offset, record.timestamp),
            int(record.timestamp_type),
            _deserialized(self._deserialize_key, topic, headers, key),
            _deserialized(self._deserialize_value, topic, headers, value),
            headers,
            None,
            -1 if key is None else len(key),
            -1 if value is None else len(value),
            size if headers else -1,
        )

    def _follow(self) -> None:
        """Without a group: read every partition that the topics have by now."""
        if self._followed is None or monotonic() < self._look_at:
            return
        self._look_at = monotonic() + self._age_s
        known = self._consumer.list_topics()
        if isinstance(self._followed, set):
            names = self._followed
            for name in names - known.keys():
                self._look_at = monotonic() + SLICE_MS / 1000
                try:
                    known[name] = self._consumer.partitions_for(name, SLICE_MS / 1000)
                except KafkaError:
                    pass  # It may come: the next look is soon.
        else:
            pattern = self._followed
            names = {name for name in known if pattern.match(name) and name[:2] != "__"}
        wanted = {
            TopicPartition(name, row.partition) for name in names for row in known.get(name, ())
        }
        if wanted != self._consumer.assignment():
            self._records = None
            self._consumer.assign(wanted)

    # Committing.

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit the positions, or these offsets, and wait for it."""
        self._check_group()
        self._consumer.commit(offsets, _seconds(timeout_ms))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: Any = None,
    ) -> None:
        """Commit without waiting; `callback(offsets, error)` runs inside a later call."""
        self._check_group()
        self._consumer.commit_async(offsets, callback)

    def committed(
        self, partition: TopicPartition, metadata: bool = False, timeout_ms: float | None = None
    ) -> Any:
        """The committed offset, or all that is committed; None where nothing is."""
        self._check_group()
        _check_partition(partition)
        found = self._consumer.committed([partition], _seconds(timeout_ms))[partition]
        return found if metadata or found is None else found.offset

    # Positions.

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """The offset of the next record; None if it is not found out in time."""
        _check_partition(partition)
        if partition not in self.assignment():
            raise IllegalStateError("Partition is not assigned")
        try:
            return self._consumer.position(partition, _seconds(timeout_ms))
        except KafkaTimeoutError:
            return None

    def highwater(self, partition: TopicPartition) -> int | None:
        """Where the last fetch saw the partition end; None before the first."""
        _check_partition(partition)
        if partition not in self.assignment():
            raise IllegalStateError("Partition is not assigned")
        seen = self._consumer._client._engine.positions.of(partition).high_watermark
        return None if seen < 0 else seen

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from there."""
        _check_partition(partition)
        if not isinstance(offset, int) or offset < 0:
            raise ValueError("Offset must be int >= 0")
        self._check_assigned([partition])
        self._consumer.seek(partition, offset)
        self._records = None

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """These partitions, or all."""
        self._check_assigned(partitions)
        self._consumer.seek_to_beginning(partitions)
        self._records = None

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """These partitions, or all."""
        self._check_assigned(partitions)
        self._consumer.seek_to_end(partitions)
        self._records = None

    def pause(self, *partitions: TopicPartition) -> None:
        """Return nothing of them until they are resumed."""
        self._consumer.pause(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of them again."""
        self._consumer.resume(partitions)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return self._consumer.paused()

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each."""
        return self._consumer.beginning_offsets(partitions, _seconds(timeout_ms))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset that the next record of each will get."""
        return self._consumer.end_offsets(partitions, _seconds(timeout_ms))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time; None where there is none."""
        return self._consumer.offsets_for_times(timestamps, _seconds(timeout_ms))

    # The cluster.

    def topics(self) -> set[str]:
        """All topics that one may see."""
        return set(self._consumer.list_topics())

    def partitions_for_topic(self, topic: str) -> set[int]:
        """The numbers of its partitions; none if there is no such topic."""
        return {row.partition for row in self._consumer.list_topics().get(topic, ())}

    def group_metadata(self) -> ConsumerGroupMetadata:
        """For `send_offsets_to_transaction`."""
        return self._consumer.group_metadata()

    def bootstrap_connected(self) -> bool:
        """Whether a broker has answered; the constructor waits for that."""
        return not self._is_closed

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Commit if that is automatic and wished for, and leave the group."""
        if self._is_closed:
            return
        self._is_closed = True
        if not autocommit:
            self._consumer._client._engine.stop_auto_commit()
        self._consumer.close(30.0 if timeout_ms is None else timeout_ms / 1000)

    def __enter__(self) -> KafkaConsumer:
        return self

    def __exit__(self, *outcome: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise IllegalStateError("KafkaConsumer is closed")

    def _check_group(self) -> None:
        if self._group_id is None:
            raise IllegalStateError("Requires group_id")

    def _check_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        assigned = self.assignment()
        if not assigned:
            raise ValueError("No partitions are currently assigned")
        for partition in partitions:
            _check_partition(partition)
            if partition not in assigned:
                raise ValueError(f"Unassigned partition: {partition}")


def _seconds(timeout_ms: float | None) -> float | None:
    return None if timeout_ms is None else timeout_ms / 1000


def _check_partition(partition: object) -> None:
    if not isinstance(partition, TopicPartition):
        raise TypeError("partition must be a TopicPartition namedtuple")


def _deserialized(given: Any, topic: str, headers: list[Any], data: Any) -> Any:
    """A deserializer is a function of the bytes, or has `deserialize(topic, headers, data)`."""
    if given is None:
        return data
    if hasattr(given, "deserialize"):
        return given.deserialize(topic, headers, data)
    return given(data)
