"""What threads got of the machine: how long one ran, and how long it was ready and kept off.

Linux tells both in `schedstat`. Elsewhere threads count as never kept off. Reading keeps the
interpreter's lock: a thread that gave it up for each read would slow down those it looks at.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from typing import NamedTuple

READ_BYTES = 100


class Reading(NamedTuple):
    at_ns: int
    ran_ns: int = 0
    kept_off_ns: int = 0
    """Ready to run, while the machine's processors were busy with others."""
    others_kept_off_ns: int = 0
    """All other threads of Python's: one of them may have had the interpreter meanwhile."""
    stood_still_ns: int = 0
    """The whole process, as far as somebody has noticed."""


class ThreadClocks:
    def __init__(self, native_id: int) -> None:
        """Of this thread, and of the others together."""
        self._native_id = native_id
        self._descriptors: dict[int, int] = {}
        self._kept_off_ns: dict[int, int] = {}
        self._others_kept_off_ns = 0
        self._buffer = ctypes.create_string_buffer(READ_BYTES)
        self._own_buffer = ctypes.create_string_buffer(READ_BYTES)
        self._pread = ctypes.PyDLL(None).pread
        self._read_of(native_id, self._own_buffer)

    def read(self) -> Reading:
        """Of the thread alone; by that thread."""
        at_ns = time.perf_counter_ns()
        ran_ns, kept_off_ns = self._read_of(self._native_id, self._own_buffer)
        return Reading(at_ns, ran_ns, kept_off_ns)

    def read_all(self) -> Reading:
        """By whoever looks on."""
        at_ns = time.perf_counter_ns()
        ran_ns, own_kept_off_ns = self._read_of(self._native_id, self._buffer)
        for native_id in [thread.native_id for thread in threading.enumerate()]:
            if native_id is None or native_id == self._native_id:
                continue
            _, kept_off_ns = self._read_of(native_id, self._buffer)
            # Whose number is new, is new itself; one of an old thread may be given again.
            before_ns = self._kept_off_ns.get(native_id, 0)
            self._others_kept_off_ns += max(0, kept_off_ns - before_ns)
            self._kept_off_ns[native_id] = kept_off_ns
        return Reading(at_ns, ran_ns, own_kept_off_ns, self._others_kept_off_ns)

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def _read_of(self, native_id: int, buffer: ctypes.Array[ctypes.c_char]) -> tuple[int, int]:
        """How long it ran, how long it was kept off; zeros for one that is gone."""
        descriptor = self._descriptors.get(native_id)
        if descriptor is None:
            with contextlib.suppress(OSError):
                path = f"/proc/self/task/{native_id}/schedstat"
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                self._descriptors[native_id] = descriptor
        if descriptor is None:
            return 0, 0
        count = self._pread(descriptor, buffer, READ_BYTES, ctypes.c_long(0))
        if count <= 0:
            os.close(self._descriptors.pop(native_id))
            return 0, 0
        ran_ns, kept_off_ns, _ = buffer.raw[:count].split()
        return int(ran_ns), int(kept_off_ns)
