"""Transactions of aiokafka: a producer has an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

from tests.compat.clients.aio import AioKafka
from tests.compat.clients.aio_groups import AioGroups
from tests.compat.clients.port import SECONDS_MAX, Refused
from tests.compat.clients.transaction_port import TRANSACTION_TIMEOUT_MS, Fenced, Producer

T = TypeVar("T")


class AioProducer:
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.producer = self.run(self.started(bootstrap, transactional_id))

    async def started(self, bootstrap: str, transactional_id: str) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            linger_ms=5,
        )
        await producer.start()
        return producer

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run_coroutine_threadsafe(work, self.loop).result(SECONDS_MAX)
        except ProducerFenced as fenced:
            raise Fenced(type(fenced).__name__) from fenced
        except KafkaError as refused:
            raise Refused(getattr(refused, "errno", -1), str(refused)) from refused

    def begin(self) -> None:
        self.run(self.producer.begin_transaction())

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        async def sent() -> None:
            rows = [await self.producer.send(topic, value, partition=partition) for value in values]
            await asyncio.gather(*rows)

        self.run(sent())

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        rows = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        self.run(self.producer.send_offsets_to_transaction(rows, group))

    def commit(self) -> None:
        self.run(self.producer.commit_transaction())

    def abort(self) -> None:
        self.run(self.producer.abort_transaction())

    def close(self) -> None:
        self.run(self.producer.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(SECONDS_MAX)
        self.loop.close()


class AioTransactions:
    sends_offsets_alone = True

    def __init__(self, client: AioKafka) -> None:
        self.client = client

    def producer(self, transactional_id: str) -> Producer:
        return AioProducer(self.client.bootstrap, transactional_id)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        return AioGroups(self.client).committed(group, topic)
