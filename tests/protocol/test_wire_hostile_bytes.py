"""Whatever the bytes: a decoder returns a message or raises DecodeError, and stays frugal."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from moldau.wire.primitives import DecodeError, uvarint
from moldau.wire.schema import Message
from tests.protocol import oracle
from tests.support import seeds

OURS = oracle.our_messages()
MUTATIONS = 60


def first_and_newest() -> list[Any]:
    """The newest version of each message, and its oldest, which is mostly not flexible."""
    versions: dict[str, list[Any]] = {}
    for theirs, version in oracle.entities():
        versions.setdefault(theirs.__name__, []).append((theirs, version))
    chosen = [pair for pairs in versions.values() for pair in {pairs[0], pairs[-1]}]
    return sorted(chosen, key=lambda pair: (pair[0].__name__, pair[1]))


SAMPLES: list[tuple[type[Message], int, bytes]] = [
    (
        OURS[theirs.__name__],
        version,
        oracle.encode(
            oracle.Draw(f"hostile {theirs.__name__} {version}", oracle.SHAPES["full"]).entity(
                theirs
            )
        ),
    )
    for theirs, version in first_and_newest()
]


def test_a_message_cut_short_anywhere_is_refused() -> None:
    for cls, version, data in SAMPLES:
        # Every length near the ends, where headers and tags are; a stride between.
        lengths = {*range(min(80, len(data))), *range(0, len(data), 7), len(data) - 1}
        for length in sorted(lengths - {-1}):
            with pytest.raises(DecodeError):
                cls.decode(data[:length], version)


def test_flipped_bytes_never_raise_anything_but_decode_error() -> None:
    draw = seeds.chance(20)
    for cls, version, data in SAMPLES:
        for _ in range(MUTATIONS):
            mutant = bytearray(data)
            for _ in range(draw.choice([1, 1, 2, 8])):
                if mutant:
                    mutant[draw.randrange(len(mutant))] = draw.choice([0, 127, 128, 255])
            try:
                cls.decode(memoryview(mutant), version)
            except DecodeError:
                continue


def test_noise_never_raises_anything_but_decode_error() -> None:
    draw = seeds.chance(21)
    for cls, version, _ in SAMPLES:
        for size in (1, 9, 200):
            try:
                cls.decode(draw.randbytes(size), version)
            except DecodeError:
                continue


@pytest.mark.parametrize(
    ("name", "version", "start"),
    [
        ("MetadataRequest", 1, b""),
        ("MetadataRequest", 9, b""),
        ("DeleteTopicsRequest", 1, b""),
        ("ListGroupsRequest", 4, b""),
        ("DescribeProducersRequest", 0, uvarint(2) + uvarint(2) + b"t"),
    ],
)
def test_a_huge_count_is_refused_without_allocating_for_it(
    name: str, version: int, start: bytes
) -> None:
    cls = OURS[name]
    count = uvarint(2**31 - 1) if version in cls.__flexible__ else b"\x7f\xff\xff\xff"
    data = start + count + bytes(64)
    with pytest.raises(DecodeError):  # compiles the decoder, which should not be measured
        cls.decode(data, version)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            cls.decode(data, version)
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()
