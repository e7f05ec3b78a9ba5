"""Frames come out of a stream as they went in, however it is cut."""

from __future__ import annotations

import random
import struct

import pytest

from moldau.net.request_frames import SHARED_BYTES, FrameBuffer, FrameError
from tests.support import seeds


def feed(buffer: FrameBuffer, stream: bytes, cuts: random.Random) -> list[bytes]:
    frames = []
    position = 0
    while position < len(stream):
        room = buffer.writable()
        count = min(len(room), len(stream) - position, cuts.choice([1, 3, 100, 5000, 200_000]))
        room[:count] = stream[position : position + count]
        position += count
        frames += [bytes(frame.view) for frame in buffer.advance(count)]
    return frames


@pytest.mark.parametrize("seed", seeds.parameters(20))
def test_any_cut_of_a_stream_gives_the_same_frames(seed: int) -> None:
    cuts = random.Random(seed)
    sizes = [4, 10, 1000, SHARED_BYTES - 4, SHARED_BYTES - 3, SHARED_BYTES, 300_000]
    bodies = [cuts.randbytes(cuts.choice(sizes)) for _ in range(30)]
    stream = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    assert feed(FrameBuffer(1_000_000), stream, cuts) == bodies


def test_a_large_frame_is_received_where_it_stays() -> None:
    buffer = FrameBuffer(1_000_000)
    buffer.writable()[:8] = struct.pack(">i", 200_000) + b"abcd"
    assert buffer.advance(8) == []
    rest = buffer.writable()
    assert len(rest) == 200_000 - 4
    (frame,) = buffer.advance(len(rest))
    assert not frame.is_lent
    rest[0] = ord("x")
    assert bytes(frame.view[:5]) == b"abcdx"


def test_frames_that_share_a_buffer_are_only_lent() -> None:
    buffer = FrameBuffer(1000)
    buffer.writable()[:16] = (struct.pack(">i", 4) + b"abcd") * 2
    assert [frame.is_lent for frame in buffer.advance(16)] == [True, True]


@pytest.mark.parametrize("size", [-1, 0, 3, 1001, 2**31 - 1])
def test_an_impossible_size_is_refused_before_anything_is_allocated(size: int) -> None:
    buffer = FrameBuffer(1000)
    buffer.writable()[:4] = struct.pack(">i", size)
    with pytest.raises(FrameError):
        buffer.advance(4)
