"""The small HTTP server: what a client can hold up, and what it cannot."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from moldau.broker.monitoring import http_listener
from moldau.broker.monitoring.http_listener import Asked, HttpListener, Page
from moldau.broker.monitoring.known_hosts import KnownHosts

BYTES = 64 * 1024 * 1024
"""More than kernels hold for a client that does not read."""


def _page_at(asked: Asked) -> Page:
    if asked.path == "/long":
        return Page(200, _long())
    return Page(200, ["live\n"])


def _long() -> Iterator[str]:
    line = "x" * 1023 + "\n"
    for _ in range(BYTES // len(line)):
        yield line


async def _ask(port: int, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET %b HTTP/1.1\r\n\r\n" % path.encode())
    return reader, writer


def test_who_takes_answers_slowly_does_not_make_the_broker_look_dead() -> None:
    async def run() -> tuple[list[bytes], bytes]:
        listener = HttpListener("127.0.0.1", 0, KnownHosts(()), _page_at)
        await listener.start()
        slow = []
        for _ in range(http_listener.PAGES_MAX):
            reader, writer = await _ask(listener.port, "/long")
            assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"
            slow.append(writer)
        told = []
        for path in ("/health/live", "/metrics"):
            reader, writer = await _ask(listener.port, path)
            told.append(await reader.readline())
            writer.close()
        slow.pop().close()
        after = b""
        for _ in range(100):
            reader, writer = await _ask(listener.port, "/metrics")
            after = await reader.readline()
            writer.close()
            if b"200" in after:
                break
            await asyncio.sleep(0.05)
        for writer in slow:
            writer.transport.abort()
        await listener.stop()
        return told, after

    told, after = asyncio.run(asyncio.wait_for(run(), 60))
    assert told == [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 503 Service Unavailable\r\n"]
    assert after == b"HTTP/1.1 200 OK\r\n", "whoever goes leaves a place"


def test_who_does_not_take_an_answer_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "ANSWER_SECONDS_MAX", 0.2)

    async def run() -> bytes:
        listener = HttpListener("127.0.0.1", 0, KnownHosts(()), _page_at)
        await listener.start()
        reader, writer = await _ask(listener.port, "/long")
        while listener._tasks:
            await asyncio.sleep(0.05)
        taken = b""
        try:
            while piece := await reader.read(1 << 20):
                taken = piece
        except ConnectionError:
            taken = b"reset"
        writer.close()
        await listener.stop()
        return taken

    last = asyncio.run(asyncio.wait_for(run(), 60))
    assert not last.endswith(b"0\r\n\r\n"), "an answer that was broken off says so"


GET = b"GET / HTTP/1.1\r\n\r\n"


@asynccontextmanager
async def listening(page_at: Callable[[Asked], Page]) -> AsyncIterator[HttpListener]:
    listener = HttpListener("127.0.0.1", 0, KnownHosts(()), page_at)
    # Accepted sockets inherit it: the kernel does not take a short answer whole.
    listener._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    await listener.start()
    try:
        yield listener
    finally:
        await listener.stop()


async def answer_of(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


def test_an_answer_comes_whole_and_in_pieces() -> None:
    async def play() -> bytes:
        async with listening(lambda asked: Page(200, ["z" * 100_000, "", "y"])) as listener:
            return await answer_of(listener.port, GET)

    head, _, body = asyncio.run(play()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert (body.count(b"z"), body.count(b"y"), body[-5:]) == (100_000, 1, b"0\r\n\r\n")


def test_who_does_not_take_the_end_of_an_answer_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such connections would stay for ever, and nobody counts them."""
    monkeypatch.setattr(http_listener, "ANSWER_SECONDS_MAX", 0.2)

    async def play() -> int:
        loop, asked = asyncio.get_running_loop(), asyncio.Event()

        def page_at(_: Asked) -> Page:
            asked.set()
            return Page(200, ["z" * 60_000])

        async with listening(page_at) as listener:
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            with client:
                await loop.sock_connect(client, ("127.0.0.1", listener.port))
                await loop.sock_sendall(client, GET)
                await asked.wait()
                while listener._tasks:
                    await asyncio.sleep(0.01)
                return await _taken(client)

    assert asyncio.run(play()) < 60_000


async def _taken(client: socket.socket) -> int:
    loop, taken = asyncio.get_running_loop(), 0
    try:
        while piece := await loop.sock_recv(client, 65_536):
            taken += len(piece)
    except ConnectionResetError:
        pass
    return taken


def test_many_that_ask_get_one_turn_together() -> None:
    made: Counter[int] = Counter()
    turns = 0

    def pieces() -> Iterator[str]:
        for _ in range(20):
            ends = time.perf_counter() + 0.0015
            while time.perf_counter() < ends:
                pass
            made[turns] += 1
            yield "z"

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def play() -> None:
        counting = asyncio.ensure_future(count_turns())
        async with listening(lambda asked: Page(200, pieces())) as listener:
            asking = [answer_of(listener.port, GET) for _ in range(http_listener.PAGES_MAX)]
            answers = await asyncio.gather(*asking)
        counting.cancel()
        assert all(answer.count(b"z") == 20 for answer in answers)

    asyncio.run(play())
    assert max(made.values()) <= 3


def test_a_length_of_thousands_of_digits_is_too_long() -> None:
    async def play() -> bytes:
        async with listening(lambda asked: Page(200, ["never"])) as listener:
            request = b"POST /jolokia HTTP/1.1\r\nContent-Length: %b\r\n\r\n" % (b"9" * 5_000)
            return await answer_of(listener.port, request)

    assert asyncio.run(play()).startswith(b"HTTP/1.1 413")
