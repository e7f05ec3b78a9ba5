"""One client's connection: frames in, answers out in the order of their requests.

This is the hot path. One readable event takes whatever the kernel has, starts every request that
is there in full and sends all answers with one call. As in Apache Kafka a connection's next
request waits for the answer to the one before it; only the kinds that `may_overlap` (Produce,
whose append is done by the time it waits) follow one another unanswered.

A connection reads only while it can start, or has room to keep, what it reads: a client that
does not take its answers slows down itself alone.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from typing import TYPE_CHECKING, Any

from moldau.net.inbox import READ_BYTES, Inbox
from moldau.net.outgoing import Outgoing
from moldau.wire.framing import Chunk

if TYPE_CHECKING:
    from moldau.net.acceptor import Acceptor
    from moldau.net.server import Server

UNSENT_BYTES_MAX = 1024 * 1024
"""No further request of a connection is started while more than this is unsent."""
JOIN_BYTES_MAX = 64 * 1024
"""Answers are copied into one piece up to this; longer ones are gathered by the kernel."""
REQUESTS_PER_TURN = 128
WAITING_MAX = 64
"""Requests of one connection that may be unanswered at once."""
PREFIX_BYTES = 4

_size_at = struct.Struct(">i").unpack_from
_api_key_at = struct.Struct(">h").unpack_from


class Disconnect(Exception):
    """The client broke the protocol: the connection ends, and the log says why in one line."""


class Answer:
    """A request's place in the order of answers; `chunks` is None until it is answered."""

    __slots__ = ("chunks", "may_be_overtaken", "request_bytes")

    def __init__(self, chunks: list[Chunk] | None = None) -> None:
        self.chunks = chunks
        self.request_bytes = 0
        """What its request holds of `queued.max.request.bytes`."""
        self.may_be_overtaken = True
        """Not while its work is still being done: then the next request has to wait."""

    def cancel(self) -> None:
        """The connection is gone: whoever works on the answer may stop."""


def host_of(peer: tuple[Any, ...]) -> str:
    """An IPv4 client that came through an IPv6 socket is still known by its IPv4 address."""
    return str(peer[0]).removeprefix("::ffff:")


