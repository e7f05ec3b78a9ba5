"""A way to ZooKeeper on which the answers can be mixed up: one of them carries another's number."""

from __future__ import annotations

import asyncio
import contextlib
import struct

NUMBER = struct.Struct(">i")


class MixedUpAnswers:
    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._links: set[asyncio.Task[None]] = set()
        self.mix_up_next = False
        self.port = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        for way in (self._requests(reader, far_writer), self._answers(far_reader, writer)):
            link = asyncio.ensure_future(way)
            self._links.add(link)
            link.add_done_callback(self._links.discard)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(65536):
                writer.write(chunk)
        writer.close()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Frame by frame: the first of a connection is its greeting, the others begin with the
        number of their request; watches and pings have one below zero."""
        is_greeting = True
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                size = await reader.readexactly(NUMBER.size)
                frame = await reader.readexactly(NUMBER.unpack(size)[0])
                (number,) = NUMBER.unpack_from(frame)
                if self.mix_up_next and not is_greeting and number > 0:
                    self.mix_up_next = False
                    frame = NUMBER.pack(number + 1) + frame[NUMBER.size :]
                is_greeting = False
                writer.write(size + frame)
        writer.close()
