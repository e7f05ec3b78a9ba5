"""Transactions of confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.compat.clients.confluent import ConfluentKafka
from tests.compat.clients.confluent_groups import ConfluentGroups
from tests.compat.clients.port import SECONDS_MAX, Refused
from tests.compat.clients.transaction_port import TRANSACTION_TIMEOUT_MS, Fenced, Producer


class ConfluentProducer:
    def __init__(self, common: Mapping[str, object], transactional_id: str) -> None:
        self.common = common
        self.errors: list[KafkaError] = []
        self.producer = confluent_kafka.Producer(
            {
                **common,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 5,
            }
        )
        with refusals():
            self.producer.init_transactions(SECONDS_MAX)

    def begin(self) -> None:
        with refusals():
            self.producer.begin_transaction()

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        for value in values:
            self.producer.produce(topic, value, partition=partition, on_delivery=self.delivered)
        self.producer.flush(SECONDS_MAX)
        if self.errors:
            raise Refused(self.errors[0].code(), self.errors[0].str())

    def delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self.errors.append(error)

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        consumer = confluent_kafka.Consumer({**self.common, "group.id": group})
        rows = [TopicPartition(topic, *row) for row in offsets.items()]
        with refusals():
            self.producer.send_offsets_to_transaction(
                rows, consumer.consumer_group_metadata(), SECONDS_MAX
            )
        consumer.close()

    def commit(self) -> None:
        with refusals():
            self.producer.commit_transaction(SECONDS_MAX)

    def abort(self) -> None:
        with refusals():
            self.producer.abort_transaction(SECONDS_MAX)

    def close(self) -> None:
        """The library stops its threads when the last reference goes."""
        del self.producer


class ConfluentTransactions:
    sends_offsets_alone = True

    def __init__(self, client: ConfluentKafka) -> None:
        self.client = client

    def producer(self, transactional_id: str) -> Producer:
        return ConfluentProducer(self.client.common, transactional_id)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        return ConfluentGroups(self.client).committed(group, topic)


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except KafkaException as refused:
        error = refused.args[0]
        if error.code() == KafkaError._FENCED:
            raise Fenced(error.name()) from refused
        raise Refused(error.code(), error.str()) from refused
