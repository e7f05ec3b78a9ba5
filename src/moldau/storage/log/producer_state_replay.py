"""Producer state from disk: the newest good snapshot, and the batches after it."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from moldau.model.names import Millis, Offset
from moldau.storage.log import producer_admission
from moldau.storage.log.batch_walk import read_batch, walk_headers
from moldau.storage.log.segment import Segment
from moldau.storage.log_files import remove_if_there
from moldau.storage.log_state.producer_snapshots import (
    read_snapshot,
    snapshot_offsets,
    snapshot_path,
)
from moldau.storage.log_state.producer_state import ProducerStates
from moldau.storage.storage_faults import CorruptFile

log = logging.getLogger("kafka.log.ProducerStateManager")


def rebuild_producers(
    partition: str,
    directory: str,
    segments: Sequence[Segment],
    offset_start: Offset,
    offset_end: Offset,
    now_ms: Millis,
    expiration_ms: Millis,
) -> tuple[ProducerStates, Offset]:
    """The state as it was before `offset_end`, and the offset of the snapshot it started from.

    Snapshots that lie outside of the log or are damaged are removed on the way.
    """
    producers, position = _load_snapshot(partition, directory, offset_start, offset_end)
    snapshot_offset = position
    for segment in segments:
        if segment.offset_end > position and segment.base_offset < offset_end:
            replay_segment(producers, segment, position, offset_end)
    producers.expire(now_ms, expiration_ms)
    return producers, snapshot_offset


def replay_segment(
    producers: ProducerStates, segment: Segment, offset_start: Offset, offset_end: Offset
) -> None:
    """Note the batches of [offset_start, offset_end) that lie in `segment`."""
    descriptor = segment.file.fileno()
    start = segment.offset_index.floor(offset_start).position
    for position, header in walk_headers(descriptor, start, segment.size_bytes):
        if header.base_offset >= offset_end:
            return
        if header.base_offset < offset_start or not header.has_producer:
            continue
        batch = read_batch(descriptor, position, header) if header.is_control else b""
        producer_admission.record(producers, batch, header, header.base_offset)


def _load_snapshot(
    partition: str, directory: str, offset_start: Offset, offset_end: Offset
) -> tuple[ProducerStates, Offset]:
    for offset in reversed(snapshot_offsets(os.listdir(directory))):
        path = snapshot_path(directory, offset)
        if not offset_start <= offset <= offset_end:
            remove_if_there(path)
            continue
        try:
            entries = read_snapshot(directory, offset)
        except CorruptFile as corrupt:
            log.warning("Failed to load producer snapshot from '%s': %s", path, corrupt.reason)
            remove_if_there(path)
            continue
        return ProducerStates(partition, entries), offset
    return ProducerStates(partition), offset_start
