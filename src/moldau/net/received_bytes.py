"""The bytes one client has sent and nobody has taken yet.

`view[:end]` is what is here. The buffer starts small, grows only as bytes really arrive (a
claimed size alone costs nothing) and shrinks when the client falls silent.
"""

from __future__ import annotations

import mmap
import struct

PREFIX_BYTES = 4
START_BYTES = 16 * 1024
READ_BYTES = 64 * 1024
"""Read at once while no frame is known to be longer; a longer frame is then read to its end
exactly, so that large frames never have to be moved within the buffer."""
GROWTH = 4
CLEARED_BYTES_MAX = 1024 * 1024

_size_at = struct.Struct(">i").unpack_from


class ReceivedBytes:
    __slots__ = ("_arrived_bytes", "end", "fresh", "rest_of_frame", "view")

    view: memoryview
    end: int
    fresh: memoryview
    """Where to read into while nothing is here."""
    rest_of_frame: int
    """Where a frame that is longer than one read ends; 0 if none is known."""

    def __init__(self) -> None:
        self._arrived_bytes = READ_BYTES
        self._renew(START_BYTES, memoryview(b""))

    @property
    def capacity_bytes(self) -> int:
        return len(self.view)

    @property
    def is_full(self) -> bool:
        return self.end >= (self.rest_of_frame or len(self.fresh))

    @property
    def holds_frame(self) -> bool:
        """Whether a request is here in full."""
        return self.end >= PREFIX_BYTES and PREFIX_BYTES + _size_at(self.view)[0] <= self.end

    def room(self) -> memoryview:
        """Where the next read goes; empty if there is none."""
        if self.end:
            return self.view[self.end : self.rest_of_frame or len(self.fresh)]
        return self.fresh

    def drop(self, count: int) -> None:
        """The first `count` bytes are done with; the rest moves to the front."""
        rest = self.end - count
        if rest:
            self.view[:rest] = self.view[count : self.end]
        self.end = rest
        self.rest_of_frame = 0

    def give_up(self, count: int) -> None:
        """As `drop`, but in a new buffer: somebody keeps the old one."""
        rest = self.view[count : self.end]
        self._renew(max(START_BYTES, len(rest)), rest)

    def expect(self, frame_bytes: int) -> None:
        """Make room for the frame at the front, `frame_bytes` long as far as is known."""
        if frame_bytes <= len(self.fresh):
            return
        if frame_bytes <= READ_BYTES:
            self._renew(READ_BYTES, self.view[: self.end])
            return
        if self.is_full:
            self._arrived_bytes = max(self._arrived_bytes, self.end * GROWTH)
        capacity_bytes = min(_rounded(frame_bytes), self._arrived_bytes)
        if capacity_bytes > len(self.view):
            self._renew(capacity_bytes, self.view[: self.end])
        self.rest_of_frame = min(frame_bytes, len(self.view))

    def widen(self) -> None:
        """This client sends more than a small buffer takes at once."""
        if len(self.view) < READ_BYTES:
            self._renew(READ_BYTES, self.view[: self.end])

    def shrink(self) -> None:
        """Give back what a silent client does not need."""
        if not self.end and len(self.view) > START_BYTES:
            self._arrived_bytes = READ_BYTES
            self._renew(START_BYTES, memoryview(b""))

    def let_go(self) -> None:
        """Nothing more will come, though somebody may still refer to the connection."""
        self.view = self.fresh = memoryview(b"")
        self.end = self.rest_of_frame = 0

    def _renew(self, capacity_bytes: int, content: memoryview) -> None:
        self.view = memoryview(_room_of(capacity_bytes))
        self.fresh = self.view[:READ_BYTES]
        self.end = len(content)
        self.view[: self.end] = content
        self.rest_of_frame = 0


def _rounded(size_bytes: int) -> int:
    """Up to whole reads, so that frames of nearly the same size share one buffer."""
    return -(-size_bytes // READ_BYTES) * READ_BYTES


def _room_of(capacity_bytes: int) -> bytearray | mmap.mmap:
    """Much room comes as pages that the system makes when they are first written to: to clear tens
    of megabytes at once would keep everybody waiting."""
    if capacity_bytes <= CLEARED_BYTES_MAX:
        return bytearray(capacity_bytes)
    return mmap.mmap(-1, capacity_bytes)
