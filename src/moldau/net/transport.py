"""What lies beneath a connection: a plain socket here, TLS or a network in memory elsewhere.

Nothing waits. A transport that cannot go on raises BlockingIOError; any other OSError ends the
connection. What `send` and its siblings return has left for good: the rest is offered again,
beginning with the same bytes.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from moldau.model.file_regions import OpenFile

Octets = bytes | memoryview

_BYTES = struct.Struct("=QQ")
_BYTES_AT = 120
"""`tcpi_bytes_acked` and `tcpi_bytes_received` of `struct tcp_info`, since Linux 4.1."""
_ENDED = frozenset({6, 8, 9, 11})
"""States of a connection whose client has ended it: that end counts as a byte."""
COPY_BYTES = 256 * 1024
"""Read at once where the kernel cannot send from the file itself."""
SENDFILE_UNAVAILABLE = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSOCK, errno.ENOTSUP}


class HandshakeFault(OSError):
    """The two sides could not agree on how to speak; says why in words for the log."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EPROTO, reason)


class Transport(Protocol):
    @property
    def is_ready(self) -> bool:
        """Whether both sides have agreed on how to speak; bytes of the client follow only then."""

    @property
    def has_pending(self) -> bool:
        """Whether bytes may lie inside though the descriptor is not readable: after a read that
        filled its room, ask once more."""

    @property
    def wants_to_write(self) -> bool:
        """Whether bytes of the transport's own wait for the descriptor to be writable."""

    @property
    def encryption(self) -> tuple[str, str] | None:
        """Cipher and protocol; None if bytes are sent as they are."""

    def fileno(self) -> int: ...

    def receive_into(self, room: memoryview, /) -> int:
        """As much as there is and fits; 0 if the client sends no more (it may still listen)."""

    def send(self, data: Octets, flags: int = 0, /) -> int: ...

    def send_pieces(self, pieces: Sequence[Octets], flags: int) -> int: ...

    def send_file(self, file: OpenFile, position: int, count: int) -> int:
        """0 if the file ends at `position`."""

    def flush(self) -> None:
        """Send on what `wants_to_write`."""

    def close(self) -> None: ...


class PlainTransport:
    """A socket as it is: the methods of the hot path are the socket's own."""

    __slots__ = ("_copies_files", "_socket", "close", "fileno", "receive_into", "send")

    is_ready = True
    has_pending = False
    wants_to_write = False
    encryption = None
    close: Callable[[], None]
    fileno: Callable[[], int]
    receive_into: Callable[..., int]
    send: Callable[..., int]

    def __init__(self, sock: socket.socket, *, copies_files: bool = False) -> None:
        self._socket = sock
        self._copies_files = copies_files or not hasattr(os, "sendfile")
        self.close = sock.close
        self.fileno = sock.fileno
        self.receive_into = sock.recv_into
        self.send = sock.send

    def send_pieces(self, pieces: Sequence[Octets], flags: int) -> int:
        return self._socket.sendmsg(pieces, (), flags)

    def send_file(self, file: OpenFile, position: int, count: int) -> int:
        """From the page cache to the socket without passing through this process."""
        if not self._copies_files:
            try:
                return os.sendfile(self._socket.fileno(), file.fileno(), position, count)
            except OSError as fault:
                if fault.errno not in SENDFILE_UNAVAILABLE:
                    raise
                self._copies_files = True
        piece = os.pread(file.fileno(), min(count, COPY_BYTES), position)
        return self.send(piece) if piece else 0

    def flush(self) -> None:
        pass


def bytes_moved(descriptor: int) -> tuple[int, int] | None:
    """From the client and to it; None where the kernel does not tell."""
    option = getattr(socket, "TCP_INFO", None)
    if option is None or descriptor < 0:
        return None
    try:
        view = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, descriptor)
    except OSError:
        return None
    try:
        told = view.getsockopt(socket.IPPROTO_TCP, option, _BYTES_AT + _BYTES.size)
    except OSError:
        return None
    finally:
        view.detach()  # the descriptor is another's
    if len(told) < _BYTES_AT + _BYTES.size:
        return None
    sent, received = _BYTES.unpack_from(told, _BYTES_AT)
    return received - (told[0] in _ENDED), sent


def host_of(peer: tuple[Any, ...]) -> str:
    """An IPv4 client that came through an IPv6 socket is still known by its IPv4 address."""
    return str(peer[0]).removeprefix("::ffff:")
