"""Which producer ids the files of a stopped broker know, so that none is given to somebody else.

A partition takes the first batch of a producer for a repetition if an earlier producer of that id
began with a batch like it: it is acknowledged and never stored. So every place counts where an id
may be: the snapshots of producers, the batches behind the last snapshot (a broker that was killed
leaves them without one), and what coordinators have stored of transactional ids, whose producers
may come back though they have written nothing yet.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from moldau.model.names import TopicPartition
from moldau.records.batch import CRC_START, BatchHeader
from moldau.records.batch_codec import decode_batch
from moldau.records.checksum import crc32c
from moldau.storage.log.batch_walk import read_batch, walk_headers
from moldau.storage.log_files import LOG_SUFFIX, offset_file_name, parse_offset_file_name
from moldau.storage.log_state.producer_snapshots import read_snapshot, snapshot_offsets
from moldau.storage.storage_faults import CorruptFile

TRANSACTIONS_TOPIC = "__transaction_state"
NONE = -1
_STORED = struct.Struct(">hq")
"""How what is stored of a transactional id begins: a version, and its producer id."""


def next_producer_id(places: Mapping[TopicPartition, str]) -> int:
    """Greater than any in the directories of these partitions. Raises OSError."""
    largest = NONE
    for partition, path in places.items():
        largest = max(largest, _largest_in(path))
        if partition.topic == TRANSACTIONS_TOPIC:
            largest = max([largest, *_of_transactional_ids(path)])
    return largest + 1


def _largest_in(path: str) -> int:
    largest, covered = NONE, 0
    for offset in snapshot_offsets(os.listdir(path)):
        try:
            entries = read_snapshot(path, offset)
        except CorruptFile:
            continue
        covered = max(covered, offset)
        largest = max([largest, *(entry.producer_id for entry in entries)])
    bases = _segments(path)
    for base, end in zip(bases, [*bases[1:], None], strict=True):
        if end is None or end > covered:
            largest = _largest_written(path, base, largest)
    return largest


def _largest_written(path: str, base: int, largest: int) -> int:
    """By the batches of one segment, or `largest` if that is more."""
    with _opened(path, base) as file:
        for position, header in _headers(file):
            if header.producer_id > largest:
                if not _is_whole(read_batch(file.fileno(), position, header), header):
                    # Recovery drops what is from here on.
                    break
                largest = header.producer_id
    return largest


def _of_transactional_ids(path: str) -> Iterator[int]:
    for base in _segments(path):
        with _opened(path, base) as file:
            for position, header in _headers(file):
                batch = read_batch(file.fileno(), position, header)
                if not _is_whole(batch, header):
                    break
                for record in () if header.is_control else decode_batch(batch):
                    if record.value is not None and len(record.value) >= _STORED.size:
                        yield _STORED.unpack_from(record.value)[1]


def _opened(path: str, base: int) -> BinaryIO:
    return open(os.path.join(path, offset_file_name(base, LOG_SUFFIX)), "rb")


def _headers(file: BinaryIO) -> Iterator[tuple[int, BatchHeader]]:
    return walk_headers(file.fileno(), 0, os.fstat(file.fileno()).st_size)


def _is_whole(batch: bytes, header: BatchHeader) -> bool:
    return crc32c(memoryview(batch)[CRC_START:]) == header.crc


def _segments(path: str) -> list[int]:
    parsed = map(parse_offset_file_name, os.listdir(path))
    return sorted(each[0] for each in parsed if each is not None and each[1] == LOG_SUFFIX)
