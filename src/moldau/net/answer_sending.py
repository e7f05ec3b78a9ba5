"""The sending half of a connection: answers go out with as few calls as can be.

The loop is told of the descriptor only while the client is slow. Where a piece was not taken, the
rest waits in order; what becomes of it is `net/send_queue.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from moldau.net.loop_time import LoopTime
from moldau.net.send_queue import SendQueue
from moldau.net.transport import Transport
from moldau.wire.request_framing import Chunk

if TYPE_CHECKING:
    from moldau.net.request_times import TimedRequest
    from moldau.net.server import Server

UNSENT_BYTES_MAX = 1024 * 1024
"""No further request of a connection is started while more than this is unsent."""
JOIN_BYTES_MAX = 64 * 1024
"""Answers are copied into one piece up to this; longer ones are gathered by the kernel."""


class AnswerSender:
    __slots__ = (
        "_is_writing",
        "_outgoing",
        "_server",
        "_transport",
        "is_closed",
        "is_never_held",
        "loop_time",
        "tick_seen",
        "timed",
    )

    def __init__(self, transport: Transport, server: Server) -> None:
        self._transport = transport
        self._server = server
        self._outgoing = SendQueue(transport)
        self._is_writing = False
        self.is_closed = False
        self.is_never_held = False
        """Whether answers leave while all others are held back: its client ends the hold."""
        self.loop_time = LoopTime() if server.takes_loop_time else None
        self.tick_seen = server.tick
        self.timed: list[TimedRequest] = []
        """Requests that are answered and not sent yet."""

    @property
    def encryption(self) -> tuple[str, str] | None:
        """Cipher and protocol; None if there is no encryption, or none yet."""
        return self._transport.encryption

    @property
    def bytes_unsent(self) -> int:
        return self._outgoing.bytes_unsent

    @property
    def memory_unsent(self) -> int:
        return self._outgoing.memory_unsent

    def _send_joined(self, out: list[Any], out_bytes: int) -> None:
        """The usual case: a few small answers and a client that takes them."""
        hold = self._server.hold
        if self._outgoing.bytes_unsent or out_bytes > JOIN_BYTES_MAX or hold.is_on:
            self._send_all(out)
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        try:
            sent = self._transport.send(data)
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
        if self._server.hold.is_on and not self.is_never_held:
            self._server.hold.keep(self)
        elif outgoing.bytes_unsent and not self._is_writing:
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

    def let_out(self) -> None:
        """Nothing is held back any more."""
        if self._outgoing.bytes_unsent:
            self._write(True)

    def _writable(self) -> None:
        outgoing = self._outgoing
        if self._server.hold.is_on and not self.is_never_held:
            self._write(False)
            self._server.hold.keep(self)
            return
        try:
            self._transport.flush()
            sent = outgoing.send()
        except BlockingIOError:
            return
        except OSError as fault:
            self._broken(fault)
            return
        if sent:
            self.tick_seen = self._server.tick
        if not outgoing.bytes_unsent:
            self._write(False)
            if self.timed:
                self._note_sent()
        self._sent_some()

    def _in_turn(self, work: Callable[[], None]) -> None:
        """The time that the loop spends on it is the client's, if somebody has a quota of that."""
        if self.loop_time is None:
            work()
        else:
            self.loop_time.turn(work)

    # What the other half does

    def refuse(self, reason: str) -> None:
        raise NotImplementedError

    def _sent_some(self) -> None:
        raise NotImplementedError

    def _broken(self, fault: OSError) -> None:
        raise NotImplementedError

    # Bookkeeping

    def _write(self, wanted: bool) -> None:
        if wanted and not self._is_writing and not self.is_closed:
            send = partial(self._in_turn, self._writable)
            self._server.loop.add_writer(self._transport.fileno(), send)
            self._is_writing = True
        elif not wanted and self._is_writing:
            self._server.loop.remove_writer(self._transport.fileno())
            self._is_writing = False

    def _note_answered(self, timed: TimedRequest) -> None:
        timed.answered_ns = self._server.times.now_ns()
        self._server.times.answered(timed, self.timed)

    def _note_sent(self) -> None:
        if not self._outgoing.bytes_unsent:
            self._server.times.sent(self.timed)
