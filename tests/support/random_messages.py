"""Random but valid messages, made from the declarations themselves.

The values stay small and the names few, so that many of the requests reach the handlers instead
of being refused at the first look-up.
"""

from __future__ import annotations

import random
from typing import Any

from moldau.records.batch_codec import Record, encode_batch
from moldau.wire.schema import Field, Message, Struct

TOPICS = ["hostile", "hostile-two", "missing", "", "..", "a" * 300, "bad/name", "ünïcode"]
WORDS = [*TOPICS, "retention.ms", "cleanup.policy", "1", "0", "-1", "compact", "PLAINTEXT"]
NUMBERS = [-(2**15), -3, -2, -1, 0, 0, 0, 0, 1, 1, 2, 5, 100, 2**15 - 1]
LARGE_NUMBERS = [*NUMBERS, 2**31 - 1, -(2**31), 1_000_000]
TINY_NUMBERS = [-128, -1, 0, 0, 1, 2, 127]


class RandomMessages:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        records = [Record(i, 1_700_000_000_000 + i, b"k", b"v" * 20, ()) for i in range(3)]
        self.batch = encode_batch(records)

    def message(self, cls: type[Message], version: int) -> Message:
        made = self._struct(cls, version, depth=0)
        assert isinstance(made, Message)
        return made

    def _struct(self, cls: type[Struct], version: int, depth: int) -> Struct:
        values = {
            field.name: self._value(field, version, depth)
            for field in cls.__fields__
            if version in field.versions
        }
        return cls(**values)

    def _value(self, field: Field, version: int, depth: int) -> Any:
        if field.name == "max_wait_ms":
            # A parked fetch would keep what follows on its connection from being read.
            return self.dice.choice((-1, 0, 0, 0, 1, 3))
        if version in field.nullable and self.dice.random() < 0.15:
            return None
        if field.is_array:
            count = self.dice.choice((0, 1, 1, 1, 2, 3)) if depth < 4 else 0
            return [self._element(field, version, depth) for _ in range(count)]
        return self._element(field, version, depth)

    def _element(self, field: Field, version: int, depth: int) -> Any:
        if field.struct is not None:
            return self._struct(field.struct, version, depth + 1)
        kind = field.primitive
        assert kind is not None
        dice = self.dice
        match kind.name:
            case "bool":
                return dice.random() < 0.5
            case "int8":
                return dice.choice(TINY_NUMBERS)
            case "int16":
                return dice.choice(NUMBERS)
            case "int32" | "int64":
                return dice.choice(LARGE_NUMBERS)
            case "uint16" | "uint32":
                return dice.choice((0, 1, 9092, 65535))
            case "float64":
                return dice.choice((0.0, -1.0, 1e300))
            case "uuid":
                return dice.choice((bytes(16), dice.randbytes(16)))
            case "bytes":
                return dice.randbytes(dice.randrange(20))
            case "records":
                return self.batch if dice.random() < 0.8 else dice.randbytes(dice.randrange(100))
            case _:
                return dice.choice(WORDS)
