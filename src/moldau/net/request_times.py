"""How long requests work and wait, one place for all of them: stands before whoever answers.

A request's life has parts, as in Apache Kafka: *local*, from the read that brought it until its
answer is there or it has to wait; *remote*, while it waits; *send*, until the last byte is with the
kernel. There is no queue: what is read begins. The usual request is answered at once with a few
bytes, which leave together with those of its neighbours: of that one only the whole time is kept,
and those of one read that are alike are counted together (`Connection._serve`). Cells are plain
numbers that only the loop changes.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.metrics.duration_cells import DurationCells
from moldau.net.answers import Answer
from moldau.wire.request_framing import Chunk

if TYPE_CHECKING:
    from moldau.net.connection import Connection
    from moldau.net.server import Requests

FETCH = 1
FOLLOWER_FETCH = 256
"""Stands for the key of a Fetch that a follower sends."""
SMALL_BYTES = 4096
UNSENT_MAX = 1_000
Head = tuple[int, int]
"""A request's size, and its first four bytes: the key of the API and the version."""
NOTHING: Head = (-1, 0)

_start_of = struct.Struct(">I").unpack_from


class RequestCells:
    """What is counted of one kind of request."""

    __slots__ = ("at_once", "local", "remote", "send", "sizes", "total", "versions")

    def __init__(self) -> None:
        self.versions = [0] * 256
        """How many were answered, by version."""
        self.at_once = DurationCells()
        """Those that were answered without waiting; the others are in the rest."""
        self.total = DurationCells()
        self.local = DurationCells()
        self.remote = DurationCells()
        self.send = DurationCells()
        self.sizes = DurationCells()
        """Bytes of the requests."""

    def turn(self) -> None:
        for each in (self.at_once, self.total, self.local, self.remote, self.send, self.sizes):
            each.turn()


class TimedRequest:
    """One request on its way that takes a while; times in nanoseconds."""

    __slots__ = ("answered_ns", "cells", "read_ns", "waited_from_ns")

    def __init__(self, cells: RequestCells, read_ns: int, waited_from_ns: int) -> None:
        self.cells = cells
        self.read_ns = read_ns
        self.waited_from_ns = waited_from_ns
        self.answered_ns = waited_from_ns

    def tell(self, now_ns: int) -> None:
        """It is sent; only those that are watched have somebody to tell."""


class RequestTimes:
    def __init__(
        self, requests: Requests, clock_ns: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self.cells: list[RequestCells | None] = [None] * (FOLLOWER_FETCH + 1)
        """By the key of the API; None for what nobody has asked yet."""
        self.now_ns = clock_ns
        self._begin = requests.begin
        self.plain = self._begin
        """What connections are given while nothing stands in between; they count by themselves."""
        self.begin: Callable[[Connection, memoryview], list[Chunk] | Answer] = self.plain
        """What connections are given: something may stand before this while it is watched."""

    def begin_timed(self, connection: Connection, frame: memoryview) -> list[Chunk] | Answer:
        """For whoever does stand in between."""
        answer = self._begin(connection, frame)
        self.note(connection, (len(frame), *_start_of(frame)), answer)
        return answer

    def note(self, connection: Connection, head: Head, answer: list[Chunk] | Answer) -> None:
        """A request has begun, or is answered."""
        if answer.__class__ is list and len(answer) == 1 and len(answer[0]) < SMALL_BYTES:
            self.note_alike(connection, head, 1)
            return
        size, start = head
        cells = self.cells[start >> 16 & 0xFF]
        if cells is None or connection.is_follower:
            cells = self._cells_of(connection, head)
        cells.versions[start & 0xFF] += 1
        cells.sizes.cells[(size * size).bit_length()] += 1
        timed = TimedRequest(cells, connection.read_ns, self.now_ns())
        if isinstance(answer, Answer):
            answer.timed = timed
        else:
            connection.timed.append(timed)
            if len(connection.timed) >= UNSENT_MAX:
                self.sent(connection.timed)

    def note_alike(self, connection: Connection, head: Head, count: int) -> int:
        """So many requests of one read that look alike are answered, each in a few bytes. None of
        them is left to count then."""
        if not count:
            return 0
        size, start = head
        cells = self.cells[start >> 16 & 0xFF]
        if cells is None or connection.is_follower:
            cells = self._cells_of(connection, head)
        cells.versions[start & 0xFF] += count
        cells.sizes.cells[(size * size).bit_length()] += count
        took_ns = self.now_ns() - connection.read_ns
        cells.at_once.cells[(took_ns * took_ns).bit_length()] += count
        return 0

    def _cells_of(self, connection: Connection, head: Head) -> RequestCells:
        # Whatever was answered has a header, and a key and a version that fit into a byte.
        kind = head[1] >> 16 & 0xFF
        if kind == FETCH and connection.is_follower:
            kind = FOLLOWER_FETCH
        cells = self.cells[kind]
        if cells is None:
            cells = self.cells[kind] = RequestCells()
        return cells

    def answered(self, timed: TimedRequest, unsent: list[TimedRequest]) -> None:
        """`unsent` are those of its connection. A client that always has something coming, answer
        after answer, does not make them more and more: the oldest are taken for sent."""
        unsent.append(timed)
        if len(unsent) >= UNSENT_MAX:
            self.sent(unsent)

    def sent(self, timed: list[TimedRequest]) -> None:
        """Nothing of the answers to these is left to send."""
        now_ns = self.now_ns()
        for each in timed:
            cells = each.cells
            total = now_ns - each.read_ns
            local = each.waited_from_ns - each.read_ns
            remote = each.answered_ns - each.waited_from_ns
            send = total - local - remote
            cells.total.cells[(total * total).bit_length()] += 1
            cells.local.cells[(local * local).bit_length()] += 1
            cells.remote.cells[(remote * remote).bit_length()] += 1
            cells.send.cells[(send * send).bit_length()] += 1
            if each.__class__ is not TimedRequest:
                each.tell(now_ns)
        timed.clear()

    def turn(self) -> None:
        """Called each time that quantiles should forget what is old."""
        for cells in self.cells:
            if cells is not None:
                cells.turn()
