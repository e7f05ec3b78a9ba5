"""Valid requests that ask for too much: extreme counts, repeated names, huge strings, odd batches.

Made from the declarations of `moldau/wire`, for every API in every version. What a field is called
decides which values make sense in it, so that most requests get past the first check of a handler.
Names come from small pools: a client may fill a broker with topics, and that is no fault of the
broker's. Nothing here names what the healthy client of a test uses.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Any

from moldau.records.batch import CRC_START
from moldau.records.batch_codec import Record, encode_batch
from moldau.records.checksum import crc32c
from moldau.records.compression import Codec
from moldau.wire.apis import api, request_class
from moldau.wire.primitives import EncodeError
from moldau.wire.request_framing import encode_request
from moldau.wire.schema import Field, Message, Struct
from tests.support.old_messages import Old, plain

TOPICS = [f"hostile-{n}" for n in range(12)]
NO_TOPICS = ["", ".", "..", "bad/name", "ünïcode", "a" * 249, "a" * 250, "nul\0", "missing"]
GROUPS = [*(f"crowd-{n}" for n in range(20)), "", "g" * 1_000]
TRANSACTIONS = [*(f"deal-{n}" for n in range(20)), "", "t" * 1_000]
INTERNAL = ["__consumer_offsets", "__transaction_state"]
WORDS = [
    *("", "0", "1", "-1", "range", "consumer", "compact", "delete", "9223372036854775807", "zstd"),
    *("retention.ms", "segment.bytes", "cleanup.policy", "max.message.bytes", "flush.messages"),
    *("transaction.version", "PLAINTEXT", "root", "kafka.server.KafkaApis", "(.+)+$", "\0", "😀"),
]
EXTREMES: dict[str, Any] = {
    "int8": [-128, -1, 0, 1, 2, 4, 8, 16, 32, 127],
    "int16": [-(2**15), -2, -1, 0, 1, 2, 3, 100, 2**15 - 1],
    "int32": [-(2**31), -2, -1, 0, 1, 2, 1000, 2**31 - 1],
    "int64": [-(2**63), -2, -1, 0, 1, 2, 1000, 2**31, 2**63 - 1],
    "uint16": [0, 1, 9092, 2**16 - 1],
    "uint32": [0, 1, 2**32 - 1],
    "float64": [0.0, -1.0, 1e308, float("inf"), float("nan")],
}
NUMBERS_OF = {
    # A request that rests keeps what follows on its connection from being read.
    "max_wait_ms": [-(2**31), -1, 0, 0, 1, 20],
    "timeout_ms": [-1, 0, 1, 1000, 2**31 - 1],
    "session_timeout_ms": [-1, 6_000, 6_000, 10_000, 1_800_000, 2**31 - 1],
    "rebalance_timeout_ms": [-1, 0, 1, 50, 2**31 - 1],
    "acks": [-1, 1, 1, 0, 5],
    "replica_id": [-1, -1, -1, -2, 0, 1],
    # Nine thousand partitions are allowed, and cost what they cost.
    "num_partitions": [-1, 0, 1, 1, 2, 3, 20_001, 2**31 - 1],
    "count": [-1, 0, 1, 2, 3, 4, 5, 20_001, 2**31 - 1],
    "replication_factor": [-1, 1, 1, 0, 2, 2**15 - 1],
    "isolation_level": [0, 1, -1],
    "resource_type": [2, 2, 4, 8, 16, 32, 0, -1],
    "key_type": [0, 1, 0, 1, 2, -1],
}
ENTRIES = [3] * 40 + [30] * 12 + [300] * 6 + [3_000] * 3 + [30_000]
"""How many entries the arrays of one request have together, at most."""
LONG_STRINGS = [300, 3_000, 32_000, 32_767, 40_000, 200_000]
LONG_BYTES = [0, 10, 100, 1_000, 100_000, 1_000_000]
FRAME_BYTES = 20_000_000
"""What long values may add to a request."""
DISTINCT_MAX = 40
"""Entries of a long array that differ; after those they begin again."""


class HostileMessages:
    def __init__(
        self, dice: random.Random, topic_ids: Sequence[bytes] = (), entries_max: int = 30_000
    ) -> None:
        self._dice = dice
        self._entries = [count for count in ENTRIES if count <= entries_max]
        self._topic_ids = [*topic_ids, bytes(16)]
        self._batches = _batches()
        self._copies = 1
        """How often the value that is being made will stand in its request, at most."""

    def frame(self, api_key: int, version: int) -> bytes:
        """One request of this kind; at times its header or its tagged fields are extreme too."""
        dice, cls = self._dice, request_class(api_key)
        frame = b""
        while not frame:
            client = dice.choice(("", "hostile", "c" * 200, None))
            try:
                message = self._struct(cls, version, dice.choice(self._entries))
                assert isinstance(message, Message)
                frame = encode_request(api_key, version, dice.randrange(2**31), client, message)
            except EncodeError:
                continue  # a string that this version has no room for
        row = api(api_key)
        assert row is not None
        if row.is_flexible(version) and frame[-1] == 0 and dice.random() < 0.05:
            frame = _with_tags(frame, dice)
        return frame

    def _struct(self, cls: type[Struct], version: int, entries: int) -> Struct:
        values = {
            field.name: self._value(field, version, entries, cls.__name__)
            for field in cls.__fields__
            if version in field.versions
        }
        return cls(**values)

    def _value(self, field: Field, version: int, entries: int, owner: str) -> Any:
        if version in field.nullable and self._dice.random() < 0.1:
            return None
        if field.is_array:
            return self._array(field, version, entries, owner)
        return self._element(field, version, entries, owner)

    def _array(self, field: Field, version: int, entries: int, owner: str) -> list[Any]:
        dice = self._dice
        count = dice.choice((0, 1, 1, 1, 2, 3, entries, entries))
        count = min(count, entries)
        if not count:
            return []
        distinct = dice.choice((1, 2, min(count, DISTINCT_MAX)))
        rest = max(1, entries // count)
        self._copies *= count
        made = [self._element(field, version, rest, owner) for _ in range(min(count, distinct))]
        self._copies //= count
        return (made * (count // len(made) + 1))[:count]

    def _element(self, field: Field, version: int, entries: int, owner: str) -> Any:
        if field.struct is not None:
            return self._struct(field.struct, version, entries)
        assert field.primitive is not None
        dice, kind, name = self._dice, field.primitive.name, field.name
        match kind:
            case "bool":
                return dice.random() < 0.5
            case "uuid":
                return dice.choice([*self._topic_ids, dice.randbytes(16)])
            case "bytes":
                size = dice.choice(LONG_BYTES) if dice.random() < 0.1 else dice.randrange(40)
                return bytes(self._fitting(size))
            case "records":
                return self._records()
            case "string":
                return self._string(name, owner)
        if dice.random() < 0.8:
            if name in NUMBERS_OF:
                return dice.choice(NUMBERS_OF[name])
            if "partition" in name and kind == "int32":
                return dice.choice((0, 0, 0, 1, 2, -1))
        if name in ("max_wait_ms", "num_partitions", "count"):
            return dice.choice(NUMBERS_OF[name])
        return dice.choice(EXTREMES[kind])

    def _string(self, name: str, owner: str) -> str:
        dice = self._dice
        if dice.random() < 0.01:
            return dice.choice("xü") * self._fitting(dice.choice(LONG_STRINGS))
        if "group" in name or (name in ("key", "coordinator_keys") and dice.random() < 0.7):
            return dice.choice(GROUPS)
        if "transactional" in name:
            return dice.choice(TRANSACTIONS)
        if "topic" in name or name == "resource_name" or (name == "name" and "opic" in owner):
            pools = [TOPICS, TOPICS, TOPICS, NO_TOPICS, WORDS]
            # Who deletes the coordinators' topics has deleted what everybody committed.
            if "Delete" not in owner and "Alter" not in owner:
                pools.append(INTERNAL)
            return dice.choice(dice.choice(pools))
        return dice.choice(WORDS)

    def _fitting(self, size: int) -> int:
        """A request that is longer than brokers take is refused by its size alone."""
        return min(size, FRAME_BYTES // self._copies)

    def _records(self) -> bytes:
        dice = self._dice
        if dice.random() < 0.05:
            return dice.randbytes(dice.randrange(200))
        fitting = [batch for batch in self._batches if len(batch) == self._fitting(len(batch))]
        batch = dice.choice(fitting or [b""])
        return batch if dice.random() < 0.5 else _tampered(batch, dice)


def _batches() -> list[bytes]:
    """What producers send, and what they would never send."""
    few = [Record(n, 1_700_000_000_000 + n, b"k", b"v" * 20, ()) for n in range(3)]
    empty = [Record(n, 1_700_000_000_000) for n in range(5_000)]
    headers = [Record(0, 1, b"k", b"v", (("h", b"x"),) * 2_000)]
    batches = [encode_batch(few) for _ in range(8)]
    batches += [encode_batch(few, codec=codec) for codec in Codec]
    batches += [encode_batch(empty), encode_batch(headers), encode_batch(few) * 20]
    batches.append(encode_batch(few, producer_id=7, producer_epoch=0, base_sequence=0))
    batches.append(
        encode_batch(few, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    )
    bomb = [Record(0, 1, None, bytes(5_000_000))]
    batches += [encode_batch(bomb, codec=codec) for codec in (Codec.ZSTD, Codec.GZIP)]
    return [*batches, plain([Old(b"k", b"v")] * 3, 0), plain([Old(b"k", b"v", 5)] * 3, 1)]


def _tampered(batch: bytes, dice: random.Random) -> bytes:
    """Another value in one field of the header, and a checksum that is right."""
    data = bytearray(batch)
    at, code = dice.choice(
        ((21, "h"), (23, "i"), (27, "q"), (35, "q"), (43, "q"), (51, "h"), (53, "i"), (57, "i"))
    )
    if len(data) < 61:
        return batch
    kind = {"h": "int16", "i": "int32", "q": "int64"}[code]
    struct.pack_into(f">{code}", data, at, dice.choice(EXTREMES[kind]))
    (length,) = struct.unpack_from(">i", data, 8)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[CRC_START : 12 + length])))
    return bytes(data)


def _with_tags(frame: bytes, dice: random.Random) -> bytes:
    """Tagged fields that nobody knows, at the end of the body."""
    count = dice.choice((1, 10, 1_000))
    size = dice.choice((0, 1, 100, 5_000))
    tags = b"".join(_varint(200 + n) + _varint(size) + bytes(size) for n in range(count))
    body = frame[4:-1] + _varint(count) + tags
    return struct.pack(">i", len(body)) + body


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    data.append(number)
    return bytes(data)
