"""Facts to the record batches of `__consumer_offsets` and back.

Facts outside transactions share batches. Offsets of a transaction travel in a transactional batch
of their producer, and its end is a control batch, so the log's own bookkeeping (producer epochs,
last stable offset) covers them. Records of other group protocols are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moldau.groups.group_facts import (
    NO_TIMESTAMP,
    CommittedOffset,
    Durable,
    GroupDeleted,
    GroupStored,
    OffsetsCommitted,
    OffsetsRemoved,
    StoredMember,
    TransactionalOffsetsCommitted,
    TransactionEnded,
)
from moldau.groups.group_records import (
    GROUP_METADATA_KIND,
    GROUP_VALUE_VERSION,
    KEY_VERSION,
    OFFSET_COMMIT_KIND,
    OFFSET_COMMIT_KIND_OLD,
    OFFSET_VALUE_VERSION,
    OFFSET_VALUE_VERSION_WITH_EXPIRY,
    VERSION,
    with_version,
)
from moldau.model.names import Millis, TopicPartition
from moldau.records.batch import NO_PRODUCER_ID, BatchHeader
from moldau.records.batch_codec import (
    ControlType,
    EndMarker,
    Record,
    decode_marker,
    encode_batch,
    encode_marker,
)
from moldau.records.compression import Codec
from moldau.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

BATCH_BYTES = 512 * 1024
"""A batch is closed when it is this large: well under what a log takes as one batch."""


class GroupCodec:
    def __init__(self, compression: int = Codec.NONE) -> None:
        """`compression` is offsets.topic.compression.codec."""
        self._compression = compression

    def encode(self, facts: Sequence[object], wall_ms: Millis) -> list[bytes]:
        batches: list[bytes] = []
        rows: list[Record] = []
        size_bytes = 0
        for fact in facts:
            if isinstance(fact, TransactionEnded | TransactionalOffsetsCommitted):
                self._close(batches, rows)
                batches.append(self._of_producer(fact, wall_ms))
                continue
            for row in _records(fact, wall_ms):
                rows.append(row)
                size_bytes += len(row.key or b"") + len(row.value or b"")
                if size_bytes >= BATCH_BYTES:
                    self._close(batches, rows)
                    size_bytes = 0
        self._close(batches, rows)
        return batches

    def _close(self, batches: list[bytes], rows: list[Record]) -> None:
        if rows:
            batches.append(encode_batch(rows, codec=self._compression))
            rows.clear()

    def _of_producer(
        self, fact: TransactionEnded | TransactionalOffsetsCommitted, wall_ms: Millis
    ) -> bytes:
        if isinstance(fact, TransactionEnded):
            kind = ControlType.COMMIT if fact.committed else ControlType.ABORT
            return encode_marker(
                EndMarker(kind, fact.coordinator_epoch),
                producer_id=fact.producer_id,
                producer_epoch=fact.producer_epoch,
                timestamp=wall_ms,
            )
        return encode_batch(
            [_offset_record(fact.group_id, *row, wall_ms) for row in fact.offsets],
            codec=self._compression,
            producer_id=fact.producer_id,
            producer_epoch=fact.producer_epoch,
            transactional=True,
        )

    def decode(self, header: BatchHeader, records: list[Record]) -> Iterator[Durable]:
        for record in records:
            if header.is_control:
                marker = decode_marker(record)
                if marker is not None:
                    yield TransactionEnded(
                        header.producer_id,
                        header.producer_epoch,
                        marker.coordinator_epoch,
                        marker.kind is ControlType.COMMIT,
                    )
                continue
            fact = _fact(header, record)
            if fact is not None:
                yield fact


def _records(fact: object, wall_ms: Millis) -> Iterator[Record]:
    match fact:
        case GroupStored():
            value = with_version(GROUP_VALUE_VERSION, _group_value(fact))
            yield Record(0, wall_ms, _group_key(fact.group_id), value)
        case GroupDeleted(group_id):
            yield Record(0, wall_ms, _group_key(group_id), None)
        case OffsetsCommitted(group_id, offsets):
            for place, offset in offsets:
                yield _offset_record(group_id, place, offset, wall_ms)
        case OffsetsRemoved(group_id, places):
            for place in places:
                yield Record(0, wall_ms, _offset_key(group_id, place), None)
        case _:
            raise AssertionError(f"{fact!r} is not a durable fact of groups")


def _group_key(group_id: str) -> bytes:
    return with_version(GROUP_METADATA_KIND, GroupMetadataKey(group=group_id), KEY_VERSION)


def _offset_key(group_id: str, place: TopicPartition) -> bytes:
    key = OffsetCommitKey(group=group_id, topic=place.topic, partition=place.partition)
    return with_version(OFFSET_COMMIT_KIND, key, KEY_VERSION)


def _offset_record(
    group_id: str, place: TopicPartition, value: CommittedOffset, wall_ms: Millis
) -> Record:
    version = OFFSET_VALUE_VERSION
    if value.expire_timestamp_ms != NO_TIMESTAMP:
        version = OFFSET_VALUE_VERSION_WITH_EXPIRY
    written = OffsetCommitValue(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp=value.commit_timestamp_ms,
        expire_timestamp=value.expire_timestamp_ms,
        topic_id=value.topic_id,
    )
    return Record(0, wall_ms, _offset_key(group_id, place), with_version(version, written))


def _group_value(fact: GroupStored) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type=fact.protocol_type or "",
        generation=fact.generation,
        protocol=fact.protocol,
        leader=fact.leader,
        current_state_timestamp=fact.state_timestamp_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in fact.members
        ],
    )


def _fact(header: BatchHeader, record: Record) -> Durable | None:
    key = record.key or b""
    kind = VERSION.unpack_from(key)[0] if len(key) >= VERSION.size else -1
    if kind in (OFFSET_COMMIT_KIND, OFFSET_COMMIT_KIND_OLD):
        return _offset_fact(header, key, record.value)
    if kind == GROUP_METADATA_KIND:
        group_id = GroupMetadataKey.decode(key, KEY_VERSION, VERSION.size).group
        if record.value is None:
            return GroupDeleted(group_id)
        return _group_fact(group_id, record.value)
    return None


def _offset_fact(
    header: BatchHeader, encoded_key: bytes, value: bytes | None
) -> OffsetsCommitted | TransactionalOffsetsCommitted | OffsetsRemoved:
    key = OffsetCommitKey.decode(encoded_key, KEY_VERSION, VERSION.size)
    place = TopicPartition(key.topic, key.partition)
    if value is None:
        return OffsetsRemoved(key.group, (place,))
    read = OffsetCommitValue.decode(value, VERSION.unpack_from(value)[0], VERSION.size)
    offset = CommittedOffset(
        read.offset,
        read.leader_epoch,
        read.metadata,
        read.commit_timestamp,
        read.expire_timestamp,
        read.topic_id,
    )
    if header.producer_id == NO_PRODUCER_ID:
        return OffsetsCommitted(key.group, ((place, offset),))
    return TransactionalOffsetsCommitted(
        key.group, header.producer_id, header.producer_epoch, ((place, offset),)
    )


def _group_fact(group_id: str, value: bytes) -> GroupStored:
    version = VERSION.unpack_from(value)[0]
    read = GroupMetadataValue.decode(value, version, VERSION.size)
    return GroupStored(
        group_id,
        read.protocol_type or None,
        read.generation,
        read.protocol,
        read.leader,
        read.current_state_timestamp,
        tuple(
            StoredMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                # The oldest version knows one time-out for both.
                member.rebalance_timeout if version else member.session_timeout,
                member.session_timeout,
                member.subscription,
                member.assignment,
            )
            for member in read.members
        ),
    )
