"""Gates between clients and servers do what the tests of clusters say of them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from tests.support.gates import HOST, Gates

SECONDS_MAX = 20.0


class Ways:
    """A client and a server, and what they have said to one another through a gate."""

    def __init__(self, gates: Gates) -> None:
        self.is_shut = False
        self._gates = gates
        self._listener = socket.create_server((HOST, 0))
        self._listener.settimeout(SECONDS_MAX)
        port = gates.open(self._listener.getsockname()[1], lambda _: self.is_shut)
        self.client = socket.create_connection((HOST, port), SECONDS_MAX)
        self.client.sendall(b"hello")
        self.server, _ = self._listener.accept()
        self.server.settimeout(SECONDS_MAX)
        assert self.server.recv(100) == b"hello"

    def shut(self, value: bool) -> None:
        self.is_shut = value
        self._gates.look()

    def close(self) -> None:
        for each in (self.client, self.server, self._listener):
            each.close()


@pytest.fixture
def ways() -> Iterator[Ways]:
    with contextlib.closing(Gates()) as gates, contextlib.closing(Ways(gates)) as made:
        yield made


def heard(end: socket.socket) -> bytes:
    """All that comes until the connection ends."""
    content = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := end.recv(100):
            content += piece
    return content


def test_what_is_said_through_a_shut_gate_arrives_when_it_opens(ways: Ways) -> None:
    ways.shut(True)
    ways.client.sendall(b"late")
    ways.server.settimeout(0.2)
    with pytest.raises(TimeoutError):
        ways.server.recv(100)
    ways.server.settimeout(SECONDS_MAX)
    ways.shut(False)
    assert ways.server.recv(100) == b"late"


def test_what_is_on_its_way_through_a_broken_connection_is_lost(ways: Ways) -> None:
    ways.shut(True)
    ways.client.sendall(b"lost")
    ways.server.sendall(b"lost too")
    ways._gates.break_shut()
    ways.shut(False)
    assert heard(ways.server) == b""
    assert heard(ways.client) == b""


def test_a_connection_through_an_open_gate_is_not_broken(ways: Ways) -> None:
    ways._gates.break_shut()
    ways.client.sendall(b"still here")
    assert ways.server.recv(100) == b"still here"
