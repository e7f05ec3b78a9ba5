"""A TCP proxy in front of a broker that understands Kafka's frames, so that faults can be aimed.

Every connection of a client is one connection to the broker. Requests are noted on their way in,
because an answer can only be recognized by the request that it answers. Bytes that are no frames
go through as they are. While the broker is down the port stays reserved and refuses connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque

from moldau.testing.network_faults import Exchange, Fault, Kind
from moldau.testing.own_loop import OwnLoop
from moldau.wire.primitives import DecodeError
from moldau.wire.request_framing import (
    decode_response,
    encode_response,
    read_correlation_id,
    read_request_header,
)
from moldau.wire.schema import Message

FRAME_BYTES_MAX = 256 * 1024 * 1024
"""A larger size means that this is no frame: a TLS handshake, a line of HTTP."""
STREAM_BYTES = 1024 * 1024
EXCHANGES_MAX = 10_000
"""Requests noted per connection; acks=0 has no answers, so some are never taken out."""
CLOSE_SECONDS_MAX = 1.0
BACKLOG = 100
HOST = "127.0.0.1"


class Proxy:
    """Made and closed by any thread; everything between happens on its own loop."""

    def __init__(self) -> None:
        self.faults: tuple[Fault, ...] = ()
        self._own = OwnLoop("moldau-test-proxy")
        self._listening: socket.socket | None = None
        self._target = (HOST, 0)
        self._links: set[_Link] = set()
        self._refusals: set[Fault] = set()
        self._is_open = False
        self.mishaps: list[BaseException] = []
        """What a test's own rewriting raised; told when the broker is closed."""
        # Bound and never listening: nobody else gets the port while connections are refused.
        self._reserved = _bound(0)
        self.port: int = self._reserved.getsockname()[1]

    def open(self, target_port: int) -> None:
        """Let clients through to the broker that listens there."""
        self._target = (HOST, target_port)
        self._is_open = True
        self._own.run(self._listen())

    def shut(self) -> None:
        """The broker is down: connections break, and new ones are refused."""
        self._is_open = False
        self._own.run(self._unlisten())
        self.drop(None)

    def close(self) -> None:
        self.shut()
        self._own.close()
        self._reserved.close()

    def add(self, fault: Fault) -> None:
        self.faults = (*self.faults, fault)

    def refuse(self, fault: Fault) -> None:
        self._refusals.add(fault)
        self.add(fault)
        self._own.run(self._unlisten())

    def ended(self, fault: Fault) -> None:
        self.faults = tuple(each for each in self.faults if each is not fault)
        self._own.post(fault.over.set)
        if fault in self._refusals:
            self._refusals.discard(fault)
            if self._is_open and not self._refusals:
                self._own.run(self._listen())

    def drop(self, client_id: str | None) -> int:
        async def cut() -> int:
            chosen = [
                link for link in self._links if client_id is None or link.client_id == client_id
            ]
            for link in chosen:
                self._links.discard(link)
                link.cut()
            return len(chosen)

        return self._own.run(cut())

    # On the loop

    async def _listen(self) -> None:
        """Accepts by itself: a server of asyncio that is closed while it accepts leaves the new
        connection open (an assertion of its own fails)."""
        if self._listening is None and not self._refusals:
            self._listening = _bound(self.port)
            self._listening.setblocking(False)
            self._listening.listen(BACKLOG)
            self._own.loop.add_reader(self._listening, self._accept, self._listening)

    async def _unlisten(self) -> None:
        if self._listening is not None:
            self._own.loop.remove_reader(self._listening)
            self._listening.close()
            self._listening = None

    def _accept(self, listening: socket.socket) -> None:
        try:
            client, _ = listening.accept()
        except OSError:
            return  # it has gone again
        client.setblocking(False)
        link = _Link(self, client)
        self._links.add(link)
        link.task = self._own.loop.create_task(link.run(*self._target))
        link.task.add_done_callback(lambda _: self._ended(link))

    def _ended(self, link: _Link) -> None:
        """Also a link that was cancelled before its first step, and could not clean up."""
        self._links.discard(link)
        link.let_go()


