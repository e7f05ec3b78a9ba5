"""The transaction log: Kafka's own records, byte for byte.

Pure. Key and value are preceded by their version as an int16; an expired id is a key without a
value. The value is written in version 1, as brokers do that know transactions of version 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from moldau.model.names import Millis, TopicPartition
from moldau.records.batch import BatchHeader
from moldau.records.batch_codec import Record, encode_batch
from moldau.transactions.transaction_facts import (
    Durable,
    Transaction,
    TransactionalIdExpired,
    TransactionMoved,
)
from moldau.transactions.transaction_states import State
from moldau.wire.messages.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

KEY_VERSION = 0
VALUE_VERSION = 1
VERSION_BYTES = 2


class TransactionCodec:
    """Facts to batches and back."""

    __slots__ = ()

    def encode(self, facts: Sequence[object], wall_ms: Millis) -> list[bytes]:
        """One batch, so that all facts of a decision are kept or none."""
        return [encode_batch([_record(fact, wall_ms) for fact in facts])]

    def decode(self, header: BatchHeader, records: Iterable[Record]) -> Iterator[Durable]:
        """Passes over what a newer broker may have written."""
        if header.is_control:
            return
        for record in records:
            fact = _fact(record)
            if fact is not None:
                yield fact


def key_bytes(transactional_id: str) -> bytes:
    key = TransactionLogKey(transactional_id=transactional_id).encode(KEY_VERSION)
    return KEY_VERSION.to_bytes(VERSION_BYTES, "big") + key


def value_bytes(transaction: Transaction) -> bytes:
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=_topics(transaction),
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )
    return VALUE_VERSION.to_bytes(VERSION_BYTES, "big") + value.encode(VALUE_VERSION)


def _record(fact: object, wall_ms: Millis) -> Record:
    match fact:
        case TransactionMoved(after):
            key = key_bytes(after.transactional_id)
            return Record(timestamp=wall_ms, key=key, value=value_bytes(after))
        case TransactionalIdExpired(name):
            return Record(timestamp=wall_ms, key=key_bytes(name), value=None)
        case _:
            raise AssertionError(f"{fact!r} has no record")


def _fact(record: Record) -> Durable | None:
    key = record.key or b""
    if int.from_bytes(key[:VERSION_BYTES], "big") != KEY_VERSION:
        return None
    name = TransactionLogKey.decode(key, KEY_VERSION, VERSION_BYTES).transactional_id
    if record.value is None:
        return TransactionalIdExpired(name)
    version = int.from_bytes(record.value[:VERSION_BYTES], "big")
    if version > VALUE_VERSION:
        return None
    value = TransactionLogValue.decode(record.value, version, VERSION_BYTES)
    partitions = [
        TopicPartition(each.topic, partition)
        for each in value.transaction_partitions or ()
        for partition in each.partition_ids
    ]
    return TransactionMoved(
        Transaction(
            name,
            value.producer_id,
            value.producer_epoch,
            value.transaction_timeout_ms,
            State(value.transaction_status),
            frozenset(partitions),
            value.transaction_start_timestamp_ms,
            value.transaction_last_update_timestamp_ms,
            value.previous_producer_id,
            value.next_producer_id,
            client_version=value.client_transaction_version,
        )
    )


def _topics(transaction: Transaction) -> list[PartitionsSchema] | None:
    if transaction.state is State.EMPTY:
        return None
    by_topic: dict[str, list[int]] = {}
    for topic, partition in transaction.partitions:
        by_topic.setdefault(topic, []).append(partition)
    return [
        PartitionsSchema(topic=topic, partition_ids=sorted(by_topic[topic]))
        for topic in sorted(by_topic)
    ]
