"""The two kinds of snapshot records, as bytes and back. Pure.

An increment is one small record of each transaction: up to which input offset everything is done,
and where the latest full snapshots are. A full snapshot is one record or several in a row, since
a record has a limit; `FULL_HEADER` of each says which part of which snapshot it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from zlib import crc32

FULLS_KEPT = 3
"""So many full snapshots an increment knows of, the latest first."""
PART_BYTES = 512 * 1024
"""Below the limit that brokers have for a record unless told otherwise, 1 MB."""
PARTS_MAX = 1 << 20
FULL_HEADER = "moldau-full"


@dataclass(frozen=True, slots=True)
class Increment:
    """Everything up to the input offset `end`, itself included, is done and its outputs written.

    `fulls` are the offsets of full snapshots in their partition, the latest first. `origin` is the
    input offset at which the state was empty. `number` counts full snapshots."""

    end: int
    fulls: tuple[int, ...] = ()
    origin: int = 0
    number: int = 0

    @property
    def full(self) -> int | None:
        """Where the latest full snapshot is."""
        return self.fulls[0] if self.fulls else None

    def encoded(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decoded(cls, value: bytes | None) -> Increment | None:
        """None if it is no increment."""
        row = _row(value, ("end", "origin", "number"))
        fulls = row.get("fulls")
        if not isinstance(fulls, list) or not all(map(_is_offset, fulls)):
            return None
        return cls(row["end"], tuple(fulls), row["origin"], row["number"])


@dataclass(frozen=True, slots=True)
class FullPart:
    """A part of a full snapshot: the state after the input offset `start`, in `parts` pieces."""

    name: str
    start: int
    part: int
    parts: int
    checksum: int
    """Of the whole state."""

    def encoded(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decoded(cls, header: bytes | None) -> FullPart | None:
        """None if it is none."""
        row = _row(header, ("start", "part", "parts", "checksum"))
        name = row.get("name")
        if not isinstance(name, str) or not row["part"] < row["parts"] <= PARTS_MAX:
            return None
        return cls(name, row["start"], row["part"], row["parts"], row["checksum"])


def parts_of(name: str, start: int, state: bytes) -> Iterator[tuple[FullPart, bytes]]:
    """A state as the parts of a snapshot: each with its bytes."""
    pieces = [state[at : at + PART_BYTES] for at in range(0, len(state), PART_BYTES)] or [b""]
    for number, piece in enumerate(pieces):
        yield FullPart(name, start, number, len(pieces), crc32(state)), piece


def state_of(found: Sequence[tuple[FullPart, bytes]]) -> tuple[int, bytes] | None:
    """The offset and the state that parts give together; None if they are not all there, or
    damaged."""
    if not found:
        return None
    first = found[0][0]
    wanted = [
        FullPart(first.name, first.start, n, first.parts, first.checksum)
        for n in range(first.parts)
    ]
    if [part for part, _ in found] != wanted:
        return None
    state = b"".join(piece for _, piece in found)
    return (first.start, state) if crc32(state) == first.checksum else None


def _row(value: bytes | None, numbers: Sequence[str]) -> dict[str, Any]:
    """A JSON object that has these numbers; an empty one if it is none."""
    try:
        row = json.loads(value or b"")
    except ValueError:
        return {}
    if not isinstance(row, dict) or not all(_is_offset(row.get(name)) for name in numbers):
        return {}
    return row


def _is_offset(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
