"""A small HTTP server on the broker's own loop, for answers that are only read: metrics, health.

Everything a client can use up has a bound: connections, the length of its request, the time for the
request and for taking the answer. An answer is made piece by piece, and after a few milliseconds of
that others are served first. Each connection gets one answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from moldau.broker.monitoring.known_hosts import KnownHosts
from moldau.net.acceptor import BindFault, Listener, bound_socket

log = logging.getLogger("kafka.network.SocketServer")

CONNECTIONS_MAX = 64
PAGES_MAX = 16
"""Made at a time. Who takes theirs slowly does not make the broker look dead: whether it lives is
answered in the places beyond."""
ALWAYS = "/health/"
REQUEST_BYTES_MAX = 8 * 1024
REQUEST_SECONDS_MAX = 5.0
ANSWER_SECONDS_MAX = 60.0
TURN_SECONDS = 0.002
"""How long pieces are made before others have their turn."""
CHUNK_BYTES = 64 * 1024
BODY_BYTES_MAX = 64 * 1024
POSTED = ("/jolokia", "/jolokia/")
"""Where a question may come as a body."""
REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    411: "Length Required",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class Asked(NamedTuple):
    path: str
    query: str = ""
    body: bytes | None = None
    """None of a GET."""


class Page(NamedTuple):
    status: int
    pieces: Iterable[str]
    """An empty one is a place to rest at."""
    content_type: str = "text/plain; charset=utf-8"


class HttpListener:
    def __init__(
        self, host: str, port: int, hosts: KnownHosts, page_at: Callable[[Asked], Page]
    ) -> None:
        """Takes the address. Raises BindFault."""
        listener = Listener("metrics.http.listener", host, port)
        try:
            self._socket = bound_socket(listener)
        except BindFault as fault:
            raise BindFault(f"metrics.http.listener={host}:{port} cannot be had: {fault}") from None
        self.port: int = self._socket.getsockname()[1]
        self._host = host
        self._hosts = hosts
        self._page_at = page_at
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._pages = 0

    async def start(self) -> None:
        """Raises BindFault if somebody else listens there by now."""
        try:
            self._server = await asyncio.start_server(
                self._accepted, sock=self._socket, limit=REQUEST_BYTES_MAX, backlog=CONNECTIONS_MAX
            )
        except OSError as fault:
            raise BindFault(
                f"metrics.http.listener cannot listen on {self._host}:{self.port}: {fault.strerror}"
            ) from None
        log.info("Metrics are served at http://%s:%d/metrics", self._host, self.port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        else:
            self._socket.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) > CONNECTIONS_MAX:
            await _send(writer, Page(503, ["too many connections\n"]), is_head=False)
            return
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            await _send(writer, Page(431, ["the request is too long\n"]), is_head=False)
            return
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        is_small = len(words) > 1 and words[1].startswith(ALWAYS)
        if not is_small and self._pages >= PAGES_MAX:
            await _send(writer, Page(503, ["too many pages are asked for\n"]), is_head=False)
            return
        self._pages += not is_small
        try:
            page = await self._page(words, head, reader)
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                await _send(writer, page, is_head=words[0] == "HEAD")
        finally:
            self._pages -= not is_small

    async def _page(self, words: list[str], head: bytes, reader: asyncio.StreamReader) -> Page:
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return Page(400, ["this is no request of HTTP/1\n"])
        method, target, _ = words
        path, _, query = target.partition("?")
        if method not in ("GET", "HEAD") and not (method == "POST" and path in POSTED):
            return Page(405, ["only GET and HEAD are served\n"])
        fault = self._hosts.fault(head)
        if fault is not None:
            return Page(403, [fault + "\n"])
        body = None
        if method == "POST":
            length = _content_length(head)
            if length is None:
                return Page(411, ["a POST needs a Content-Length\n"])
            if length > BODY_BYTES_MAX:
                return Page(413, [f"the body is longer than {BODY_BYTES_MAX} bytes\n"])
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                body = await reader.readexactly(length)
        return self._page_at(Asked(path, query, body))


def _content_length(head: bytes) -> int | None:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    return None


async def _send(writer: asyncio.StreamWriter, page: Page, *, is_head: bool) -> None:
    """In chunks: a client can tell an answer that was broken off from a whole one."""
    writer.write(
        f"HTTP/1.1 {page.status} {REASONS[page.status]}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        "Transfer-Encoding: chunked\r\nCache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n".encode()
    )
    if not is_head:
        await _send_pieces(writer, page.pieces)
    await writer.drain()


async def _send_pieces(writer: asyncio.StreamWriter, pieces: Iterable[str]) -> None:
    waiting: list[str] = []
    size, turn_ends = 0, time.perf_counter() + TURN_SECONDS
    for piece in pieces:
        if piece:
            waiting.append(piece)
            size += len(piece)
        is_over = time.perf_counter() >= turn_ends
        if size >= CHUNK_BYTES or (is_over and waiting):
            _write_chunk(writer, waiting)
            size = 0
            await writer.drain()
        if is_over:
            await asyncio.sleep(0)
            turn_ends = time.perf_counter() + TURN_SECONDS
    if waiting:
        _write_chunk(writer, waiting)
    writer.write(b"0\r\n\r\n")


def _write_chunk(writer: asyncio.StreamWriter, pieces: list[str]) -> None:
    data = "".join(pieces).encode()
    pieces.clear()
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))
