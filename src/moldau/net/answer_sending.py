"""The sending half of a connection: answers go out with as few calls as can be.

The loop is told of the descriptor only while the client is slow. Where a piece was not taken, the
rest waits in order; what becomes of it is `net/send_queue.py`. Answers that take time leave in the
order of their requests. As in Apache Kafka a connection's next request waits for the answer to the
one before it; only the kinds that `may_overlap` (Produce, whose append is done by the time it
waits) follow one another unanswered.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from moldau.model.names import Millis
from moldau.net.answers import Answer, Pause
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
WAITING_MAX = 64
"""Requests of one connection that may be unanswered at once."""

_api_key_at = struct.Struct(">h").unpack_from


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
        """Nothing is held back any more; a transport may have something of its own to send."""
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


class AnswerOrder(AnswerSender):
    """With the answers that take time."""

    __slots__ = ("_ends_when_sent", "_waiting", "_waits_alone")

    def __init__(self, transport: Transport, server: Server) -> None:
        super().__init__(transport, server)
        self._waiting: deque[Answer] = deque()
        self._waits_alone = False
        self._ends_when_sent = False

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is being worked on: then silence is not idleness."""
        return bool(self._waiting)

    def _may_overlap(self, view: memoryview, position: int, size: int) -> bool:
        if self._waits_alone or len(self._waiting) >= WAITING_MAX or size < 2:
            return False
        if not self._waiting[-1].may_be_overtaken:
            return False
        (api_key,) = _api_key_at(view, position)
        return self._server.may_overlap(api_key)

    def _wait_for(self, answer: Answer, view: memoryview, position: int, size: int) -> None:
        if self._waiting:
            self._server.overlapping += 1
        elif size < 2 or _api_key_at(view, position)[0] not in self._server.overlapping_apis:
            self._waits_alone = True
        self._waiting.append(answer)

    def pause(self, pause_ms: Millis) -> None:
        """Start nothing more for a while, once what is under way is answered: the client has had
        more than its share. What it sends meanwhile is kept, as far as there is room."""
        if not self.is_closed:
            if self._waiting:
                self._server.overlapping += 1
            self._waiting.append(Pause(self._server.loop, pause_ms / 1000, self.answered, []))

    def answered(self) -> None:
        """One of the awaited answers is here: send those whose turn it is, then go on."""
        self._in_turn(self._send_answered)

    def _send_answered(self) -> None:
        if self.is_closed:
            return
        waiting = self._waiting
        out: list[Chunk] = []
        while waiting and (chunks := waiting[0].chunks) is not None:
            out += chunks
            answer = waiting.popleft()
            self._server.request_memory.give_back(answer.request_bytes)
            if answer.timed is not None:
                self._note_answered(answer.timed)
            if waiting:
                self._server.overlapping -= 1
        if not waiting:
            self._waits_alone = False
        self._send_all(out)
        if self.timed:
            self._note_sent()
        self.tick_seen = self._server.tick
        if self._ends_when_sent and not waiting and not self._outgoing.bytes_unsent:
            self.close()
        self.go_on()

    def end_after(self, seconds: float) -> None:
        """What is answered now is the last of it, and then the connection ends."""
        if not self.is_closed:
            self._server.overlapping += 1
            self._waiting.append(Pause(self._server.loop, seconds, self._say_nothing_more, []))
            self.answered()

    def _say_nothing_more(self) -> None:
        self._end_when_sent()
        self.answered()

    def _cancel_waiting(self) -> None:
        waiting = self._waiting
        self._server.overlapping -= max(0, len(waiting) - 1)
        while waiting:
            answer = waiting.popleft()
            self._server.request_memory.give_back(answer.request_bytes)
            answer.cancel()

    def _let_go_waiting(self) -> None:
        """The client is gone. Only who is at work stays, and with it what its request holds."""
        waiting = self._waiting
        self._server.overlapping -= max(0, len(waiting) - 1)
        at_work = []
        while waiting:
            answer = waiting.popleft()
            if answer.leave():
                self._server.request_memory.give_back(answer.request_bytes)
            else:
                at_work.append(answer)
        waiting += at_work
        self._server.overlapping += max(0, len(waiting) - 1)

    # What the rest of the connection does

    def go_on(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def _end_when_sent(self) -> None:
        raise NotImplementedError
