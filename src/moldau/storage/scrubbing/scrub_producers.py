"""The state of producers before some offset, worked out from files without changing any.

Recovery does the same for itself (`producer_state_replay.py`) and removes snapshots on its way;
beside a running broker nothing may be removed.
"""

from __future__ import annotations

import os

from moldau.storage.log import producer_admission
from moldau.storage.log.batch_walk import read_batch, walk_headers
from moldau.storage.log_files import LOG_SUFFIX, offset_file_name, parse_offset_file_name
from moldau.storage.log_state.producer_snapshots import read_snapshot, snapshot_offsets
from moldau.storage.log_state.producer_state import ProducerStates
from moldau.storage.storage_faults import CorruptFile


def base_offsets(directory: str) -> list[int]:
    """Of the segments that are there."""
    parsed = (parse_offset_file_name(name) for name in os.listdir(directory))
    return sorted(offset for offset, suffix in filter(None, parsed) if suffix == LOG_SUFFIX)


def snapshot_at(partition: str, directory: str, offset: int) -> ProducerStates | None:
    """What the snapshot says; nobody has written before offset 0. None if it is not to be had."""
    if offset == 0:
        return ProducerStates(partition)
    try:
        return ProducerStates(partition, read_snapshot(directory, offset))
    except CorruptFile:
        return None


def producers_before(partition: str, directory: str, offset_end: int) -> ProducerStates:
    """From the newest snapshot that can be read, and the batches after it."""
    bases = base_offsets(directory)
    producers, position = ProducerStates(partition), bases[0] if bases else offset_end
    for offset in reversed(snapshot_offsets(os.listdir(directory))):
        found = snapshot_at(partition, directory, offset) if offset <= offset_end else None
        if found is not None and offset >= position:
            producers, position = found, offset
            break
    for number, base in enumerate(bases):
        next_base = bases[number + 1] if number + 1 < len(bases) else offset_end
        if base < offset_end and next_base > position:
            path = os.path.join(directory, offset_file_name(base, LOG_SUFFIX))
            _replay(producers, path, position, offset_end)
    return producers


def _replay(producers: ProducerStates, path: str, offset: int, offset_end: int) -> None:
    with open(path, "rb", buffering=0) as file:
        descriptor = file.fileno()
        size = os.fstat(descriptor).st_size
        for position, header in walk_headers(descriptor, 0, size):
            if header.base_offset >= offset_end:
                return
            if header.base_offset >= offset and header.has_producer:
                batch = read_batch(descriptor, position, header) if header.is_control else b""
                producer_admission.record(producers, batch, header, header.base_offset)
