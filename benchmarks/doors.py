"""The ways into a broker that a load may take: plain, over TLS, or after a log-in by SCRAM.

TLS is the one thing that cannot be made beforehand: the load encrypts and decrypts as a client
does, and shares the machine with the broker while it does so.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import struct
from collections.abc import Mapping
from typing import Any, Protocol

from benchmarks import requests
from moldau.security.sasl.scram_client import ScramClient

HOST = "127.0.0.1"
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
MECHANISM = "SCRAM-SHA-256"
PIECE_BYTES = 256 * 1024
"""Encrypted at once."""

Door = Mapping[str, Any]
"""`{"port": n}`, with `ca` (a path) for TLS, with `user` and `password` for a log-in."""


class Socket(Protocol):
    """What a load needs of one; raises BlockingIOError where it would wait."""

    def fileno(self) -> int: ...

    def recv_into(self, buffer: memoryview, nbytes: int = 0, flags: int = 0, /) -> int: ...

    def send(self, data: memoryview | bytes, /) -> int: ...

    def close(self) -> None: ...


def connect(door: Door) -> Socket:
    plain = socket.create_connection((HOST, door["port"]), timeout=30)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if "user" in door:
        log_in(plain, door["user"], door["password"])
    if "ca" in door:
        context = ssl.create_default_context(cafile=door["ca"])
        return TlsSocket(context.wrap_socket(plain, server_hostname=HOST))
    plain.setblocking(False)
    return plain


class TlsSocket:
    """Gives all that has come, so that nothing is left where epoll does not see it."""

    def __init__(self, tls: ssl.SSLSocket) -> None:
        tls.setblocking(False)
        self._tls = tls

    def fileno(self) -> int:
        return self._tls.fileno()

    def recv_into(self, buffer: memoryview, nbytes: int = 0, flags: int = 0, /) -> int:
        """Without flags: what is thrown away has to be decrypted too."""
        wanted = nbytes or len(buffer)
        total = 0
        try:
            while total < wanted:
                count = self._tls.recv_into(buffer[total:wanted])
                if not count:
                    break
                total += count
        except ssl.SSLWantReadError:
            if not total:
                raise BlockingIOError from None
        return total

    def send(self, data: memoryview | bytes, /) -> int:
        try:
            return self._tls.send(memoryview(data)[:PIECE_BYTES])
        except ssl.SSLWantWriteError:
            raise BlockingIOError from None

    def close(self) -> None:
        self._tls.close()


def log_in(plain: socket.socket, user: str, password: str) -> None:
    client = ScramClient(MECHANISM, user, password, secrets.token_hex(16))
    handshake = requests.framed(SASL_HANDSHAKE, 1, requests.string(MECHANISM), flexible=False)
    if struct.unpack_from(">h", _ask(plain, handshake), 4)[0]:
        raise RuntimeError(f"the broker does not know {MECHANISM}")
    token: bytes | None = client.first()
    while token is not None:
        body = struct.pack(">i", len(token)) + token
        answer = _ask(plain, requests.framed(SASL_AUTHENTICATE, 0, body, flexible=False))
        error, told = struct.unpack_from(">hh", answer, 4)
        if error:
            raise RuntimeError(f"{user} was refused with error {error}")
        token = client.evaluate(answer[8 + max(0, told) + 4 :])


def _ask(plain: socket.socket, request: bytes) -> bytes:
    plain.sendall(request)
    (size,) = struct.unpack(">i", _exactly(plain, 4))
    return _exactly(plain, size)


def _exactly(plain: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        piece = plain.recv(count - len(received))
        if not piece:
            raise ConnectionError("the broker closed the connection during the log-in")
        received += piece
    return bytes(received)
