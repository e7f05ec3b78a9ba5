"""Transactions of kafka-python."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tests.compat.clients import kafka_python
from tests.compat.clients.kafka_python import KafkaPython
from tests.compat.clients.kafka_python_groups import KafkaPythonGroups
from tests.compat.clients.port import SECONDS_MAX
from tests.compat.clients.transaction_port import TRANSACTION_TIMEOUT_MS, Fenced, Producer

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import ConsumerGroupMetadata, KafkaProducer, TopicPartition
    from kafka.errors import ProducerFencedError
    from kafka.structs import OffsetAndMetadata


class KafkaPythonProducer:
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self.producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            linger_ms=5,
        )
        with refusals():
            self.producer.init_transactions()

    def begin(self) -> None:
        with refusals():
            self.producer.begin_transaction()

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        with refusals():
            sent = [self.producer.send(topic, value, partition=partition) for value in values]
            for one in sent:
                one.get(timeout=SECONDS_MAX)

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        rows = {
            TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        with refusals():
            self.producer.send_offsets_to_transaction(rows, ConsumerGroupMetadata(group))

    def commit(self) -> None:
        with refusals():
            self.producer.commit_transaction()

    def abort(self) -> None:
        with refusals():
            self.producer.abort_transaction()

    def close(self) -> None:
        self.producer.close(timeout=0)


class KafkaPythonTransactions:
    sends_offsets_alone = True

    def __init__(self, client: KafkaPython) -> None:
        self.client = client

    def producer(self, transactional_id: str) -> Producer:
        return KafkaPythonProducer(self.client.bootstrap, transactional_id)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        return KafkaPythonGroups(self.client).committed(group, topic)


@contextmanager
def refusals() -> Iterator[None]:
    try:
        with kafka_python.refusals():
            yield
    except kafka_python.Refused as refused:
        if isinstance(refused.__cause__, ProducerFencedError):
            raise Fenced(type(refused.__cause__).__name__) from refused
        raise
