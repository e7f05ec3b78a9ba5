"""Every message in every version, byte for byte, against an independent implementation."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from moldau.wire.apis import APIS, request_class, response_class
from moldau.wire.schema import Message
from tests.protocol import oracle
from tests.support import seeds

OURS = oracle.our_messages()


def compare(theirs: type[Any], version: int, seed: str) -> None:
    """Both directions for one random instance; the seed names message, version and shape."""
    cls = OURS[theirs.__name__]
    entity = oracle.Draw(seed, oracle.SHAPES[seed.split()[2]]).entity(theirs)
    data = oracle.encode(entity)

    decoded, position = cls.decode_from(data, version)
    assert position == len(data)
    assert decoded.encode(version) == data

    built = oracle.ours(entity, cls)
    assert decoded == built
    encoded = built.encode(version)
    assert encoded == data
    assert oracle.decode(theirs, encoded) == entity


def test_every_message_in_every_version_agrees_with_the_oracle(
    record_compared: Any,
) -> None:
    faults = []
    pairs = list(oracle.entities())
    numbers = list(seeds.several(1, first=0))
    for theirs, version in pairs:
        for shape, number in itertools.product(oracle.SHAPES, numbers):
            seed = f"{theirs.__name__} {version} {shape} {number}"
            try:
                compare(theirs, version, seed)
            except (AssertionError, ValueError, KeyError, TypeError) as fault:
                faults.append(f"{seed}: {type(fault).__name__} {str(fault)[:200]}")
    assert not faults, "\n".join(faults)
    assert len(pairs) >= oracle.index_size()
    record_compared(len(pairs), len(pairs) * len(oracle.SHAPES) * len(numbers))


def test_every_message_of_the_oracle_is_declared_with_its_versions() -> None:
    for theirs, version in oracle.entities():
        assert version in OURS[theirs.__name__].__versions__
        assert theirs.__flexible__ == (version in OURS[theirs.__name__].__flexible__)


@pytest.mark.parametrize("row", APIS, ids=lambda row: row.name)
def test_the_table_of_apis_says_what_the_declarations_say(row: Any) -> None:
    for cls in (request_class(row.key), response_class(row.key)):
        assert issubclass(cls, Message)
        assert (cls.__versions__.first, cls.__versions__.last) == (
            row.version_min,
            row.version_max,
        )
        for version in range(row.version_min, row.version_max + 1):
            assert (version in cls.__flexible__) == row.is_flexible(version)
