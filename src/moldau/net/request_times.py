"""How long requests wait and work, one place for all of them: off unless somebody listens.

A request's life has Apache Kafka's four parts: *queue*, from the read that brought it to its
begin; *local*, until its answer is there or it has to wait; *remote*, while it waits; *send*, until
the last byte is with the kernel. Cells are plain numbers that only the loop changes.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.net.answers import Answer
from moldau.wire.request_framing import Chunk

if TYPE_CHECKING:
    from moldau.net.connection import Connection
    from moldau.net.server import Requests

APIS_MAX = 256
"""Cells are made for so many kinds of requests: keys that nobody serves share one."""
OTHER = -1
_api_key_at = struct.Struct(">h").unpack_from


class TimedRequest:
    """One request on its way; times in nanoseconds."""

    __slots__ = ("answered_ns", "api_key", "begun_ns", "read_ns", "request_bytes", "waited_from_ns")

    def __init__(self, api_key: int, request_bytes: int, read_ns: int, begun_ns: int) -> None:
        self.api_key = api_key
        self.request_bytes = request_bytes
        self.read_ns = read_ns
        self.begun_ns = begun_ns
        self.waited_from_ns = begun_ns
        self.answered_ns = begun_ns


class TimeCells:
    """The sums of one kind of request."""

    __slots__ = ("count", "local_ns", "queue_ns", "remote_ns", "request_bytes", "send_ns")

    def __init__(self) -> None:
        self.count = 0
        self.request_bytes = 0
        self.queue_ns = 0
        self.local_ns = 0
        self.remote_ns = 0
        self.send_ns = 0

    @property
    def total_ns(self) -> int:
        return self.queue_ns + self.local_ns + self.remote_ns + self.send_ns


class RequestTimes:
    """Stands before whoever answers requests, as long as somebody listens."""

    def __init__(
        self,
        requests: Requests,
        listener: Callable[[TimedRequest, int], None] | None = None,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """`listener` is told of every request when the last byte of its answer has left, and
        when that was: for a histogram, say."""
        self.cells: dict[int, TimeCells] = {}
        self.now_ns = clock_ns
        self._begin = requests.begin
        self._listener = listener

    def begin(self, connection: Connection, frame: memoryview) -> list[Chunk] | Answer:
        begun_ns = self.now_ns()
        key = _api_key_at(frame)[0] if len(frame) >= 2 else OTHER
        timed = TimedRequest(key, len(frame), connection.read_ns or begun_ns, begun_ns)
        answer = self._begin(connection, frame)
        timed.waited_from_ns = timed.answered_ns = self.now_ns()
        if isinstance(answer, Answer):
            answer.timed = timed
        else:
            connection.timed.append(timed)
        return answer

    def sent(self, timed: list[TimedRequest]) -> None:
        """Nothing of the answers to these is left to send."""
        now_ns = self.now_ns()
        for each in timed:
            cells = self._cells_of(each.api_key)
            cells.count += 1
            cells.request_bytes += each.request_bytes
            cells.queue_ns += each.begun_ns - each.read_ns
            cells.local_ns += each.waited_from_ns - each.begun_ns
            cells.remote_ns += each.answered_ns - each.waited_from_ns
            cells.send_ns += now_ns - each.answered_ns
            if self._listener is not None:
                self._listener(each, now_ns)
        timed.clear()

    def _cells_of(self, api_key: int) -> TimeCells:
        cells = self.cells.get(api_key)
        if cells is None:
            key = api_key if len(self.cells) < APIS_MAX else OTHER
            cells = self.cells.setdefault(key, TimeCells())
        return cells
