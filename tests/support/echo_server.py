"""A server with a few toy requests in place of Kafka's, for tests of the network layer alone.

A request is a kind (two bytes, where Kafka has the API key), two bytes where Kafka has the version,
and a body. The kinds below cover
every way a request can end: at once, later, never, with a file, with nothing, by disconnection.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import BinaryIO

from moldau.model.file_regions import FileRegion
from moldau.net.acceptor import Listener
from moldau.net.answers import Answer, Disconnect
from moldau.net.connection import Connection
from moldau.net.server import Server, SocketSettings
from moldau.wire.request_framing import Chunk

ECHO, LATER, LATER_OVERLAPPING, REFUSE, FILE, NOTHING, LONG = range(7)


def frame(kind: int, body: bytes = b"") -> bytes:
    return struct.pack(">ihh", len(body) + 4, kind, 0) + body


def answer_of(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Later(Answer):
    __slots__ = ("body", "connection", "is_cancelled", "view")

    def __init__(self, connection: Connection, view: memoryview) -> None:
        super().__init__()
        self.connection = connection
        self.view = view
        self.is_cancelled = False

    def release(self) -> None:
        self.chunks = [answer_of(bytes(self.view[4:]))]
        self.connection.answered()

    def cancel(self) -> None:
        self.is_cancelled = True


class EchoRequests:
    def __init__(self) -> None:
        self.later: list[Later] = []
        self.begun: list[bytes] = []
        self.file: BinaryIO | None = None

    def begin(self, connection: Connection, view: memoryview) -> list[Chunk] | Answer:
        if len(view) < 4:
            raise Disconnect("a request needs a kind")
        kind, body = struct.unpack_from(">h", view)[0], bytes(view[4:])
        self.begun.append(body)
        match kind:
            case 0:
                return [answer_of(body)]
            case 1 | 2:
                answer = Later(connection, view)
                self.later.append(answer)
                return answer
            case 3:
                raise Disconnect("asked for it")
            case 4:
                assert self.file is not None
                position, size_bytes = struct.unpack(">qi", body)
                region = FileRegion(self.file, position, size_bytes)
                return [struct.pack(">i", size_bytes + 4), region, b"tail"]
            case 5:
                return []
            case _:
                return [answer_of(bytes(int(body)))]


class EchoServer:
    """Use as `async with`; `requests` shows what arrived, `server` what is open."""

    def __init__(self, settings: SocketSettings | None = None) -> None:
        self.requests = EchoRequests()
        self.server = Server(
            asyncio.get_running_loop(),
            settings or SocketSettings(),
            self.requests,
            frozenset({LATER_OVERLAPPING}),
        )
        self.port = self.server.bind(Listener("PLAINTEXT", "127.0.0.1", 0)).port

    async def __aenter__(self) -> EchoServer:
        self.server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.stop()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def connection(self) -> Connection:
        """The only connection, once it was accepted."""
        await until(lambda: len(self.server.connections) == 1)
        return next(iter(self.server.connections))


async def until(is_true: Callable[[], bool]) -> None:
    """Give the loop its turns until the condition holds; a test that hangs is timed out."""
    while not is_true():
        await asyncio.sleep(0)


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def within_time() -> None:
        await asyncio.wait_for(scenario(), 20)

    asyncio.run(within_time())
