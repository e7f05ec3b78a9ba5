"""Frames out of a stream of bytes, without copying the large ones.

A socket reads straight into `writable()`. Small frames share one buffer and are only lent: a
view of one is valid until the next read, `is_lent` says so. A frame that does not fit gets a
buffer of exactly its size, which belongs to whoever takes it: the records of a large fetch stay
where the kernel put them. A size beyond the limit ends the stream, before anything is allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

SHARED_BYTES = 64 * 1024
_SIZE = struct.Struct(">i")


class FrameError(ValueError):
    """The stream is not one of frames."""


class Frame(NamedTuple):
    view: memoryview
    is_lent: bool


class FrameBuffer:
    __slots__ = ("_allocate", "_end", "_own", "_own_filled", "_shared", "_start", "limit_bytes")

    def __init__(
        self, limit_bytes: int, allocate: Callable[[int], bytearray | memoryview] = bytearray
    ) -> None:
        """`allocate` gives the buffers of large frames, exactly as large as it was asked for."""
        self.limit_bytes = limit_bytes
        self._allocate = allocate
        self._shared = memoryview(bytearray(SHARED_BYTES))
        self._start = 0
        self._end = 0
        self._own: memoryview | None = None
        self._own_filled = 0

    def writable(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._own is not None:
            return self._own[self._own_filled :]
        return self._shared[self._end :]

    def advance(self, count: int) -> list[Frame]:
        """`count` bytes were written: the frames that are now whole, without their sizes."""
        own = self._own
        if own is not None:
            self._own_filled += count
            if self._own_filled < len(own):
                return []
            self._own = None
            return [Frame(own, False)]
        self._end += count
        return self._cut()

    def _cut(self) -> list[Frame]:
        frames: list[Frame] = []
        start, end, shared = self._start, self._end, self._shared
        while end - start >= 4:
            size: int = _SIZE.unpack_from(shared, start)[0]
            if not 4 <= size <= self.limit_bytes:
                raise FrameError(f"a frame of {size} bytes, must be 4 to {self.limit_bytes}")
            if end - start - 4 < size:
                break
            frames.append(Frame(shared[start + 4 : start + 4 + size], True))
            start += 4 + size
        if start == end:
            start = end = 0
        elif end - start >= 4:
            start, end = self._make_room(start, end, size, bool(frames))
        elif end == SHARED_BYTES:
            self._keep(start, end, bool(frames))
            start, end = 0, end - start
        self._start, self._end = start, end
        return frames

    def _make_room(self, start: int, end: int, size: int, has_lent: bool) -> tuple[int, int]:
        """Room for the rest of a frame that has begun."""
        if 4 + size > SHARED_BYTES:
            own = memoryview(self._allocate(size))
            self._own_filled = end - start - 4
            own[: self._own_filled] = self._shared[start + 4 : end]
            self._own = own
            return 0, 0
        if start + 4 + size > SHARED_BYTES:
            self._keep(start, end, has_lent)
            return 0, end - start
        return start, end

    def _keep(self, start: int, end: int, has_lent: bool) -> None:
        """Move the rest to the front, of a new buffer if frames of this one are lent out."""
        rest = bytes(self._shared[start:end])
        if has_lent:
            self._shared = memoryview(bytearray(SHARED_BYTES))
        self._shared[: len(rest)] = rest
