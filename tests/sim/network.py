"""A network in memory: byte streams between named hosts, with delays, cuts and resets.

Both ends are the program's own: `Peers` connects through the loop, `Server` takes what looks like
a socket, so every request passes its encoder and its decoder. A stream keeps its order, streams
overtake one another. While two hosts are cut off from each other their bytes wait, as TCP would
send them again; what a killed process has open is reset.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from moldau.metrics.listener_cells import ListenerCells
from moldau.model.file_regions import OpenFile
from moldau.net.acceptor import Listener
from moldau.net.entrance import OPEN_ENTRANCE, Entrance
from moldau.net.server import Server
from moldau.net.transport import COPY_BYTES
from tests.sim.world import SimLoop, World

END = None
CONNECT_RETRY_SECONDS = 0.2
PORT = 9092


class Network:
    def __init__(self, world: World) -> None:
        self.world = world
        self.servers: dict[str, SimServer] = {}
        self.delay_us = (50, 2_000)
        self._cut: set[frozenset[str]] = set()
        self._streams: list[Stream] = []
        self._count = 0

    def attach(self, loop: SimLoop) -> None:
        loop.connect = self.connect

    # What happens to it

    def is_cut(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self._cut

    def cut(self, one: str, other: str) -> None:
        self._cut.add(frozenset((one, other)))

    def heal(self, pairs: Iterable[tuple[str, str]] | None = None) -> None:
        if pairs is None:
            self._cut.clear()
        else:
            self._cut -= {frozenset(pair) for pair in pairs}
        for stream in self._streams:
            stream.go_on()

    def reset(self, one: str, other: str) -> None:
        """Every connection between the two breaks, on both sides."""
        for stream in list(self._streams):
            if {stream.source, stream.target} == {one, other}:
                stream.break_off()

    def lose(self, loop: SimLoop, *, silently: bool) -> None:
        """A process is gone: the others hear of it at once, or only when its host is back."""
        for stream in list(self._streams):
            if stream.sender is loop:
                if silently:
                    stream.is_silent = True
                else:
                    stream.put(END)
            if stream.receiver is loop:
                self.forget(stream)
        if self.servers.get(loop.name) is not None and self.servers[loop.name].loop is loop:
            del self.servers[loop.name]

    def speak_again(self, name: str) -> None:
        """The host is back and knows none of its old connections."""
        for stream in self._streams:
            if stream.is_silent and stream.source == name:
                stream.is_silent = False
                stream.put(END)

    def forget(self, stream: Stream) -> None:
        if stream in self._streams:
            self._streams.remove(stream)

    # Connecting

    async def connect(
        self, loop: SimLoop, new_protocol: Callable[[], Any], host: str, port: int
    ) -> tuple[Any, Any]:
        self._count += 1
        number = self._count
        chance = self.world.chance(f"{loop.name}>{host}/{number}")
        await asyncio.sleep(chance.randint(*self.delay_us) / 1_000_000)
        while self.is_cut(loop.name, host):
            await asyncio.sleep(CONNECT_RETRY_SECONDS)
        server = self.servers.get(host)
        if server is None:
            raise ConnectionRefusedError(f"nobody listens at {host}:{port}")
        target = server.loop
        assert isinstance(target, SimLoop)
        there = Stream(self, loop, target, chance)
        back = Stream(self, target, loop, chance)
        self._streams += [there, back]
        socket = SimSocket(number, target, there, back)
        protocol = new_protocol()
        transport = SimTransport(loop, protocol, there, back)
        there.deliver, back.deliver = socket.take, transport.take
        target.call_soon(server.welcome, socket, loop.name)
        protocol.connection_made(transport)
        return transport, protocol


class Stream:
    """Bytes on their way from one process to another."""

    def __init__(
        self, network: Network, sender: SimLoop, receiver: SimLoop, chance: random.Random
    ) -> None:
        self.sender = sender
        self.receiver = receiver
        self.source = sender.name
        self.target = receiver.name
        self.deliver: Callable[[bytes | None], None] = lambda piece: None
        self.is_silent = False
        self._network = network
        self._chance = chance
        self._pieces: deque[bytes | None] = deque()
        self._is_moving = False
        self._is_over = False

    def put(self, piece: bytes | None) -> None:
        if self._is_over or self.is_silent:
            return
        self._is_over = piece is END
        self._pieces.append(piece)
        self._move()

    def go_on(self) -> None:
        if self._pieces:
            self._move()

    def break_off(self) -> None:
        """Nothing of what is under way arrives."""
        self._pieces.clear()
        self._is_over = False
        self.put(END)

    def _move(self) -> None:
        if not self._is_moving:
            self._is_moving = True
            delay_us = self._chance.randint(*self._network.delay_us)
            self._network.world.after(delay_us, self._arrive)

    def _arrive(self) -> None:
        self._is_moving = False
        if not self._pieces or self._network.is_cut(self.source, self.target):
            return
        pieces, self._pieces = self._pieces, deque()
        for piece in pieces:
            if not self.receiver.is_ended:
                self.receiver.call_soon(self.deliver, piece)
            if piece is END:
                self._network.forget(self)


class SimTransport(asyncio.Transport):
    """The caller's end."""

    def __init__(self, loop: SimLoop, protocol: Any, out: Stream, back: Stream) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._out = out
        self._back = back
        self._is_closed = False

    def write(self, data: Any) -> None:
        if not self._is_closed:
            self._out.put(bytes(data))

    def writelines(self, pieces: Iterable[Any]) -> None:
        self.write(b"".join(pieces))

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._out.put(END)
            self._loop.call_soon(self._protocol.connection_lost, None)

    def take(self, piece: bytes | None) -> None:
        if self._is_closed:
            return
        if piece is END:
            self.abort()
            return
        rest = memoryview(piece)
        while rest and not self._is_closed:
            room = self._protocol.get_buffer(len(rest))
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            self._protocol.buffer_updated(count)
            rest = rest[count:]


