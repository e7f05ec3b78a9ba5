"""`queued.max.request.bytes`: long requests of all clients share one amount of memory."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any, cast

from moldau.net.request_memory import RequestMemory
from moldau.net.server import SocketSettings
from tests.support.echo_server import ECHO, LATER, EchoServer, frame, read_answer, run, until

LONG = b"x" * 300_000
BOUNDED = SocketSettings(request_bytes_held_max=400_000)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Clients(ExitStack):
    """Connections to a server, closed at the end."""

    async def connect(self, echo: EchoServer) -> Streams:
        streams = await echo.connect()
        self.callback(streams[1].close)
        return streams


def test_a_long_request_waits_until_others_have_been_answered() -> None:
    async def scenario() -> None:
        clients = Clients()
        async with EchoServer(BOUNDED) as echo:
            long = [await clients.connect(echo) for _ in range(4)]
            for _, writer in long:
                writer.write(frame(LATER, LONG))
            # The second is let in while something is left; the others must wait.
            await until(lambda: len(echo.requests.later) == 2)
            memory = echo.server.request_memory
            await until(lambda: len(memory._waiting) == 2)
            assert memory.held_bytes == 2 * len(frame(LATER, LONG))
            # Short requests are not held up.
            reader, writer = await clients.connect(echo)
            writer.write(frame(ECHO, b"short"))
            assert await read_answer(reader) == b"short"
            assert len(echo.requests.later) == 2
            for count in range(4):
                await until(lambda seen=count: len(echo.requests.later) > seen)
                echo.requests.later[count].release()
            for reader, _ in long:
                assert await read_answer(reader) == LONG
            assert memory.held_bytes == 0
            clients.close()

    run(scenario)


def test_a_client_that_leaves_gives_back_what_its_request_held() -> None:
    async def scenario() -> None:
        clients = Clients()
        async with EchoServer(BOUNDED) as echo:
            memory = echo.server.request_memory
            # One hangs up in the middle of a request, one while it waits for its answer, one
            # while it waits for room.
            for request in (frame(LATER, LONG)[:200_000], frame(LATER, LONG)):
                _, writer = await clients.connect(echo)
                writer.write(request)
            await until(lambda: memory.held_bytes > 400_000)
            _, writer = await clients.connect(echo)
            writer.write(frame(ECHO, LONG))
            await until(lambda: len(memory._waiting) == 1)
            for connection in list(echo.server.connections):
                connection.close()
            assert memory.held_bytes == 0
            assert not memory._waiting
            reader, writer = await clients.connect(echo)
            writer.write(frame(ECHO, LONG))
            assert await read_answer(reader) == LONG
            assert memory.held_bytes == 0
            clients.close()

    run(scenario)


def test_without_a_limit_nobody_waits() -> None:
    async def scenario() -> None:
        clients = Clients()
        async with EchoServer() as echo:
            for _ in range(3):
                _, writer = await clients.connect(echo)
                writer.write(frame(LATER, LONG))
            await until(lambda: len(echo.requests.later) == 3)
            echo.server.reconfigure(BOUNDED)
            reader, writer = await clients.connect(echo)
            writer.write(frame(ECHO, LONG))
            await until(lambda: len(echo.server.request_memory._waiting) == 1)
            echo.server.reconfigure(SocketSettings())
            assert await asyncio.wait_for(read_answer(reader), 10) == LONG
            clients.close()

    run(scenario)


def test_what_is_left_is_told_as_apache_kafka_tells_it() -> None:
    loop = asyncio.new_event_loop()
    memory = RequestMemory(loop)
    assert memory.left_bytes == 9_223_372_036_854_775_807
    memory.set_limit(100)
    assert memory.take(70, cast(Any, None))
    assert (memory.held_bytes, memory.left_bytes) == (70, 30)
    assert memory.take(70, cast(Any, None)), "the last one may go beyond the limit"
    assert memory.left_bytes == 0
    loop.close()