class Connection:
    __slots__ = (
        "_begin",
        "_ends_when_sent",
        "_inbox",
        "_is_reading",
        "_is_writing",
        "_outgoing",
        "_receive",
        "_request_bytes_max",
        "_reserved_bytes",
        "_server",
        "_socket",
        "_waiting",
        "_waits_alone",
        "acceptor",
        "client_host",
        "client_port",
        "is_closed",
        "listener",
        "memory",
        "number",
        "tick_seen",
    )

    def __init__(
        self, sock: socket.socket, peer: tuple[Any, ...], acceptor: Acceptor, server: Server
    ) -> None:
        self._socket = sock
        self._server = server
        self._receive = sock.recv_into
        self._begin = server.requests.begin
        self._request_bytes_max = server.settings.request_bytes_max
        self._inbox = Inbox()
        self._outgoing = Outgoing(sock)
        self._waiting: deque[Answer] = deque()
        self._waits_alone = False
        self._reserved_bytes = 0
        self._is_reading = False
        self._is_writing = False
        self._ends_when_sent = False
        self.acceptor = acceptor
        self.listener = acceptor.listener
        self.client_host = host_of(peer)
        self.client_port = int(peer[1])
        self.number = server.connections_accepted
        self.memory: dict[int, Any] = {}
        """For whoever answers the requests: what it wants to remember about this client."""
        self.is_closed = False
        self.tick_seen = server.tick
        self._read(True)

    def __str__(self) -> str:
        return f"{self.client_host}:{self.client_port}-{self.number} listener={self.listener.name}"

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is being worked on: then silence is not idleness."""
        return bool(self._waiting)

    @property
    def bytes_unsent(self) -> int:
        return self._outgoing.bytes_unsent

    @property
    def memory_unsent(self) -> int:
        return self._outgoing.memory_unsent

    @property
    def buffer_bytes(self) -> int:
        return self._inbox.capacity_bytes

    # Requests

    def _readable(self) -> None:
        inbox = self._inbox
        while True:
            room = inbox.room()
            try:
                count = self._receive(room)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as fault:
                self._broken(fault)
                return
            if not count:
                self._client_ended()
                return
            self.tick_seen = self._server.tick
            inbox.end += count
            self._serve()
            # Only a read that filled its room can have left more of a long frame behind.
            if count < len(room) or not self._is_reading:
                return
            inbox.widen()
            if not inbox.rest_of_frame:
                return

    def _serve(self) -> None:
        """Start every request that is here in full and may start now, then send the answers."""
        inbox, waiting, out_bytes = self._inbox, self._waiting, 0
        out: list[Any] = []
        view, end, position, turns_left = inbox.view, inbox.end, 0, REQUESTS_PER_TURN
        frame_bytes = PREFIX_BYTES
        while end - position >= PREFIX_BYTES:
            (size,) = _size_at(view, position)
            if not 0 <= size <= self._request_bytes_max:
                self._refuse(out, f"request size {size} is not within 0..{self._request_bytes_max}")
                return
            frame_bytes = PREFIX_BYTES + size
            if position + frame_bytes > end or not turns_left:
                break
            if waiting and not self._may_overlap(view, position + PREFIX_BYTES, size):
                break
            if out_bytes + self._outgoing.bytes_unsent > UNSENT_BYTES_MAX:
                out_bytes = self._send_all(out)
                if self._outgoing.bytes_unsent > UNSENT_BYTES_MAX:
                    break
            turns_left -= 1
            try:
                answer = self._begin(self, view[position + PREFIX_BYTES : position + frame_bytes])
            except Disconnect as reason:
                self._refuse(out, str(reason))
                return
            position += frame_bytes
            if self._reserved_bytes and frame_bytes > READ_BYTES:
                self._hand_over_reserved(answer)
            if isinstance(answer, Answer):
                self._wait_for(answer, view, position - size)
                inbox.give_up(position)
                view, end, position = inbox.view, inbox.end, 0
            elif waiting:
                self._wait_for(Answer(answer), view, position - size)
            elif len(answer) == 1:
                out += answer
                out_bytes += len(answer[0])
            elif answer:
                out += answer
                out_bytes = self._send_all(out)
        if out:
            self._send_joined(out, out_bytes)
        if position == end and self._is_reading and not inbox.rest_of_frame:
            inbox.end = 0
        elif not self.is_closed:
            self._keep(position, frame_bytes, has_turns=turns_left > 0)

    def _keep(self, position: int, frame_bytes: int, *, has_turns: bool) -> None:
        """What cannot start yet stays; read on only if there is room and the client reads too."""
        inbox = self._inbox
        inbox.drop(position)
        if inbox.end and frame_bytes > inbox.end:
            if not self._reserved_bytes and frame_bytes > READ_BYTES:
                if not self._server.request_memory.take(frame_bytes, self):
                    self._read(False)  # until others have been answered
                    return
                self._reserved_bytes = frame_bytes
            inbox.expect(frame_bytes)
        self._read(not inbox.is_full and self._outgoing.bytes_unsent <= UNSENT_BYTES_MAX)
        if not has_turns:
            self._server.loop.call_soon(self.go_on)

    def _hand_over_reserved(self, answer: list[Chunk] | Answer) -> None:
        """A long request has begun: what it holds is its own until it is answered."""
        if isinstance(answer, Answer):
            answer.request_bytes = self._reserved_bytes
        else:
            self._server.request_memory.give_back(self._reserved_bytes)
        self._reserved_bytes = 0

    def go_on(self) -> None:
        if not self.is_closed and self._inbox.end:
            self._serve()

    # Answers that take time

    def _may_overlap(self, view: memoryview, position: int, size: int) -> bool:
        if self._waits_alone or len(self._waiting) >= WAITING_MAX or size < 2:
            return False
        if not self._waiting[-1].may_be_overtaken:
            return False
        (api_key,) = _api_key_at(view, position)
        return self._server.may_overlap(api_key)

    def _wait_for(self, answer: Answer, view: memoryview, position: int) -> None:
        (api_key,) = _api_key_at(view, position)
        if self._waiting:
            self._server.overlapping += 1
        elif api_key not in self._server.overlapping_apis:
            self._waits_alone = True
        self._waiting.append(answer)

    def answered(self) -> None:
        """One of the awaited answers is here: send those whose turn it is, then go on."""
        if self.is_closed:
            return
        waiting = self._waiting
        out: list[Chunk] = []
        while waiting and (chunks := waiting[0].chunks) is not None:
            out += chunks
            self._server.request_memory.give_back(waiting.popleft().request_bytes)
            if waiting:
                self._server.overlapping -= 1
        if not waiting:
            self._waits_alone = False
        self._send_all(out)
        self.tick_seen = self._server.tick
        self.go_on()

    # Sending

    def _send_joined(self, out: list[Any], out_bytes: int) -> None:
        """The usual case: a few small answers and a client that takes them."""
        if self._outgoing.bytes_unsent or out_bytes > JOIN_BYTES_MAX:
            self._send_all(out)
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as fault:
            self._broken(fault)
            return
        if sent < out_bytes:
            self._outgoing.push((memoryview(data)[sent:],))
            self._write(True)

    def _send_all(self, out: list[Chunk]) -> int:
        """Send or queue the chunks; the list is empty and 0 bytes long then."""
        if self.is_closed:
            out.clear()
            return 0
        outgoing = self._outgoing
        outgoing.push(out)
        out.clear()
        if outgoing.bytes_unsent and not self._is_writing:
            try:
                outgoing.send()
            except OSError as fault:
                self._broken(fault)
                return 0
            if outgoing.bytes_unsent:
                self._write(True)
        if outgoing.bytes_unsent > UNSENT_BYTES_MAX:
            self._server.unsent.note(self)
        return 0

    def _writable(self) -> None:
        outgoing = self._outgoing
        try:
            sent = outgoing.send()
        except OSError as fault:
            self._broken(fault)
            return
        if sent:
            self.tick_seen = self._server.tick
        if not outgoing.bytes_unsent:
            self._write(False)
            if self._ends_when_sent:
                self.close()
                return
        if outgoing.bytes_unsent <= UNSENT_BYTES_MAX and not self._is_reading:
            self._serve()

    # The descriptor's events; the loop is told only of changes

    def _read(self, wanted: bool) -> None:
        if wanted and not self._is_reading and not self._ends_when_sent:
            self._server.loop.add_reader(self._socket.fileno(), self._readable)
            self._is_reading = True
        elif not wanted and self._is_reading:
            self._server.loop.remove_reader(self._socket.fileno())
            self._is_reading = False

    def _write(self, wanted: bool) -> None:
        if wanted and not self._is_writing and not self.is_closed:
            self._server.loop.add_writer(self._socket.fileno(), self._writable)
            self._is_writing = True
        elif not wanted and self._is_writing:
            self._server.loop.remove_writer(self._socket.fileno())
            self._is_writing = False

    # The end

    def _client_ended(self) -> None:
        """The client sends no more; it may still want the answers that are on their way."""
        self._cancel_waiting()
        self._inbox.end = 0
        if self._outgoing.bytes_unsent:
            self._ends_when_sent = True
            self._read(False)
        else:
            self.close()

    def _refuse(self, out: list[Chunk], reason: str) -> None:
        self._send_all(out)
        self.refuse(reason)

    def refuse(self, reason: str) -> None:
        """End the connection because of what the client did."""
        if not self.is_closed:
            self._server.refused(self, reason)
            self.close()

    def _broken(self, fault: OSError) -> None:
        self._server.broke(self, fault)
        self.close()

    def _cancel_waiting(self) -> None:
        waiting = self._waiting
        self._server.overlapping -= max(0, len(waiting) - 1)
        while waiting:
            answer = waiting.popleft()
            self._server.request_memory.give_back(answer.request_bytes)
            answer.cancel()

    def rest(self) -> None:
        """Nothing came since the last sweep: keep no more memory than needed."""
        self._inbox.shrink()

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._read(False)
        self._write(False)
        self._cancel_waiting()
        self._server.request_memory.leave(self, self._reserved_bytes)
        self._reserved_bytes = 0
        self._outgoing.drop()
        self._inbox.end = 0
        self._socket.close()
        self._server.forget(self)
