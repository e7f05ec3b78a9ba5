"""Producer state on disk: `<offset>.snapshot` holds what was known before `<offset>`.

Version 1 of Apache Kafka's format: version, CRC-32C of the rest, count, entries of 46 bytes. One
is written at every roll and at a clean stop, so that start-up scans little of the log.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable

from moldau.records.checksum import crc32c
from moldau.storage.log_files import (
    SNAPSHOT_SUFFIX,
    offset_file_name,
    parse_offset_file_name,
    read_whole,
    remove_if_there,
    write_whole,
)
from moldau.storage.log_state.producer_state import BatchSpan, ProducerEntry
from moldau.storage.storage_faults import CorruptFile

VERSION = 1
_PREFIX = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


def snapshot_path(directory: str, offset: int) -> str:
    return os.path.join(directory, offset_file_name(offset, SNAPSHOT_SUFFIX))


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """Of the given file names those that are snapshots, as growing offsets."""
    parsed = (parse_offset_file_name(name) for name in names)
    return sorted(offset for offset, suffix in filter(None, parsed) if suffix == SNAPSHOT_SUFFIX)


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    rows = [_encode_entry(entry) for entry in entries]
    body = _COUNT.pack(len(rows)) + b"".join(rows)
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def decode_snapshot(content: bytes, path: str) -> list[ProducerEntry]:
    if len(content) < _PREFIX.size + _COUNT.size:
        raise CorruptFile(path, f"a snapshot of {len(content)} bytes is too short")
    version, crc = _PREFIX.unpack_from(content)
    body = content[_PREFIX.size :]
    if version != VERSION:
        raise CorruptFile(path, f"unknown snapshot version {version}")
    if crc != crc32c(body):
        raise CorruptFile(path, "the snapshot's checksum is wrong")
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptFile(path, f"a snapshot of {count} entries has {len(content)} bytes")
    return [_decode_entry(row) for row in _ENTRY.iter_unpack(body[_COUNT.size :])]


def write_snapshot(directory: str, offset: int, entries: Iterable[ProducerEntry]) -> None:
    # Without fsync: a snapshot that a power cut tore fails its checksum and is passed over.
    write_whole(snapshot_path(directory, offset), encode_snapshot(entries), durable=False)


def read_snapshot(directory: str, offset: int) -> list[ProducerEntry]:
    path = snapshot_path(directory, offset)
    content = read_whole(path)
    if content is None:
        raise CorruptFile(path, "the file is gone")
    return decode_snapshot(content, path)


def remove_snapshots(directory: str, *, before: int | None = None) -> None:
    """Those before an offset, or all."""
    for offset in snapshot_offsets(os.listdir(directory)):
        if before is None or offset < before:
            remove_if_there(snapshot_path(directory, offset))


def _encode_entry(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else BatchSpan(-1, -1, 0, -1)
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        last.last_sequence,
        last.offset_last,
        last.offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.txn_first_offset,
    )


def _decode_entry(row: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_first = row
    batches = [BatchSpan(sequence, offset, delta, timestamp)] if offset >= 0 else []
    return ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp, txn_first, batches)
