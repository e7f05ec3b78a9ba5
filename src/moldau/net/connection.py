"""One client's connection: frames in, answers out in the order of their requests.

This is the hot path. One readable event takes whatever the kernel has, starts every request that
is there in full and sends all answers with one call; those that take time keep their order
(`net/answer_sending.py`).

A connection reads only while it can start, or has room to keep, what it reads: a client that
does not take its answers slows down itself alone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from moldau.net.answer_sending import UNSENT_BYTES_MAX, AnswerOrder
from moldau.net.answers import Answer, Disconnect
from moldau.net.login import Login, log_failure
from moldau.net.loop_time import LoopTime
from moldau.net.received_bytes import READ_BYTES, ReceivedBytes
from moldau.net.request_times import NOTHING, SMALL_BYTES, Head
from moldau.net.transport import HandshakeFault, Transport, bytes_moved, host_of
from moldau.security.naming.principal import ANONYMOUS, Principal
from moldau.wire.request_framing import Chunk

if TYPE_CHECKING:
    from moldau.net.acceptor import Acceptor
    from moldau.net.server import Server

REQUESTS_PER_TURN = 128
PREFIX_BYTES = 4
HEAD_BYTES = 8

_size_at = struct.Struct(">i").unpack_from
_head = struct.Struct(">iI").unpack_from


def _short(view: memoryview, position: int) -> Head:
    """Of a frame of which hardly more than the size is here."""
    return _size_at(view, position)[0], 0


Begin = Callable[["Connection", memoryview], "list[Chunk] | Answer"]


class Connection(AnswerOrder):
    __slots__ = (
        "_has_left",
        "_inbox",
        "_is_reading",
        "_login",
        "_receive",
        "_request_bytes_max",
        "_reserved_bytes",
        "acceptor",
        "begin",
        "client_host",
        "client_port",
        "client_software",
        "is_follower",
        "listener",
        "memory",
        "number",
        "principal",
        "read_ns",
    )

    def __init__(
        self, transport: Transport, peer: tuple[Any, ...], acceptor: Acceptor, server: Server
    ) -> None:
        super().__init__(transport, server)
        self._receive = transport.receive_into
        self.begin: Begin = server.times.begin
        self._request_bytes_max = server.settings.request_bytes_max
        self._inbox = ReceivedBytes()
        self._reserved_bytes = 0
        self._is_reading = False
        self._has_left = False
        self.acceptor = acceptor
        self.listener = acceptor.listener
        self.client_host = host_of(peer)
        self.client_port = int(peer[1])
        self.number = server.connections_accepted
        self.principal = ANONYMOUS
        self.client_software = ("", "")
        """Name and version, as the client's library has told them."""
        self.memory: dict[int, Any] = {}
        """For whoever answers the requests: what it wants to remember about this client."""
        self.is_follower = False
        """Whether another broker replicates by it."""
        self.read_ns = 0
        """When what is worked on now was read; or taken up, if it had to stay for a while."""
        self._login: Login | None = None
        authenticator = acceptor.entrance.authenticator(transport)
        if authenticator is not None:
            self._ask_for_login(Login(authenticator, server))
        self._read(True)

    def __str__(self) -> str:
        return f"{self.client_host}:{self.client_port}-{self.number} listener={self.listener.name}"

    def fileno(self) -> int:
        return self._transport.fileno()

    @property
    def is_known(self) -> bool:
        """Whether the client has said who it is, or need not."""
        return self._login is None

    @property
    def has_backlog(self) -> bool:
        """Whether something has come that waits for the answer to what came before."""
        return bool(self._waiting) and self._inbox.end > 0

    @property
    def buffer_bytes(self) -> int:
        return self._inbox.capacity_bytes

    # Who it is

    def _ask_for_login(self, login: Login) -> None:
        self._login = login
        self.begin = login.begin
        self._request_bytes_max = min(self._request_bytes_max, login.frame_bytes_max)
        self._server.logins.add(self, login)

    def become(self, principal: Principal) -> None:
        """From now on the requests are this one's; nothing that was remembered holds any more."""
        if principal != self.principal:
            self.principal = principal
            self.memory.clear()
            if self.loop_time is not None:
                self.loop_time.paid_by(None)

    def let_in(self, principal: Principal, begin: Begin | None) -> None:
        """The client is known: its requests are served, by way of `begin` if there is one."""
        self.become(principal)
        self._login = None
        self._request_bytes_max = self._server.settings.request_bytes_max
        self.begin = begin or self._server.times.begin

    def turn_away(self, reason: str) -> None:
        """The client is not who it should be, or cannot say so; it hears of it late."""
        log_failure(self, reason)
        self._server.logins.forget(self)
        self._end_when_sent()
        self._cancel_waiting()
        self._server.loop.call_later(self._server.settings.failed_login_delay_ms / 1000, self.close)

    # Requests

    def _readable(self) -> None:
        inbox = self._inbox
        while True:
            room = inbox.room()
            try:
                count = self._receive(room)
            except (BlockingIOError, InterruptedError):
                self._stalled()
                return
            except OSError as fault:
                self._broken(fault)
                return
            if not count:
                self._client_ended()
                return
            self.tick_seen = self._server.tick
            self.read_ns = self._server.times.now_ns()
            if self._login is not None:
                self._stalled()
                if self._ends_when_sent:
                    return
            inbox.end += count
            self._serve()
            # Only a read that filled its room can have left more of a long frame behind.
            if count < len(room) or not self._is_reading:
                return
            inbox.widen()
            if not inbox.rest_of_frame:
                self._look_inside()
                return

    def _look_inside(self) -> None:
        """The descriptor tells of bytes that the kernel has, not of those a transport holds."""
        if self._transport.has_pending:
            self._server.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if self._is_reading and self._transport.has_pending:
            self._in_turn(self._readable)

    def _stalled(self) -> None:
        """Only a transport that has to agree with the other side first has anything to do here."""
        transport = self._transport
        if transport.wants_to_write:
            self._write(True)
        if self._login is not None and transport.is_ready:
            self._login.greet(self)

    def _serve(self) -> None:
        """Start every request that is here in full and may start now, then send the answers."""
        inbox, waiting, out_bytes = self._inbox, self._waiting, 0
        out: list[Any] = []
        view, end, position, turns_left = inbox.view, inbox.end, 0, REQUESTS_PER_TURN
        frame_bytes, times, counted, alike = PREFIX_BYTES, self._server.times, NOTHING, 0
        try:
            while (left := end - position) >= PREFIX_BYTES:
                head = _head(view, position) if left >= HEAD_BYTES else _short(view, position)
                frame_bytes = PREFIX_BYTES + (size := head[0])
                if not 0 <= size <= self._request_bytes_max:
                    raise Disconnect(self._size_fault(size))
                if frame_bytes > left or not turns_left:
                    break
                if waiting and not self._may_overlap(view, position + PREFIX_BYTES, size):
                    break
                if out_bytes + self._outgoing.bytes_unsent > UNSENT_BYTES_MAX:
                    out_bytes = self._send_all(out)
                    if self._outgoing.bytes_unsent > UNSENT_BYTES_MAX:
                        break
                turns_left -= 1
                is_plain = (begin := self.begin) is times.plain
                answer = begin(self, view[position + PREFIX_BYTES : position + frame_bytes])
                position += frame_bytes
                if self._reserved_bytes and frame_bytes > READ_BYTES:
                    self._hand_over_reserved(answer)
                if answer.__class__ is list and len(answer) == 1 and not waiting:
                    out += answer
                    out_bytes += (answer_bytes := len(answer[0]))
                    if is_plain and answer_bytes < SMALL_BYTES:
                        if head != counted:
                            counted, alike = head, times.note_alike(self, counted, alike)
                        alike += 1
                        continue
                if is_plain:
                    times.note(self, head, answer)
                if isinstance(answer, Answer):
                    self._wait_for(answer, view, position - size, size)
                    inbox.give_up(position)
                    view, end, position = inbox.view, inbox.end, 0
                elif waiting:
                    self._wait_for(Answer(answer), view, position - size, size)
                elif len(answer) > 1:
                    out += answer
                    out_bytes = self._send_all(out)
        except Disconnect as fault:
            self._refuse(out, str(fault), counted, alike)
            return
        times.note_alike(self, counted, alike)
        self._served(out, out_bytes, position, end - position, frame_bytes, turns_left > 0)

    def _served(
        self,
        out: list[Any],
        out_bytes: int,
        position: int,
        left: int,
        frame_bytes: int,
        has_turns: bool,
    ) -> None:
        """Send the answers; from `position` on so many bytes are left."""
        if out:
            self._send_joined(out, out_bytes)
        if self.timed and not self._outgoing.bytes_unsent:
            self._server.times.sent(self.timed)
        if not left and self._is_reading and not self._inbox.rest_of_frame:
            self._inbox.end = 0
        elif not self.is_closed:
            self._keep(position, frame_bytes, has_turns=has_turns)

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
            self.read_ns = self._server.times.now_ns()
            self._in_turn(self._serve)
        if self._has_left:
            self._leave()

    def _sent_some(self) -> None:
        bytes_unsent = self._outgoing.bytes_unsent
        if self._ends_when_sent and not bytes_unsent and not self._waiting:
            self.close()
        elif self._has_left:
            self.go_on()
        elif bytes_unsent <= UNSENT_BYTES_MAX and not self._is_reading:
            self.read_ns = self._server.times.now_ns()
            self._serve()

    # The descriptor's events; the loop is told only of changes

    @property
    def _reader(self) -> Callable[[], None]:
        loop_time = self.loop_time
        return self._readable if loop_time is None else partial(loop_time.turn, self._readable)

    def take_loop_time(self, loop_time: LoopTime | None) -> None:
        """Somebody has a quota of it now, or nobody has any more."""
        if (self.loop_time is None) != (loop_time is None):
            self.loop_time = loop_time
            if self._is_reading:
                self._server.loop.add_reader(self._transport.fileno(), self._reader)

    def _read(self, wanted: bool) -> None:
        if wanted and not self._is_reading and not (self._ends_when_sent or self._has_left):
            self._server.loop.add_reader(self._transport.fileno(), self._reader)
            self._is_reading = True
            self._look_inside()
        elif not wanted and self._is_reading:
            self._server.loop.remove_reader(self._transport.fileno())
            self._is_reading = False

    # The end

    def _client_ended(self) -> None:
        """The client sends no more; it may still want the answers that are on their way."""
        self._has_left = True
        self._read(False)
        self._leave()

    def _leave(self) -> None:
        """What the client sent before it left is done, as in Apache Kafka: with acks=0 nobody waits
        for an answer. What only waits for something is let go."""
        self._let_go_waiting()
        if self.is_closed or self._waiting or self._outgoing.bytes_unsent:
            return
        if self._inbox.holds_frame:
            self._server.loop.call_soon(self.go_on)
        else:
            self.close()

    def _size_fault(self, size: int) -> str:
        return f"request size {size} is not within 0..{self._request_bytes_max}"

    def _refuse(self, out: list[Chunk], reason: str, counted: Head, alike: int) -> None:
        self._server.times.note_alike(self, counted, alike)
        self._send_all(out)
        self.refuse(reason)

    def refuse(self, reason: str) -> None:
        """End the connection because of what the client did."""
        if self.is_closed:
            return
        if self._login is not None:
            self.turn_away(reason)
            return
        self._server.refused(self, reason)
        self.close()

    def _broken(self, fault: OSError) -> None:
        if isinstance(fault, HandshakeFault):
            self.turn_away(str(fault.strerror))
            return
        if not self._has_left:
            self._server.broke(self, fault)
        self._outgoing.drop()
        self._client_ended()

    def _end_when_sent(self) -> None:
        self._ends_when_sent = True
        self._read(False)
        self._inbox.end = 0

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
        self._inbox.let_go()
        self._server.logins.forget(self)
        self.acceptor.cells.leave(bytes_moved(self._transport.fileno()))
        self._transport.close()
        self._server.forget(self)