class _Link:
    """One client's connection and the one to the broker that belongs to it."""

    _from_client: asyncio.StreamReader
    _to_client: asyncio.StreamWriter

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        self.client_id: str | None = None
        self.task: asyncio.Task[None] | None = None
        self._proxy = proxy
        self._client = client
        self._transport: asyncio.WriteTransport | None = None
        self._exchanges: deque[Exchange] = deque(maxlen=EXCHANGES_MAX)

    def cut(self) -> None:
        """Break both sides at once, without the answers that are on their way."""
        if self._transport is not None:
            self._transport.abort()
        if self.task is not None:
            self.task.cancel()

    def let_go(self) -> None:
        """Of the client, when the task is over."""
        if self._transport is None:
            self._client.close()
        else:
            self._transport.abort()

    async def run(self, host: str, port: int) -> None:
        try:
            self._from_client, self._to_client = await asyncio.open_connection(
                sock=self._client, limit=STREAM_BYTES
            )
            self._transport = self._to_client.transport
            reader, writer = await asyncio.open_connection(host, port, limit=STREAM_BYTES)
        except (OSError, asyncio.CancelledError):
            return
        try:
            await self._pump(reader, writer)
            await asyncio.gather(_closed(writer), _closed(self._to_client))
        finally:
            # Whoever is cancelled in the middle of closing leaves no socket behind either.
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until one side ends, or the link is cut."""
        pumps = {
            asyncio.ensure_future(self._pump_requests(writer)),
            asyncio.ensure_future(self._pump_answers(reader)),
        }
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        ends = await asyncio.gather(*pumps, return_exceptions=True)
        self._proxy.mishaps += [end for end in ends if isinstance(end, Exception)]

    async def _pump_requests(self, to_broker: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _read_frame(self._from_client, to_broker)
                exchange = _exchange_of(frame)
                if exchange is not None:
                    self.client_id = exchange.client_id
                    for fault in self._proxy.faults:
                        if fault.kind is Kind.LOSE_REQUEST and fault.strikes(exchange):
                            self._to_client.transport.abort()
                            return
                    self._exchanges.append(exchange)
                to_broker.write(len(frame).to_bytes(4, "big") + frame)
                await to_broker.drain()

    async def _pump_answers(self, from_broker: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _read_frame(from_broker, self._to_client)
                exchange = self._answered(frame)
                if exchange is not None and self._proxy.faults:
                    changed = await self._befall(exchange, frame)
                    if changed is None:
                        self._to_client.transport.abort()
                        return
                    frame = changed
                self._to_client.write(len(frame).to_bytes(4, "big") + frame)
                await self._to_client.drain()

    def _answered(self, frame: bytes) -> Exchange | None:
        """The request that this answers. Those before it had no answer (acks=0)."""
        if len(frame) < 4:
            return None
        correlation_id = read_correlation_id(frame)
        while self._exchanges:
            exchange = self._exchanges.popleft()
            if exchange.correlation_id == correlation_id:
                return exchange
        return None

    async def _befall(self, exchange: Exchange, frame: bytes) -> bytes | None:
        """The answer after all faults, None if it is lost."""
        for fault in self._proxy.faults:
            if fault.kind is Kind.LOSE_REQUEST or not fault.strikes(exchange):
                continue
            if fault.kind is Kind.LOSE_ANSWER:
                return None
            if fault.kind is Kind.DELAY:
                await asyncio.sleep(fault.delay_ms / 1000)
            elif fault.kind is Kind.HOLD:
                await fault.over.wait()
            elif fault.rewrite is not None:
                frame = _rewritten(fault, exchange, frame)
        return frame


def _rewritten(fault: Fault, exchange: Exchange, frame: bytes) -> bytes:
    key, version, correlation_id, _ = exchange
    response = decode_response(key, version, frame)
    assert fault.rewrite is not None
    changed = fault.rewrite(response)
    answer: Message = response if changed is None else changed
    chunks = encode_response(key, version, correlation_id, answer)
    return b"".join(chunk for chunk in chunks if isinstance(chunk, bytes))[4:]


async def _read_frame(reader: asyncio.StreamReader, to: asyncio.StreamWriter) -> bytes:
    """The next frame. What is no frame goes straight on, until the stream ends."""
    head = await reader.readexactly(4)
    size = int.from_bytes(head, "big", signed=True)
    if 0 <= size <= FRAME_BYTES_MAX:
        return await reader.readexactly(size)
    to.write(head)
    while chunk := await reader.read(STREAM_BYTES):
        to.write(chunk)
        await to.drain()
    raise asyncio.IncompleteReadError(b"", None)


def _exchange_of(frame: bytes) -> Exchange | None:
    try:
        header = read_request_header(frame)
    except DecodeError:
        return None
    return Exchange(header.api_key, header.api_version, header.correlation_id, header.client_id)


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Closed after what was written has left, or at once if that takes too long."""
    writer.close()
    try:
        async with asyncio.timeout(CLOSE_SECONDS_MAX):
            await writer.wait_closed()
    except (OSError, asyncio.CancelledError):
        writer.transport.abort()


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind((HOST, port))
    return bound
