"""The short way of the most frequent request: one batch for one partition that has one replica.

Such a request differs from the client's last one in its correlation id, its records and perhaps
its partition. So the bytes that name topic and partition are the key to everything that does not
change, the answer's layout included, which the ordinary encoder makes once. Whatever is not plain
(a transaction's first batch in a partition, acks=0, several partitions, followers to wait for, a
log that has to be loaded first) is left to the ordinary handler: this lane has then done nothing.
"""

from __future__ import annotations

import struct
from typing import Final

from moldau.handlers.authorization import topic
from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.handlers.topic_data.produce import refused_row
from moldau.model.cluster import INTERNAL_TOPICS
from moldau.model.errors import ApiError
from moldau.model.names import Millis
from moldau.records.batch import TRANSACTIONAL_FLAG
from moldau.replication.replica import Replica
from moldau.security.acl.acl_model import Operation
from moldau.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from moldau.wire.primitives import DecodeError
from moldau.wire.request_framing import encode_response

PRODUCE: Final = 0
VERSIONS: Final = range(9, 14)
"""From the first flexible version; older clients take the ordinary way."""
TOPIC_IDS_SINCE: Final = 13
ACKS_ALL: Final = -1
ENTRIES_MAX: Final = 10_000
TOPICS_REMEMBERED_MAX: Final = 1_000
RECORDS_MIN: Final = 61
ATTRIBUTES_LOW_BYTE: Final = 22
PRODUCER_POSITION: Final = 43
TAGS_BYTES: Final = 3
"""The empty tagged fields of partition, topic and request close the frame."""

# Acks, timeout, topic count + 1, length of the name + 1.
_start_at = struct.Struct(">hiBB").unpack_from
_START_BYTES = 6
_producer_at = struct.Struct(">qh").unpack_from
# Index, error, base offset, append time, log start offset: the part of an answer that changes.
_ROW = struct.Struct(">ihqqq")
_THROTTLE = struct.Struct(">iB")


class _Entry:
    """What is known of one partition in one version: its replica and how to answer."""

    __slots__ = (
        "name",
        "pack",
        "partition",
        "prefix",
        "replica",
        "size",
        "suffix",
        "topic",
        "version",
    )

    def __init__(
        self, replica: Replica, topic: TopicProduceData, partition: int, version: int
    ) -> None:
        self.name = replica.partition.topic_partition.topic
        self.topic = topic
        self.version = version
        frame = self.encode(
            PartitionProduceResponse(
                index=partition, base_offset=1, log_append_time_ms=-1, log_start_offset=2
            ),
            correlation_id=0,
        )
        start = frame.index(_ROW.pack(partition, 0, 1, -1, 2))
        self.replica = replica
        self.partition = partition
        self.prefix = frame[8:start]
        self.suffix = frame[start + _ROW.size :]
        self.size = len(frame) - 4
        layout = f">ii{len(self.prefix)}sihqqq{len(self.suffix)}s"
        self.pack = struct.Struct(layout).pack

    def encode(self, row: PartitionProduceResponse, correlation_id: int) -> bytes:
        answer = TopicProduceResponse(
            topic_id=self.topic.topic_id, name=self.topic.name, partition_responses=[row]
        )
        response = ProduceResponse(responses=[answer])
        (whole,) = encode_response(PRODUCE, self.version, correlation_id, response)
        assert isinstance(whole, bytes)
        return whole


class _Writer:
    """A client that may not do everything, and which topics it was allowed to write to by the
    rules that hold now."""

    __slots__ = ("context", "rules", "topics")

    def __init__(self, context: RequestContext) -> None:
        self.context = context
        self.rules: object = None
        self.topics: set[str] = set()


