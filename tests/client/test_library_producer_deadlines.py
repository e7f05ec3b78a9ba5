"""delivery.timeout.ms holds in whatever state a record waits, and waiting can be given up.

The broker is a script: it leaves unanswered what the test tells it to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moldau.client.producer.asyncio_producer import Producer
from moldau.client.shared import client_errors as errors
from moldau.model.errors import Error
from moldau.wire.messages.metadata import MetadataRequest
from moldau.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from moldau.wire.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from tests.support.scripted_broker import HANG, HANG_UP, ScriptedBroker

SETTINGS: dict[str, Any] = {
    "delivery_timeout_ms": 800,
    "request_timeout_ms": 500,
    "linger_ms": 0,
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 50,
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 50,
}
WAIT_S = 60


def stored(request: ProduceRequest, code: int = 0) -> ProduceResponse:
    topics = [
        TopicProduceResponse(
            topic_id=topic.topic_id,
            name=topic.name,
            partition_responses=[
                PartitionProduceResponse(index=row.index, error_code=code, base_offset=7)
                for row in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    return ProduceResponse(responses=topics)


def scripted() -> ScriptedBroker:
    broker = ScriptedBroker(
        {
            InitProducerIdRequest: lambda request, version: InitProducerIdResponse(producer_id=1),
            ProduceRequest: lambda request, version: stored(request),
        }
    )
    broker.add_topic("t")
    return broker


def no_producer_id(broker: ScriptedBroker) -> None:
    broker.answers[InitProducerIdRequest] = lambda request, version: HANG


def producer_id_later(broker: ScriptedBroker) -> None:
    broker.answers[InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(
        error_code=Error.COORDINATOR_LOAD_IN_PROGRESS
    )


def no_answer(broker: ScriptedBroker) -> None:
    broker.answers[ProduceRequest] = lambda request, version: HANG


def no_connection(broker: ScriptedBroker) -> None:
    broker.answers[ProduceRequest] = lambda request, version: HANG_UP


def always_later(broker: ScriptedBroker) -> None:
    broker.answers[ProduceRequest] = lambda request, version: stored(
        request, Error.NOT_LEADER_OR_FOLLOWER
    )


def no_leader(broker: ScriptedBroker) -> None:
    broker.add_topic("t", leader=-1)
    always_later(broker)


def no_metadata(broker: ScriptedBroker) -> None:
    broker.answers[MetadataRequest] = lambda request, version: HANG
    always_later(broker)


@pytest.mark.parametrize(
    ("obstacle", "is_idempotent"),
    [
        (no_producer_id, True),
        (producer_id_later, True),
        (no_answer, True),
        (no_answer, False),
        (no_connection, True),
        (always_later, True),
        (always_later, False),
        (no_leader, True),
        (no_metadata, True),
    ],
    ids=lambda value: getattr(value, "__name__", f"idempotence {value}"),
)
def test_a_record_is_answered_after_delivery_timeout_whatever_it_waits_for(
    obstacle: Callable[[ScriptedBroker], None], is_idempotent: bool
) -> None:
    async def main() -> None:
        async with scripted() as broker:
            producer = Producer(
                bootstrap_servers=broker.bootstrap, enable_idempotence=is_idempotent, **SETTINGS
            )
            try:
                await producer.partitions_for("t")
                needs_id = obstacle in (no_producer_id, producer_id_later)
                if not needs_id:
                    await (await producer.send("t", b"first"))
                obstacle(broker)
                heard: list[Any] = []
                delivery = await producer.send(
                    "t", b"x", on_delivery=lambda metadata, error: heard.append(error)
                )
                async with asyncio.timeout(WAIT_S):
                    # That the time is over, or what its last attempt ended with.
                    with pytest.raises(errors.KafkaError) as told:
                        await delivery
                    await producer.flush()
                assert heard == [told.value]
                assert (
                    producer._core.accumulator.free_bytes
                    == producer._core.accumulator.buffer_memory_bytes
                )
            finally:
                await producer.close(0)

    asyncio.run(main())


def test_a_batch_that_a_fault_has_lost_is_answered_too() -> None:
    async def main() -> None:
        async with scripted() as broker:
            producer = Producer(bootstrap_servers=broker.bootstrap, **SETTINGS)
            async with producer:
                await (await producer.send("t", b"first"))
                sender: Any = producer._core.sender

                def lose(*_: Any) -> None:
                    del sender._send
                    raise AssertionError("a bug, between the queue and the connection")

                asyncio.get_running_loop().set_exception_handler(lambda *_: None)
                sender._send = lose
                delivery = await producer.send("t", b"x")
                async with asyncio.timeout(WAIT_S):
                    with pytest.raises(errors.KafkaTimeoutError, match="Expiring 1 record"):
                        await delivery
                    await (await producer.send("t", b"after"))

    asyncio.run(main())


def test_whoever_gives_up_waiting_takes_nothing_from_the_others() -> None:
    async def main() -> None:
        async with scripted() as broker:
            no_answer(broker)
            settings = {**SETTINGS, "delivery_timeout_ms": 60_000, "request_timeout_ms": 300}
            async with Producer(bootstrap_servers=broker.bootstrap, **settings) as producer:
                delivery = await producer.send("t", b"x")
                waits = [
                    asyncio.ensure_future(producer.flush()),
                    asyncio.ensure_future(waited(delivery)),
                    asyncio.ensure_future(waited(delivery)),
                    asyncio.ensure_future(producer.flush()),
                ]
                await asyncio.sleep(0)
                for each in waits[:2]:
                    each.cancel()
                broker.answers[ProduceRequest] = lambda request, version: stored(request)
                async with asyncio.timeout(WAIT_S):
                    given_up = await asyncio.gather(*waits[:2], return_exceptions=True)
                    assert [type(each) for each in given_up] == [asyncio.CancelledError] * 2
                    assert (await waits[2]).offset == 7
                    await waits[3]
                assert producer._core.accumulator.hurries == 0

    asyncio.run(main())


def test_a_send_that_is_cancelled_while_the_buffer_is_full_sends_nothing() -> None:
    async def main() -> None:
        async with scripted() as broker:
            no_answer(broker)
            settings = {**SETTINGS, "delivery_timeout_ms": 60_000, "request_timeout_ms": 500}
            async with Producer(
                bootstrap_servers=broker.bootstrap, buffer_memory=1000, batch_size=900, **settings
            ) as producer:
                first = await producer.send("t", b"x" * 500)
                task = asyncio.ensure_future(producer.send("t", b"y" * 500))
                while not producer._core._starved:
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert not producer._core._starved
                assert producer._core.accumulator.hurries == 0
                broker.answers[ProduceRequest] = lambda request, version: stored(request)
                async with asyncio.timeout(WAIT_S):
                    await first
                    await producer.flush()
                assert producer.metrics()["record-send-total"] == 1

    asyncio.run(main())


async def waited(delivery: Any) -> Any:
    return await delivery
