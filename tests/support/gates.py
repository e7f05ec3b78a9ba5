"""Ports in front of real servers that can be shut, as if a cable were pulled.

Nothing passes a shut gate in either direction, and nobody is told: connections stay open and what
was on its way arrives once the gate opens again; or they are broken, and it is lost. Who calls is
known from the client id in the first request, so that the way of one broker to another can be shut
on its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Callable

from moldau.testing.own_loop import OwnLoop

HOST = "127.0.0.1"
CHUNK_BYTES = 256 * 1024
CLIENT_ID_AT = 4 + 2 + 2 + 4
"""Behind the size, key, version and correlation id of a Kafka request."""

IsShut = Callable[[str], bool]
"""By the client id of whoever called; empty where the protocol is not Kafka's."""


class Gates:
    """All gates of a test, served by one thread; `look` tells them that a rule has changed."""

    def __init__(self) -> None:
        self._own = OwnLoop("moldau-test-gates")
        self._changed = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._links: set[asyncio.Task[None]] = set()
        self._shut: dict[asyncio.Task[None] | None, Callable[[], bool]] = {}
        """Whether the gate of a link is shut for its caller."""

    def open(self, target_port: int, is_shut: IsShut) -> int:
        """The port of a new gate in front of that one."""

        async def listen() -> int:
            def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                link = asyncio.ensure_future(self._link(reader, writer, target_port, is_shut))
                self._links.add(link)
                link.add_done_callback(self._links.discard)

            server = await asyncio.start_server(accepted, HOST, 0)
            self._servers.append(server)
            port: int = server.sockets[0].getsockname()[1]
            return port

        return self._own.run(listen())

    def look(self) -> None:
        def turn() -> None:
            before, self._changed = self._changed, asyncio.Event()
            before.set()

        self._own.post(turn)

    def break_shut(self) -> None:
        """Break every connection that a shut gate holds up: what is on its way never arrives, and
        both ends are told."""

        async def turn() -> None:
            for link, is_shut in list(self._shut.items()):
                if link is not None and is_shut():
                    link.cancel()

        self._own.run(turn())

    def close(self) -> None:
        async def end() -> None:
            for server in self._servers:
                server.close()
            for link in self._links:
                link.cancel()
            if self._links:
                await asyncio.wait(self._links)

        self._own.run(end())
        self._own.close()

    async def _link(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        target_port: int,
        is_shut: IsShut,
    ) -> None:
        far_writer: asyncio.StreamWriter | None = None
        try:
            first = await reader.read(CHUNK_BYTES)
            caller = _client_id(first)
            self._shut[asyncio.current_task()] = lambda: is_shut(caller)
            await self._until_open(is_shut, caller)
            far_reader, far_writer = await asyncio.open_connection(HOST, target_port)
            far_writer.write(first)
            ways = [
                asyncio.ensure_future(self._pump(reader, far_writer, is_shut, caller)),
                asyncio.ensure_future(self._pump(far_reader, writer, is_shut, caller)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass  # a server that is down refuses
        finally:
            self._shut.pop(asyncio.current_task(), None)
            writer.transport.abort()
            if far_writer is not None:
                far_writer.transport.abort()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        is_shut: IsShut,
        caller: str,
    ) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                await self._until_open(is_shut, caller)
                writer.write(chunk)
                await writer.drain()
            # Not even the end of a connection is heard through a shut gate.
            await self._until_open(is_shut, caller)

    async def _until_open(self, is_shut: IsShut, caller: str) -> None:
        while is_shut(caller):
            await self._changed.wait()


def _client_id(first: bytes) -> str:
    if len(first) < CLIENT_ID_AT + 2:
        return ""
    (size,) = struct.unpack_from(">h", first, CLIENT_ID_AT)
    text = first[CLIENT_ID_AT + 2 : CLIENT_ID_AT + 2 + max(size, 0)]
    return text.decode(errors="replace")
