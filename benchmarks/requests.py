"""The few requests that the load needs, as bytes, encoded here by hand.

Nothing of Moldau's own encoder is used, so a benchmark cannot be right by sharing its mistakes.
Every request carries the same correlation id: the load counts answers, it does not match them.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crc32c import crc32c

PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_TOPICS = 0, 1, 2, 3, 19
CORRELATION_ID = 7
LATEST, EARLIEST = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
HEADER = struct.Struct(">hhih")
NO_TAGS = b"\x00"
PRODUCE_VERSION, FETCH_VERSION = 12, 12


class Batch(NamedTuple):
    encoded: bytes
    record_count: int


def unsigned_varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def varint(number: int) -> bytes:
    return unsigned_varint(number << 1 if number >= 0 else (-number << 1) - 1)


def batch(record_bytes: int, record_count: int, timestamp_ms: int) -> Batch:
    """One uncompressed record batch of records without keys, each value of `record_bytes`."""
    value = (b"0123456789abcdef" * (record_bytes // 16 + 1))[:record_bytes]
    records = bytearray()
    for delta in range(record_count):
        body = b"\x00\x00" + varint(delta) + b"\x01" + varint(len(value)) + value + b"\x00"
        records += varint(len(body)) + body
    checked = (
        struct.pack(
            ">hiqqqhii", 0, record_count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, record_count
        )
        + records
    )
    head = struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c(checked))
    return Batch(head + checked, record_count)


def framed(api_key: int, version: int, body: bytes, *, flexible: bool) -> bytes:
    header = HEADER.pack(api_key, version, CORRELATION_ID, 5) + b"bench"
    if flexible:
        header += NO_TAGS
    return struct.pack(">i", len(header) + len(body)) + header + body


def compact(data: bytes) -> bytes:
    return unsigned_varint(len(data) + 1) + data


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def produce(
    topic: str,
    partition: int,
    records: bytes,
    acks: int = 1,
    transactional_id: str | None = None,
    version: int = PRODUCE_VERSION,
) -> bytes:
    row = struct.pack(">i", partition) + compact(records) + NO_TAGS
    rows = unsigned_varint(2) + compact(topic.encode()) + unsigned_varint(2) + row + NO_TAGS
    told_id = unsigned_varint(0) if transactional_id is None else compact(transactional_id.encode())
    body = told_id + struct.pack(">hi", acks, 30_000) + rows + NO_TAGS
    return framed(PRODUCE, version, body, flexible=True)


def produce_error_position(topic: str) -> int:
    """Where an answer to `produce` has its error code; the base offset comes right after it."""
    size_correlation_tags = 4 + 4 + 1
    return size_correlation_tags + 1 + len(compact(topic.encode())) + 1 + 4


def fetch(topic: str, partition: int, offset: int, max_bytes: int, *, wait_ms: int = 500) -> bytes:
    """A fetch outside any session, answered as soon as one byte is there."""
    row = struct.pack(">iiqiqi", partition, -1, offset, -1, -1, max_bytes) + NO_TAGS
    rows = unsigned_varint(2) + compact(topic.encode()) + unsigned_varint(2) + row + NO_TAGS
    limits = struct.pack(">iiiibii", -1, wait_ms, 1, max_bytes, 0, 0, -1)
    nothing_forgotten, no_rack = unsigned_varint(1), compact(b"")
    body = limits + rows + nothing_forgotten + no_rack + NO_TAGS
    return framed(FETCH, FETCH_VERSION, body, flexible=True)


def fetch_error_position(topic: str) -> int:
    """Where an answer to `fetch` has the partition's error code."""
    top = 4 + 4 + 1 + 4 + 2 + 4
    return top + 1 + len(compact(topic.encode())) + 1 + 4


def fetch_records_position(topic: str) -> int:
    """Where an answer to `fetch` has the length of its records."""
    high_watermark_to_preferred_replica = 8 + 8 + 8 + 1 + 4
    return fetch_error_position(topic) + 2 + high_watermark_to_preferred_replica


def metadata(topic: str, *, create: bool = False) -> bytes:
    body = struct.pack(">i", 1) + string(topic) + struct.pack(">?", create)
    return framed(METADATA, 4, body, flexible=False)


def create_topic(topic: str, partitions: int) -> bytes:
    no_assignments_no_configs = struct.pack(">ii", 0, 0)
    row = string(topic) + struct.pack(">ih", partitions, 1) + no_assignments_no_configs
    body = struct.pack(">i", 1) + row + struct.pack(">i?", 30_000, False)
    return framed(CREATE_TOPICS, 4, body, flexible=False)


def list_offsets(
    topic: str, partition: int, timestamp: int, isolation: int = READ_UNCOMMITTED
) -> bytes:
    row = struct.pack(">iiq", partition, -1, timestamp)
    rows = struct.pack(">i", 1) + string(topic) + struct.pack(">i", 1) + row
    return framed(LIST_OFFSETS, 4, struct.pack(">ib", -1, isolation) + rows, flexible=False)
