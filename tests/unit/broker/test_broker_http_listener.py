"""The small HTTP server: what a client can hold up, and what it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

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
