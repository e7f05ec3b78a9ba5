"""Messages between the broker and its compacting process: plain values, marshalled.

Both ends are the same interpreter and the same version of Moldau: the first message says so. What
`marshal` takes is enough: numbers, text, tuples, lists. The end of the pipe is the end of the
other process, however it ended.
"""

from __future__ import annotations

import marshal
import os
import select
import struct
from collections.abc import Callable
from typing import Any

from moldau import __version__

GREETING = ("moldau-cleaner", __version__)
PROGRESS = ("progress",)
"""Sent by the process now and then while it works on a step, and never while it does not."""

TICK_MS = 100.0
MESSAGE_BYTES_MAX = 1 << 30
_READ_BYTES_MAX = 1 << 20
_SIZE = struct.Struct("<I")


class Hangup(Exception):
    """The other end is gone, or talks nonsense."""


class Pipe:
    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._poll = select.poll()
        self._poll.register(source, select.POLLIN)
        self._room = select.poll()
        self._room.register(sink, select.POLLOUT)

    def has_input(self, timeout_ms: float) -> bool:
        """Whether there is something to read, be it the end, before the time is over."""
        return bool(self._poll.poll(timeout_ms))

    def send(self, message: Any, tick: Callable[[], None] = lambda: None) -> None:
        """`tick` is called now and then while the other end takes nothing, and may raise."""
        content = marshal.dumps(message)
        view = memoryview(_SIZE.pack(len(content)) + content)
        try:
            while view:
                while not self._room.poll(TICK_MS):
                    tick()
                # As much as never blocks where there is room at all.
                view = view[os.write(self._sink, view[: select.PIPE_BUF]) :]
        except OSError as error:
            raise Hangup from error

    def receive(self, tick: Callable[[], None]) -> Any:
        """The next message; `tick` is called now and then while waiting, and may raise."""
        (size,) = _SIZE.unpack(self._exactly(_SIZE.size, tick))
        if size > MESSAGE_BYTES_MAX:
            raise Hangup
        try:
            return marshal.loads(self._exactly(size, tick))
        except (ValueError, EOFError, TypeError) as error:
            raise Hangup from error

    def _exactly(self, size: int, tick: Callable[[], None]) -> bytes:
        content = bytearray()
        while len(content) < size:
            while not self.has_input(TICK_MS):
                tick()
            try:
                piece = os.read(self._source, min(size - len(content), _READ_BYTES_MAX))
            except OSError as error:
                raise Hangup from error
            if not piece:
                raise Hangup
            content += piece
        return bytes(content)
