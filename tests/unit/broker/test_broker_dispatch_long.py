"""Long requests and answers: read and written beside the loop, worked on in turns, in order."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

from moldau.broker.dispatch import ENTRIES_INLINE, FRAME_BYTES_INLINE, ROWS_INLINE, Dispatch
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import Route
from moldau.net.acceptor import Listener
from moldau.net.server import Server, SocketSettings
from moldau.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from moldau.wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceData
from moldau.wire.request_framing import decode_response, encode_request, read_correlation_id
from tests.support.echo_server import run, until

PRODUCE, METADATA = 0, 3
LONG = FRAME_BYTES_INLINE // 4


class Client:
    def __init__(
        self,
        dispatch: Dispatch,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        address: tuple[str, int],
    ) -> None:
        self.dispatch = dispatch
        self.address = address
        self.reader = reader
        self.writer = writer

    async def answer(self, key: int, version: int) -> tuple[int, Any]:
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        frame = await self.reader.readexactly(size)
        return read_correlation_id(frame), decode_response(key, version, frame)


@contextlib.asynccontextmanager
async def serving(key: int, function: Callable[..., Any], services: Any) -> AsyncIterator[Client]:
    loop = asyncio.get_running_loop()
    route = Route(key, lambda: {key: function}, 0, 9)
    dispatch = Dispatch({key: route}, services, loop)
    server = Server(loop, SocketSettings(), dispatch, frozenset({PRODUCE}))
    port = server.bind(Listener("OUTSIDE", "127.0.0.1", 0)).port
    server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(dispatch, reader, writer, ("127.0.0.1", port))
    finally:
        writer.close()
        server.stop()


async def echo(request: Any, ctx: RequestContext, on: list[str]) -> MetadataResponse:
    on.append(threading.current_thread().name)
    rows = [MetadataResponseTopic(name=topic.name) for topic in request.topics]
    return MetadataResponse(topics=rows)


async def echo_later(request: Any, ctx: RequestContext, on: list[str]) -> MetadataResponse:
    await asyncio.sleep(0)
    return await echo(request, ctx, on)


def asked(count: int) -> bytes:
    rows = [MetadataRequestTopic(name=f"t{n}") for n in range(count)]
    return encode_request(METADATA, 9, count, "tester", MetadataRequest(topics=rows))


def test_long_requests_and_answers_keep_their_order_among_short_ones() -> None:
    async def scenario() -> None:
        for function in (echo, echo_later):
            ran_in: list[str] = []
            async with serving(METADATA, function, ran_in) as client:
                for count in (1, LONG, 2, ROWS_INLINE + 1, 3):
                    client.writer.write(asked(count))
                for count in (1, LONG, 2, ROWS_INLINE + 1, 3):
                    correlation_id, response = await client.answer(METADATA, 9)
                    assert correlation_id == count
                    assert [row.name for row in response.topics] == [f"t{n}" for n in range(count)]
                # Handlers stay on the loop, whoever read their request.
                assert set(ran_in) == {threading.current_thread().name}
                assert client.dispatch._thread is not None

    run(scenario)


def test_short_messages_need_no_thread() -> None:
    async def scenario() -> None:
        async with serving(METADATA, echo, []) as client:
            client.writer.write(asked(100))
            await client.answer(METADATA, 9)
            assert client.dispatch._thread is None

    run(scenario)


def test_a_long_request_that_cannot_be_read_ends_its_connection() -> None:
    async def scenario() -> None:
        async with serving(METADATA, echo, []) as client:
            frame = bytearray(asked(LONG))
            frame[-20:] = b"\xff" * 20
            client.writer.write(frame)
            with contextlib.suppress(ConnectionResetError):
                assert await client.reader.read() == b""

    run(scenario)


def test_long_requests_of_many_clients_are_worked_on_one_after_the_other() -> None:
    async def scenario() -> None:
        log: list[int] = []
        gate = asyncio.get_running_loop().create_future()

        async def work(request: Any, ctx: RequestContext, on: Any) -> MetadataResponse:
            number = len(request.topics)
            for _ in range(20):
                log.append(number)
                await asyncio.sleep(0)
            if number == 1:
                await gate  # makes room meanwhile
                log.append(number)
            if number == 2:
                raise ZeroDivisionError
            return MetadataResponse()

        async with serving(METADATA, work, None) as client:
            clients = [await asyncio.open_connection(*client.address) for _ in range(4)]
            for number, (_, writer) in enumerate(clients, 1):
                writer.write(asked(number))
                await until(lambda seen=number: seen in log)
            await until(lambda: log.count(4) == 20)
            # Each had its first turn when it came; then the first was done before the second.
            rest = [number for place, number in enumerate(log) if number in log[:place]]
            assert rest == sorted(rest)
            gate.set_result(None)
            reader = clients[0][0]
            assert await reader.readexactly(4)
            assert log[-1] == 1
            await until(lambda: len(client.dispatch.long_work) == 0)
            for _, writer in clients:
                writer.close()

    run(scenario)


def test_a_produce_that_rests_in_the_middle_of_its_work_is_not_overtaken() -> None:
    async def scenario() -> None:
        log: list[str] = []
        gate = asyncio.get_running_loop().create_future()

        async def produce(request: Any, ctx: RequestContext, on: Any) -> ProduceResponse:
            number = request.timeout_ms
            for part in range(3):
                log.append(f"{number} writes {part}")
                await asyncio.sleep(0)
            await gate
            return ProduceResponse()

        async with serving(PRODUCE, produce, None) as client:
            for number in range(3):
                request = ProduceRequest(timeout_ms=number, topic_data=[])
                client.writer.write(encode_request(PRODUCE, 7, number, "tester", request))
            await until(lambda: len(log) >= 3)
            for _ in range(50):
                await asyncio.sleep(0)
            gate.set_result(None)
            for number in range(3):
                assert (await client.answer(PRODUCE, 7))[0] == number
            assert log == [f"{number} writes {part}" for number in range(3) for part in range(3)]

    run(scenario)


def test_a_long_produce_request_is_not_overtaken_while_it_is_read() -> None:
    async def scenario() -> None:
        seen: list[int] = []

        async def note(request: Any, ctx: RequestContext, on: Any) -> ProduceResponse:
            seen.append(len(request.topic_data))
            return ProduceResponse(responses=[])

        async with serving(PRODUCE, note, None) as client:
            counts = (1, ENTRIES_INLINE + 1, 2, ENTRIES_INLINE + 2, 3)
            for count in counts:
                rows = [TopicProduceData(name="t", partition_data=[])] * count
                request = ProduceRequest(acks=1, topic_data=rows)
                client.writer.write(encode_request(PRODUCE, 9, count, "tester", request))
            for count in counts:
                assert (await client.answer(PRODUCE, 9))[0] == count
        assert seen == list(counts)

    run(scenario)
