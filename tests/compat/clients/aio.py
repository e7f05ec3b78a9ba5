"""aiokafka. Each call runs on an event loop of its own, so nothing outlives it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

from tests.compat.clients.port import (
    READ_UNCOMMITTED,
    REQUEST_BYTES_MAX,
    SECONDS_MAX,
    Partition,
    Received,
    Record,
    Refused,
)

T = TypeVar("T")


class AioKafka:
    name = "aiokafka"
    writes_null_headers = True
    alters_incrementally = False
    checks_delete_offsets_itself = False

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(
        self, topic: str, records: Sequence[Record], *, codec: str = "none", acks: str = "all"
    ) -> list[int]:
        return run(self._produce(topic, records, codec, acks))

    async def _produce(
        self, topic: str, records: Sequence[Record], codec: str, acks: str
    ) -> list[int]:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks="all" if acks == "all" else int(acks),
            enable_idempotence=acks == "all",
            compression_type=None if codec == "none" else codec,
            max_request_size=REQUEST_BYTES_MAX,
            max_batch_size=64 * 1024,
            linger_ms=5,
        )
        async with producer:
            sent: list[Awaitable[Any]] = [
                await producer.send(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            await producer.flush()
            acknowledged = await asyncio.gather(*sent)
            return [-1 if acks == "0" else row.offset for row in acknowledged]

    def consume(
        self, topic: str, counts: Mapping[int, int], *, isolation: str = READ_UNCOMMITTED
    ) -> list[Received]:
        return run(self._consume(topic, counts, isolation))

    async def _consume(
        self, topic: str, counts: Mapping[int, int], isolation: str
    ) -> list[Received]:
        missing = sum(counts.values())
        received: list[Received] = []
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=None,
            auto_offset_reset="none",
            isolation_level=isolation,
            max_partition_fetch_bytes=REQUEST_BYTES_MAX,
        )
        async with consumer:
            assigned = [TopicPartition(topic, index) for index in counts]
            consumer.assign(assigned)
            await consumer.seek_to_beginning(*assigned)
            deadline = time.monotonic() + SECONDS_MAX
            while missing > len(received) and time.monotonic() < deadline:
                for messages in (await consumer.getmany(timeout_ms=500)).values():
                    received += map(received_from, messages)
        return received

    def create_topic(self, topic: str, *, partitions: int, configs: Mapping[str, str]) -> None:
        async def create() -> None:
            async with self.admin() as admin:
                new = NewTopic(topic, partitions, 1, topic_configs=dict(configs))
                response = await admin.create_topics([new])
                for _name, code, *_ in response.topic_errors:
                    check(code)

        run(create())

    def topics(self) -> set[str]:
        async def names() -> set[str]:
            async with self.admin() as admin:
                return set(await admin.list_topics())

        return run(names())

    def describe_topic(self, topic: str) -> list[Partition]:
        async def described() -> list[Partition]:
            async with self.admin() as admin:
                (row,) = await admin.describe_topics([topic])
                return sorted(
                    Partition(p["partition"], p["leader"], tuple(p["replicas"]), tuple(p["isr"]))
                    for p in row["partitions"]
                )

        return run(described())

    def configs(self, topic: str) -> dict[str, str | None]:
        async def described() -> dict[str, str | None]:
            async with self.admin() as admin:
                resource = ConfigResource(ConfigResourceType.TOPIC, topic)
                (response,) = await admin.describe_configs([resource])
                ((code, _message, _type, _name, entries),) = response.resources
                check(code)
                return {entry[0]: entry[1] for entry in entries}

        return run(described())

    def alter_configs(self, topic: str, changes: Mapping[str, str]) -> None:
        async def alter() -> None:
            async with self.admin() as admin:
                resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(changes))
                (response,) = await admin.alter_configs([resource])
                ((code, _message, _type, _name),) = response.resources
                check(code)

        run(alter())

    def create_partitions(self, topic: str, total: int) -> None:
        async def create() -> None:
            async with self.admin() as admin:
                await admin.create_partitions({topic: NewPartitions(total)})

        run(create())

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        async def delete() -> None:
            async with self.admin() as admin:
                wanted = {TopicPartition(topic, partition): RecordsToDelete(before_offset)}
                await admin.delete_records(wanted)

        run(delete())

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        async def ends() -> tuple[int, int]:
            asked = TopicPartition(topic, partition)
            async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap) as consumer:
                start = await consumer.beginning_offsets([asked])
                end = await consumer.end_offsets([asked])
                return start[asked], end[asked]

        return run(ends())

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        async def found() -> int:
            asked = TopicPartition(topic, partition)
            async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap) as consumer:
                offset: int = (await consumer.offsets_for_times({asked: timestamp_ms}))[
                    asked
                ].offset
                return offset

        return run(found())

    def delete_topic(self, topic: str) -> None:
        async def delete() -> None:
            async with self.admin() as admin:
                response = await admin.delete_topics([topic])
                for _name, code, *_ in response.topic_error_codes:
                    check(code)

        run(delete())

    def close(self) -> None:
        """Nothing outlives a call."""

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        client = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await client.start()
        try:
            yield client
        finally:
            await client.close()


def run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(asyncio.wait_for(work, SECONDS_MAX + 30))
    except KafkaError as error:
        code = getattr(error, "errno", None)
        if code is None:
            raise
        raise Refused(code, str(error)) from error


def check(code: int) -> None:
    if code:
        raise for_code(code)


def received_from(message: Any) -> Received:
    record = Record(
        message.key, message.value, tuple(message.headers), message.timestamp, message.partition
    )
    return Received(record, message.offset)
