"""A small HTTP server on the broker's own loop, for answers that are only read: metrics, health.

Everything a client can use up has a bound: connections, the length of its request, the time for the
request and for taking the answer. An answer is made piece by piece, for a few milliseconds in each
turn of the loop, whether one client asks or many. Each connection gets one answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
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
"""How long pieces are made in one turn of the loop, for all connections together."""
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
        self._making = asyncio.Lock()

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
        # What is written has left when `drain` returns: nothing stays behind with a client that
        # does not take it.
        writer.transport.set_write_buffer_limits(0)
        try:
            await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) > CONNECTIONS_MAX:
            await self._send(writer, Page(503, ["too many connections\n"]))
            return
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            await self._send(writer, Page(431, ["the request is too long\n"]))
            return
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        is_small = len(words) > 1 and words[1].startswith(ALWAYS)
        if not is_small and self._pages >= PAGES_MAX:
            await self._send(writer, Page(503, ["too many pages are asked for\n"]))
            return
        self._pages += not is_small
        try:
            page = await self._page(words, head, reader)
            await self._send(writer, page, is_head=words[0] == "HEAD")
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

    async def _send(
        self, writer: asyncio.StreamWriter, page: Page, *, is_head: bool = False
    ) -> None:
        """In chunks: a client can tell an answer that was broken off from a whole one."""
        writer.write(
            f"HTTP/1.1 {page.status} {REASONS[page.status]}\r\n"
            f"Content-Type: {page.content_type}\r\n"
            "Transfer-Encoding: chunked\r\nCache-Control: no-store\r\n"
            "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n".encode()
        )
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            if not is_head:
                await self._send_pieces(writer, iter(page.pieces))
            await writer.drain()

    async def _send_pieces(self, writer: asyncio.StreamWriter, pieces: Iterator[str]) -> None:
        is_over = False
        while not is_over:
            async with self._making:
                text, is_over = _made(pieces)
                # Until the next turn of the loop nobody else makes pieces either.
                await asyncio.sleep(0)
            if text:
                data = text.encode()
                writer.write(b"%x\r\n%b\r\n" % (len(data), data))
                await writer.drain()
        writer.write(b"0\r\n\r\n")


def _content_length(head: bytes) -> int | None:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        digits = value.strip()
        if name.strip().lower() == b"content-length" and digits.isdigit():
            # Python refuses to read a number of thousands of digits.
            return int(digits) if len(digits) < 10 else BODY_BYTES_MAX + 1
    return None


def _made(pieces: Iterator[str]) -> tuple[str, bool]:
    """The next pieces, and whether they were the last."""
    made: list[str] = []
    size, ends = 0, time.perf_counter() + TURN_SECONDS
    for piece in pieces:
        made.append(piece)
        size += len(piece)
        if size >= CHUNK_BYTES or time.perf_counter() >= ends:
            return "".join(made), False
    return "".join(made), True
