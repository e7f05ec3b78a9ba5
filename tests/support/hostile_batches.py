"""Batches that take long to look through: made quickly, of the same bytes again and again."""

from __future__ import annotations

import time

from moldau.records.batch import read_header
from moldau.records.batch_codec import Record, assemble, encode_batch
from moldau.records.compression import Codec, compress
from tests.support.old_messages import Old, message

_EMPTY_HEADER = b"\x00\x01"
"""A key of no characters, and no value."""


def batch_of_many(count: int, codec: Codec = Codec.NONE) -> bytes:
    """So many records that hold nothing, made without an object for each; all but the first are of
    the first one's time."""
    body = b"".join(b"%c\x00\x00%b\x01\x01\x00" % _delta(n) for n in range(count))
    return _batch(body, count, codec)


def batch_of_headers(count: int, codec: Codec) -> bytes:
    """One record with so many headers."""
    record = b"\x00\x00\x00\x01\x01" + _zigzag(count) + _EMPTY_HEADER * count
    return _batch(_zigzag(len(record)) + record, 1, codec)


def messages_of_old(count: int) -> bytes:
    """What a producer of 0.9 sends."""
    return message(Old(None, b""), 0) * count


def _batch(body: bytes, count: int, codec: Codec) -> bytes:
    head = encode_batch([Record(0, int(time.time() * 1000))])
    header = read_header(head)._replace(
        record_count=count, last_offset_delta=count - 1, attributes=int(codec)
    )
    return bytes(assemble(header, compress(codec, body)))


def _delta(number: int) -> tuple[int, bytes]:
    delta = _zigzag(number)
    return (5 + len(delta)) << 1, delta


def _zigzag(number: int) -> bytes:
    out, left = bytearray(), number << 1
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    out.append(left)
    return bytes(out)
