"""How `cat` prints a record: text with letters of kcat after a percent sign.

A format is read once into pieces, each a function of a record; printing is joining them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from moldau.cli.command_faults import UsageFault
from moldau.cli.records.short_form import unescaped
from moldau.client.consumer.consumer_records import ConsumerRecord

Piece = Callable[[ConsumerRecord], bytes]

NULL = b"NULL"
PARTS = re.compile(r"(%%|%.|%$)", re.DOTALL)


def format_of(text: str, null: bytes = b"") -> Piece:
    """`null` stands for a key or value that is not there. Raises UsageFault."""
    letters = letters_of(null)
    pieces: list[Piece] = []
    for part in PARTS.split(text):
        if part == "%%":
            pieces.append(constant(b"%"))
        elif part.startswith("%"):
            letter = letters.get(part[1:])
            if letter is None:
                known = ", ".join(f"%{each}" for each in letters)
                raise UsageFault(f"--format: {part} is not known; there are {known} and %%")
            pieces.append(letter)
        elif part:
            pieces.append(constant(unescaped(part)))
    return lambda record: b"".join(piece(record) for piece in pieces)


def constant(content: bytes) -> Piece:
    return lambda record: content


def letters_of(null: bytes) -> dict[str, Piece]:
    def value(record: ConsumerRecord) -> bytes:
        return null if record.value is None else record.value

    def key(record: ConsumerRecord) -> bytes:
        return null if record.key is None else record.key

    return {
        "v": value,
        "s": value,
        "S": lambda record: number(size_of(record.value)),
        "V": lambda record: number(size_of(record.value)),
        "R": lambda record: size_of(record.value).to_bytes(4, "big", signed=True),
        "k": key,
        "K": lambda record: number(size_of(record.key)),
        "t": lambda record: record.topic.encode(),
        "p": lambda record: number(record.partition),
        "o": lambda record: number(record.offset),
        "T": lambda record: number(record.timestamp),
        "h": headers_of,
    }


def number(value: int) -> bytes:
    return b"%d" % value


def size_of(content: Any) -> int:
    return -1 if content is None else len(content)


def headers_of(record: ConsumerRecord) -> bytes:
    return b",".join(
        name.encode() + b"=" + (NULL if value is None else value) for name, value in record.headers
    )
