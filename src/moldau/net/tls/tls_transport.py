"""TLS beneath a connection, over buffers in memory: OpenSSL never touches the socket.

One read of the socket feeds many records, which are decrypted straight into the connection's
inbox. What is to be sent is encrypted in pieces; a piece counts as sent when all of its ciphertext
has left. Until then the same bytes are offered again and only the ciphertext goes on.

The handshake happens inside `receive_into`: bytes of the client come when it is over.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Sequence
from typing import NoReturn, cast

from moldau.model.file_regions import OpenFile
from moldau.net.transport import COPY_BYTES, HandshakeFault, Octets

FEED_BYTES = 256 * 1024
"""Taken from the socket at once."""
HANDSHAKE_FEED_BYTES = 16 * 1024
"""Before the client has shown that it can speak."""
HANDSHAKE_BYTES_MAX = 256 * 1024
"""A client that sends more without coming to an end is none."""
LEFT = "the client closed the connection during the TLS handshake"

_feed = memoryview(bytearray(FEED_BYTES))
"""One for all: what is read is passed on at once, on the one loop there is."""


class _Ended:
    """In the place of the engine of a connection that is closed."""

    pending = 0

    def __getattr__(self, name: str) -> NoReturn:
        raise ConnectionAbortedError(errno.ECONNABORTED, "the connection is closed")


_ENDED = _Ended()


class TlsTransport:
    __slots__ = (
        "_encrypted_bytes",
        "_handshake_bytes",
        "_incoming",
        "_is_drained",
        "_outgoing",
        "_socket",
        "_tls",
        "_unsent",
        "is_ready",
    )

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._socket = sock
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._unsent: memoryview = memoryview(b"")
        self._encrypted_bytes = 0
        """How many of the bytes that will be offered next are in `_unsent` already."""
        self._is_drained = True
        self._handshake_bytes = 0
        self.is_ready = False

    @property
    def has_pending(self) -> bool:
        return not self._is_drained

    @property
    def wants_to_write(self) -> bool:
        return len(self._unsent) > 0 or self._outgoing.pending > 0

    @property
    def encryption(self) -> tuple[str, str] | None:
        cipher = self._tls.cipher() if self.is_ready else None
        return None if cipher is None else (cipher[0], cipher[1])

    def fileno(self) -> int:
        return self._socket.fileno()

    def peer_certificate(self) -> bytes | None:
        """In DER; None if the client has shown none. Raises HandshakeFault if what came after the
        handshake has undone it."""
        try:
            return self._tls.getpeercert(binary_form=True)
        except ValueError:
            raise HandshakeFault("SSL handshake failed: it has not come to its end") from None

    # From the client

    def receive_into(self, room: memoryview, /) -> int:
        if not self.is_ready:
            self._shake_hands()
        total, has_fed = 0, False
        count: int
        while total < len(room):
            try:
                count = self._tls.read(len(room) - total, room[total:])  # type: ignore[assignment]
            except ssl.SSLWantReadError:
                self._is_drained = True
                if has_fed or not self._feed(FEED_BYTES):
                    break
                has_fed = True
                continue
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                count = 0
            if not count:
                return total
            self._is_drained = False
            total += count
        if not total:
            raise BlockingIOError
        return total

    def _feed(self, bytes_max: int) -> bool:
        """Whether there was something; the end of the stream is something."""
        try:
            count = self._socket.recv_into(_feed[:bytes_max])
        except (BlockingIOError, InterruptedError):
            return False
        if count:
            self._incoming.write(_feed[:count])
            self._handshake_bytes += count
        else:
            self._incoming.write_eof()
        return True

    def _shake_hands(self) -> None:
        """Raises BlockingIOError while it goes on, HandshakeFault if it fails, and
        ConnectionAbortedError if the client leaves meanwhile."""
        while not self.is_ready:
            has_fed = self._feed(HANDSHAKE_FEED_BYTES)
            try:
                self._tls.do_handshake()
                self.is_ready = True
            except ssl.SSLWantReadError:
                if self._handshake_bytes > HANDSHAKE_BYTES_MAX:
                    reason = f"no end after {self._handshake_bytes} bytes"
                    raise HandshakeFault(f"SSL handshake failed: {reason}") from None
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                # It left: nobody was refused.
                raise ConnectionAbortedError(errno.ECONNABORTED, LEFT) from None
            except ssl.SSLError as fault:
                with contextlib.suppress(OSError):
                    self.flush()  # the alert says to the other side what is wrong
                raise HandshakeFault(f"SSL handshake failed: {_reason(fault)}") from None
            with contextlib.suppress(BlockingIOError):
                self.flush()
            if not self.is_ready and not has_fed:
                raise BlockingIOError
        self._is_drained = False

    # To the client

    def send(self, data: Octets, flags: int = 0, /) -> int:
        if not self._encrypted_bytes:
            self._encrypt(memoryview(data)[:COPY_BYTES])
        return self._taken()

    def send_pieces(self, pieces: Sequence[Octets], flags: int) -> int:
        if not self._encrypted_bytes:
            joined, size_bytes = [], 0
            for piece in pieces:
                joined.append(memoryview(piece)[: COPY_BYTES - size_bytes])
                size_bytes += len(joined[-1])
                if size_bytes == COPY_BYTES:
                    break
            self._encrypt(memoryview(b"".join(joined)))
        return self._taken()

    def send_file(self, file: OpenFile, position: int, count: int) -> int:
        if not self._encrypted_bytes:
            piece = os.pread(file.fileno(), min(count, COPY_BYTES), position)
            if not piece:
                return 0
            self._encrypt(memoryview(piece))
        return self._taken()

    def _encrypt(self, data: memoryview) -> None:
        self.flush()
        while self._encrypted_bytes < len(data):
            self._encrypted_bytes += self._tls.write(data[self._encrypted_bytes :])

    def _taken(self) -> int:
        self.flush()
        taken, self._encrypted_bytes = self._encrypted_bytes, 0
        return taken

    def flush(self) -> None:
        """Raises BlockingIOError until all of the ciphertext has left."""
        while True:
            if not self._unsent:
                if not self._outgoing.pending:
                    return
                self._unsent = memoryview(self._outgoing.read())
            self._unsent = self._unsent[self._socket.send(self._unsent) :]

    def close(self) -> None:
        if self.is_ready:
            # Says goodbye; whether the client says it too is not waited for.
            with contextlib.suppress(OSError):
                try:
                    self._tls.unwrap()
                except ssl.SSLError:
                    self.flush()
        self._socket.close()
        # An engine holds tens of kilobytes that Python does not count, and whoever refers to this
        # connection in a circle keeps it until garbage is collected.
        self.is_ready = False
        self._tls = cast(ssl.SSLObject, _ENDED)
        self._incoming = self._outgoing = cast(ssl.MemoryBIO, _ENDED)
        self._unsent = memoryview(b"")


def _reason(fault: ssl.SSLError) -> str:
    return (fault.reason or str(fault)).replace("_", " ").lower()
