"""Large buffers that are used again, since the kernel clears every page of a new one.

A buffer is free as soon as nobody looks at it: neither a view of it nor an Arrow table made of it
is left. Nobody has to give anything back, so nothing can be given back too early. What is kept is
bounded; a buffer that is pushed out lives on for those who look at it. A pool belongs to one
thread.
"""

from __future__ import annotations

from collections import deque

from moldau.records.column_decoding import fresh_bytes

STEP_BYTES = 64 * 1024
POOLED_BYTES_MIN = 64 * 1024
"""Below this the allocator of Python is as good."""
WASTE_MAX = 4
"""How many times larger than asked for a buffer may be."""


class BufferPool:
    __slots__ = ("_kept", "_kept_bytes", "_limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._kept: deque[bytearray] = deque()
        self._kept_bytes = 0

    def take(self, size_bytes: int) -> memoryview:
        """Room for so many bytes, with anything in it."""
        if not POOLED_BYTES_MIN <= size_bytes <= self._limit_bytes:
            return memoryview(fresh_bytes(size_bytes))
        kept = self._kept
        for buffer in kept:
            if size_bytes <= len(buffer) <= WASTE_MAX * size_bytes and _is_free(buffer):
                return memoryview(buffer)[:size_bytes]
        buffer = fresh_bytes(-(-size_bytes // STEP_BYTES) * STEP_BYTES)
        kept.append(buffer)
        self._kept_bytes += len(buffer)
        while self._kept_bytes > self._limit_bytes and len(kept) > 1:
            self._kept_bytes -= len(kept.popleft())
        return memoryview(buffer)[:size_bytes]


def _is_free(buffer: bytearray) -> bool:
    """Python lets nobody change the size of a bytearray while somebody has a view of it."""
    try:
        buffer.pop()
    except BufferError:
        return False
    buffer.append(0)
    return True