class ProduceLane:
    versions = VERSIONS

    def __init__(self, services: Services) -> None:
        self._services = services
        self._wall_ms = services.clock.wall_ms
        self._entries: dict[tuple[int, bytes], _Entry] = {}

    def answer(
        self,
        frame: memoryview,
        position: int,
        version: int,
        correlation_id: int,
        writer: _Writer | None = None,
    ) -> bytes | None:
        """The whole answer, or None if the request has to take the ordinary way. Raises
        struct.error or IndexError for a frame that is cut short, as decoding it would."""
        # The length of the transactional id + 1; 0 if there is none.
        named = frame[position]
        if named > 127:
            return None
        start = position + (named or 1)
        acks, _, topics, length = _start_at(frame, start)
        if topics != 2 or (acks != 1 and acks != ACKS_ALL):
            return None
        start += _START_BYTES
        # Topic count, name (or id), partition count, partition index.
        end = start + (22 if version >= TOPIC_IDS_SINCE else length + 6)
        key = (version, bytes(frame[start:end]))
        entry = self._entries.get(key) or self._learn(frame, position, version, key)
        if entry is None:
            return None
        size, end = _uvarint(frame, end)
        records_end = end + size - 1
        if size <= RECORDS_MIN or records_end + TAGS_BYTES != len(frame):
            return None
        replica = entry.replica
        partition = replica.partition
        if not partition.is_leader:
            # Removed or moved, perhaps made anew under the same name: look it up again next time.
            del self._entries[key]
            return None
        if replica.flushes or (acks == ACKS_ALL and partition.is_replicated):
            return None
        is_transactional = frame[end + ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_FLAG
        if is_transactional or named:
            is_plain = writer is None and is_transactional and named
            if not (is_plain and self._is_ongoing(replica, frame, end)):
                return None
        elif writer is not None:
            rules = self._services.authorizer.memory
            is_known = rules is writer.rules and entry.name in writer.topics
            if not (is_known or self._may_write(writer, entry.name)):
                return None
        return self._append(entry, frame[end:records_end], acks, correlation_id)

    def throttled(self, answer: bytes, throttle_ms: Millis) -> bytes:
        """The time and the empty tagged fields close the answer."""
        return answer[:-5] + _THROTTLE.pack(throttle_ms, 0)

    def writer(self, ctx: RequestContext) -> _Writer:
        return _Writer(ctx)

    def _may_write(self, writer: _Writer, name: str) -> bool:
        """Ask, and remember what is allowed, if that may be."""
        authorizer = self._services.authorizer
        rules, topics = authorizer.memory, writer.topics
        if rules is not writer.rules or len(topics) >= TOPICS_REMEMBERED_MAX:
            writer.rules = rules
            topics.clear()
        is_allowed = authorizer.allows(writer.context, Operation.WRITE, topic(name))
        if is_allowed and rules is not None:
            topics.add(name)
        return is_allowed

    def _append(
        self, entry: _Entry, records: memoryview, acks: int, correlation_id: int
    ) -> bytes | None:
        try:
            appended = entry.replica.append(records, acks, self._wall_ms())
        except ApiError as refusal:
            self._services.answers.fail(PRODUCE, [int(refusal.error)])
            row = refused_row(entry.partition, entry.replica, refusal, len(records))
            return entry.encode(row, correlation_id)
        if appended is None:
            return None
        base_offset, _, append_time_ms, log_start_offset, _ = appended
        return entry.pack(
            entry.size,
            correlation_id,
            entry.prefix,
            entry.partition,
            0,
            base_offset,
            append_time_ms,
            log_start_offset,
            entry.suffix,
        )

    def _is_ongoing(self, replica: Replica, frame: memoryview, position: int) -> bool:
        """Whether the batch belongs to a transaction that the partition knows of already."""
        producer_id, epoch = _producer_at(frame, position + PRODUCER_POSITION)
        producers = replica.producers
        return (
            producers is not None
            and producers.is_in_transaction(producer_id, epoch)
            and not self._services.transactional_writes.is_waiting(producer_id)
        )

    def _learn(
        self, frame: memoryview, position: int, version: int, key: tuple[int, bytes]
    ) -> _Entry | None:
        """Look the request through once; only a plain one for a known partition gets an entry."""
        try:
            request = ProduceRequest.decode(frame, version, position)
            (topic,) = request.topic_data
            (data,) = topic.partition_data
            replicas = self._services.replicas
            name = topic.name if version < TOPIC_IDS_SINCE else replicas.name_of(topic.topic_id)
            replica = replicas.find(name, data.index)
        except (DecodeError, ApiError, ValueError):
            return None
        if name in INTERNAL_TOPICS or len(key[1]) > 2**7:
            return None
        if len(self._entries) >= ENTRIES_MAX:
            self._entries.clear()
        topic.partition_data = []
        entry = self._entries[key] = _Entry(replica, topic, data.index, version)
        return entry


def _uvarint(frame: memoryview, position: int) -> tuple[int, int]:
    value = frame[position]
    position += 1
    if value > 127:
        value &= 127
        shift = 7
        while shift < 35:
            byte = frame[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
    return value, position
