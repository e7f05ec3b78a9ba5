"""The send queue against a socket that takes only a little at a time."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest

from moldau.model.file_regions import FileRegion
from moldau.net.send_queue import TURN_BYTES_MAX, SendQueue
from moldau.net.transport import PlainTransport


def drain(outgoing: SendQueue, there: socket.socket) -> bytes:
    received = b""
    while outgoing.bytes_unsent:
        outgoing.send()
        received += there.recv(1 << 20)
    there.setblocking(False)
    while True:
        try:
            received += there.recv(1 << 20)
        except BlockingIOError:
            return received


@pytest.mark.parametrize("copies_files", [False, True], ids=["sendfile", "copied"])
def test_bytes_and_regions_leave_in_order(tmp_path: Path, copies_files: bool) -> None:
    content = random.Random(1).randbytes(1_500_000)
    path = tmp_path / "segment"
    path.write_bytes(content)
    here, there = socket.socketpair()
    here.setblocking(False)
    outgoing = SendQueue(PlainTransport(here, copies_files=copies_files))
    with here, there, path.open("rb") as file:
        outgoing.push([b"head", FileRegion(file, 10, 1_000_000), b"", b"a" * 70_000])
        outgoing.push([b"next", FileRegion(file, 0, 0), FileRegion(file, 1_499_999, 1), b"end"])
        wanted = b"head" + content[10:1_000_010] + b"a" * 70_000 + b"next" + content[-1:] + b"end"
        assert outgoing.bytes_unsent == len(wanted)
        assert drain(outgoing, there) == wanted


def test_a_turn_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(100))
    here, there = socket.socketpair()
    with here, there:
        there.setblocking(False)
        here.setblocking(False)
        outgoing = SendQueue(PlainTransport(here))
        outgoing.push([bytes(3 * TURN_BYTES_MAX)])
        taken = outgoing.send()
        assert 0 < taken < 3 * TURN_BYTES_MAX
        assert outgoing.bytes_unsent == 3 * TURN_BYTES_MAX - taken


def test_many_small_pieces_are_gathered() -> None:
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        outgoing = SendQueue(PlainTransport(here))
        pieces = [b"%d," % number for number in range(1000)]
        outgoing.push(pieces)
        assert drain(outgoing, there) == b"".join(pieces)
