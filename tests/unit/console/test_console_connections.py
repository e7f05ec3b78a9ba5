"""What a connection may cost that asks slowly, or takes its answer slowly."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from moldau.console.entrance import connections
from moldau.console.entrance.connections import BoundedConnection

WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
STREAM = b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"
PART_BYTES, PARTS = 64 << 10, 80
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Ended:
    """What the server's side of the connection has come to."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.armed: list[bool] = []
        """Whether the clock ran, after each time that the reader had taken what was there."""
        self.is_asked_for: Callable[[], bool] = lambda: False
        """Whether the rest of a request is waited for."""


@asynccontextmanager
async def served(ended: Ended, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    async def page(request: Request) -> Response:
        return PlainTextResponse("hello")

    async def parts() -> AsyncIterator[bytes]:
        try:
            for _ in range(PARTS):
                yield bytes(PART_BYTES)
        finally:
            ended.event.set()

    async def stream(request: Request) -> Response:
        return StreamingResponse(parts())

    class Watched(BoundedConnection):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            ended.is_asked_for = lambda: self._asking is not None

        def resume_writing(self) -> None:
            assert self._taking is not None
            super().resume_writing()
            ended.armed.append(self._taking is not None)

    app = Starlette(routes=[Route("/", page), Route("/stream", stream)])
    config = uvicorn.Config(app, http=Watched, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            await serving


def run(monkeypatch: pytest.MonkeyPatch, play: Callable[[Client, Ended], Awaitable[None]]) -> None:
    async def played() -> None:
        ended = Ended()
        async with served(ended, monkeypatch) as port:
            way = socket.socket()
            way.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            way.setblocking(False)
            await asyncio.get_running_loop().sock_connect(way, ("127.0.0.1", port))
            reader, writer = await asyncio.open_connection(sock=way, limit=8192)
            try:
                async with asyncio.timeout(20):
                    await play((reader, writer), ended)
            finally:
                writer.close()

    asyncio.run(played())


@pytest.mark.parametrize("beginning", [b"", b"GET / HT", WHOLE[:-2]])
def test_a_request_that_never_ends_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, beginning: bytes
) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.3)

    async def play(client: Client, ended: Ended) -> None:
        reader, writer = client
        writer.write(beginning)
        with pytest.raises(ConnectionResetError):
            assert await reader.read() == b""
            raise ConnectionResetError

    run(monkeypatch, play)


def test_the_clock_runs_for_each_request_and_not_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(client: Client, ended: Ended) -> None:
        reader, writer = client
        for _ in range(2):
            writer.write(WHOLE)
            assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
            assert not ended.is_asked_for()
        writer.write(WHOLE[:10])
        while not ended.is_asked_for():
            await asyncio.sleep(0.01)

    run(monkeypatch, play)


def test_who_takes_nothing_is_cut_off_and_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TAKE_S", 0.4)

    async def play(client: Client, ended: Ended) -> None:
        client[1].write(STREAM)
        await ended.event.wait()

    run(monkeypatch, play)


def test_who_takes_little_by_little_gets_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(client: Client, ended: Ended) -> None:
        reader, writer = client
        writer.write(STREAM)
        await reader.readuntil(b"\r\n\r\n")
        taken = 0
        while taken < PART_BYTES * PARTS:
            taken += len(await reader.read(PART_BYTES))
            await asyncio.sleep(0.002)
        assert ended.event.is_set()
        assert len(ended.armed) > 1 and not any(ended.armed)

    run(monkeypatch, play)
