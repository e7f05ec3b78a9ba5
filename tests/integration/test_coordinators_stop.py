"""A broker that stops in order lets the members of its groups know."""

from __future__ import annotations

import os
import signal
import socket
import struct
from pathlib import Path

from moldau.model.errors import Error
from moldau.testing.broker_process import BrokerProcess
from moldau.wire.messages.groups import (
    FindCoordinatorRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from moldau.wire.request_framing import decode_response, encode_request
from moldau.wire.schema import Message

FIND_COORDINATOR, JOIN_GROUP = 10, 11
SECONDS_MAX = 15.0


class Client:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), SECONDS_MAX)

    def send(self, api_key: int, version: int, request: Message) -> None:
        self._socket.sendall(encode_request(api_key, version, 1, "client", request))

    def receive(self, api_key: int, version: int) -> Message:
        (size,) = struct.unpack(">i", self._exactly(4))
        return decode_response(api_key, version, self._exactly(size))

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = self._socket.recv(size - len(found))
            assert piece, "the connection was closed"
            found += piece
        return found

    def close(self) -> None:
        self._socket.close()


def test_a_member_that_waits_is_told_to_look_for_another_coordinator(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, overrides={"offsets.topic.num.partitions": "1"}) as broker:
        client = Client(broker.port)
        client.send(FIND_COORDINATOR, 2, FindCoordinatorRequest(key="g"))
        assert client.receive(FIND_COORDINATOR, 2).error_code == Error.NONE  # type: ignore[attr-defined]
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        # A new group waits three seconds for more members: long enough to stop meanwhile.
        client.send(JOIN_GROUP, 3, join)
        other = Client(broker.port)
        other.send(FIND_COORDINATOR, 2, FindCoordinatorRequest(key="g"))
        other.receive(FIND_COORDINATOR, 2)
        os.kill(broker.pid, signal.SIGTERM)
        answer = client.receive(JOIN_GROUP, 3)
        assert answer.error_code == Error.NOT_COORDINATOR  # type: ignore[attr-defined]
        client.close()
        other.close()
        assert broker.wait() == 0
