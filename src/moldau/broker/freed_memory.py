"""Gives memory that was freed back to the system.

The C library keeps what a burst of large requests has freed, in pieces between what is still in
use: after two hundred requests of a megabyte a broker that needs 60 MB would stay at 200 MB for
good. It is asked to let go of it when the process has grown, and now and then as long as it is
larger than it began. The call runs in a thread; other threads wait for it only when they need
memory themselves, some milliseconds.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from moldau.broker.background_jobs import Background

LOOK_INTERVAL_MS = 2_000
GROWN_BYTES = 32 * 1024 * 1024
"""So much more than after the last time, and it is worth looking at once."""
LOOKS_MAX = 15
"""Looks between two times while the process is larger than it began, but does not grow."""


def plan_trimming(background: Background) -> None:
    """A job in `background`; none where the C library or the system cannot do it."""
    resident_bytes = process_bytes()
    if resident_bytes is not None:
        background.every("trim-memory", LOOK_INTERVAL_MS, FreedMemory(resident_bytes).look)


class FreedMemory:
    def __init__(
        self, resident_bytes: Callable[[], int], trim: Callable[[], None] | None = None
    ) -> None:
        self._resident_bytes = resident_bytes
        self._trim = trim or trim_heaps
        self._at_first = self._after_last = resident_bytes()
        self._looks = 0

    def look(self) -> asyncio.Future[None] | None:
        """Trim if it is due; what to wait for."""
        self._looks += 1
        resident = self._resident_bytes()
        has_grown = resident >= self._after_last + GROWN_BYTES
        is_large = resident >= self._at_first + GROWN_BYTES and self._looks >= LOOKS_MAX
        if not has_grown and not is_large:
            return None
        self._looks = 0
        return asyncio.ensure_future(self._let_go())

    async def _let_go(self) -> None:
        await asyncio.to_thread(self._trim)
        self._after_last = self._resident_bytes()


def trim_heaps() -> None:
    """glibc's malloc_trim; nothing where the C library is another."""
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


def process_bytes() -> Callable[[], int] | None:
    """How to learn what the process holds, if the system tells."""
    try:
        descriptor = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    page = os.sysconf("SC_PAGE_SIZE")
    return lambda: int(os.pread(descriptor, 200, 0).split()[1]) * page
