"""One document from an address that is allowed: never from where that address points on to.

Blocks; called beside the loop. What is read has a bound in bytes, and the whole has one in time:
a server that sends a byte a minute gets no more patience than one that is silent.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import threading
from collections.abc import Mapping
from typing import NamedTuple

from moldau.net.oauth.allowed_places import Place

BYTES_MAX = 1024 * 1024
CONNECT_SECONDS, READ_SECONDS = 10.0, 10.0
PIECE_BYTES = 64 * 1024
OK = (200, 201)
_ERROR = re.compile(rb'"error"\s*:\s*"([a-z_]{1,64})"')


class FetchFault(Exception):
    """Nothing usable came. Never quotes what was sent, nor an answer."""

    def __init__(self, sentence: str, *, is_final: bool = False) -> None:
        super().__init__(sentence)
        self.is_final = is_final
        """Another try will get the same answer."""


class Patience(NamedTuple):
    connect_seconds: float = CONNECT_SECONDS
    read_seconds: float = READ_SECONDS


class Question(NamedTuple):
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    """With one it is a POST."""


USUAL, GET = Patience(), Question()


def fetch(
    place: Place,
    question: Question = GET,
    *,
    context: ssl.SSLContext | None = None,
    patience: Patience = USUAL,
) -> bytes:
    """Raises FetchFault."""
    if place.scheme == "file":
        return _file(place)
    connection = _connection(place, context, patience)
    opened: list[socket.socket] = []
    is_cut = threading.Event()
    watch = threading.Timer(sum(patience), lambda: _cut(connection, opened, is_cut))
    watch.daemon = True
    watch.start()
    try:
        connection.connect()
        assert connection.sock is not None
        connection.sock.settimeout(patience.read_seconds)
        opened.append(connection.sock)
        method = "GET" if question.body is None else "POST"
        connection.request(method, place.path, question.body, dict(question.headers))
        with connection.getresponse() as answer:
            found = _body(answer, place)
        if is_cut.is_set():
            # What came until then looks like a whole answer if the server named no length.
            raise TimeoutError
        return found
    except TimeoutError:
        raise FetchFault(f"{place.shown} did not answer in time") from None
    except (OSError, http.client.HTTPException, ValueError) as fault:
        # A ValueError is what reading from a connection gives that was cut meanwhile; it may also
        # seem to be reset, if the other side sends on.
        if is_cut.is_set():
            raise FetchFault(f"{place.shown} did not answer in time") from None
        why = str(fault) or type(fault).__name__
        raise FetchFault(f"{place.shown} could not be asked: {why[:200]}") from None
    finally:
        watch.cancel()
        connection.close()


def _connection(
    place: Place, context: ssl.SSLContext | None, patience: Patience
) -> http.client.HTTPConnection:
    seconds = patience.connect_seconds
    if place.scheme == "http":
        return http.client.HTTPConnection(place.host, place.port, timeout=seconds)
    context = context or ssl.create_default_context()
    return http.client.HTTPSConnection(place.host, place.port, timeout=seconds, context=context)


def _cut(
    connection: http.client.HTTPConnection, opened: list[socket.socket], is_cut: threading.Event
) -> None:
    is_cut.set()
    # A connection forgets its socket when the answer lasts until the end.
    found = opened[0] if opened else connection.sock
    if found is not None:
        try:
            found.shutdown(socket.SHUT_RDWR)
        except OSError:
            # It is over already.
            pass


def _body(answer: http.client.HTTPResponse, place: Place) -> bytes:
    if answer.status not in OK:
        is_final = 400 <= answer.status < 500 and answer.status not in (408, 429)
        led_on = "; it is not followed elsewhere" if 300 <= answer.status < 400 else ""
        raise FetchFault(
            f"{place.shown} answered with status {answer.status}{_error_code(answer)}{led_on}",
            is_final=is_final,
        )
    found = bytearray()
    while piece := answer.read1(PIECE_BYTES):
        found += piece
        if len(found) > BYTES_MAX:
            raise FetchFault(f"the answer of {place.shown} is longer than {BYTES_MAX} bytes")
    return bytes(found)


def _error_code(answer: http.client.HTTPResponse) -> str:
    """The word by which a token server says what is wrong (RFC 6749); nothing else is quoted."""
    found = _ERROR.search(answer.read1(PIECE_BYTES))
    return f" ({found[1].decode('ascii')})" if found else ""


def _file(place: Place) -> bytes:
    try:
        with open(place.path, "rb") as file:
            found = file.read(BYTES_MAX + 1)
    except OSError as fault:
        raise FetchFault(f"{place.path} cannot be read: {fault.strerror}") from None
    if len(found) > BYTES_MAX:
        raise FetchFault(f"{place.path} is longer than {BYTES_MAX} bytes")
    return found