class SimSocket:
    """The server's end: the transport beneath a connection."""

    is_ready = True
    has_pending = False
    wants_to_write = False
    encryption = None

    def __init__(self, number: int, loop: SimLoop, in_: Stream, out: Stream) -> None:
        self._number = number
        self._loop = loop
        self._out = out
        self._in = in_
        self._received = bytearray()
        self._has_ended = False
        self._reader: Callable[[], None] | None = None
        self._writer: Callable[[], None] | None = None
        loop.readers[number] = self

    def fileno(self) -> int:
        return self._number

    def receive_into(self, room: memoryview, /) -> int:
        if not self._received:
            if self._has_ended:
                return 0
            raise BlockingIOError
        count = min(len(room), len(self._received))
        room[:count] = self._received[:count]
        del self._received[:count]
        return count

    def send(self, data: Any, flags: int = 0, /) -> int:
        self._out.put(bytes(data))
        return len(data)

    def send_pieces(self, pieces: Iterable[Any], flags: int) -> int:
        return self.send(b"".join(pieces))

    def send_file(self, file: OpenFile, position: int, count: int) -> int:
        return self.send(os.pread(file.fileno(), min(count, COPY_BYTES), position))

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self._reader = self._writer = None
        self._out.put(END)
        self._loop.readers.pop(self._number, None)

    def take(self, piece: bytes | None) -> None:
        if piece is END:
            self._has_ended = True
        else:
            self._received += piece
        self._tell_reader()

    def watch_reads(self, callback: Callable[[], None] | None) -> None:
        self._reader = callback
        if self._received or self._has_ended:
            self._loop.call_soon(self._tell_reader)

    def watch_writes(self, callback: Callable[[], None] | None) -> None:
        self._writer = callback
        if callback is not None:
            self._loop.call_soon(self._tell_writer)

    def _tell_reader(self) -> None:
        if self._reader is not None and (self._received or self._has_ended):
            self._reader()
            if self._reader is not None and self._received:
                self._loop.call_soon(self._tell_reader)

    def _tell_writer(self) -> None:
        if self._writer is not None:
            self._writer()
            if self._writer is not None:
                self._loop.call_soon(self._tell_writer)


class _Door:
    """What a connection knows of the listener it came through."""

    entrance = OPEN_ENTRANCE

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.connection_count = 0
        self.cells = ListenerCells()


class SimServer(Server):
    """Lets in who comes over the network in memory; everything behind is the real thing."""

    network: Network

    def bind(self, listener: Listener, entrance: Entrance = OPEN_ENTRANCE) -> Listener:
        self._door = _Door(listener)
        return listener

    def start(self) -> None:
        assert isinstance(self.loop, SimLoop)
        self.network.servers[self.loop.name] = self
        self._plan_sweep()

    def stop(self) -> None:
        assert isinstance(self.loop, SimLoop)
        if self.network.servers.get(self.loop.name) is self:
            del self.network.servers[self.loop.name]
        super().stop()

    def welcome(self, socket: SimSocket, host: str) -> None:
        self.admit(socket, (host, PORT), self._door)  # type: ignore[arg-type]
