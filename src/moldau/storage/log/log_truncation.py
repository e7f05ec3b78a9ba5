"""Cutting the end off a log, or all of it, so that a crash at any point leaves a beginning of it.

Segments go newest first, and each step is durable before the next: what is written afterwards must
never meet again what was cut off, even after a power cut.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from moldau.storage.log.known_log import KnownLog
from moldau.storage.log.segment import Segment
from moldau.storage.log.segment_list import Segments
from moldau.storage.log_files import LOG_SUFFIX, sync_directory, sync_file
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.log.UnifiedLog")

Delete = Callable[[list[Segment]], None]


def cut_after(segments: Segments, directory: str, offset: int, delete: Delete) -> int:
    """Drop all batches that hold `offset` or later ones; the new exclusive end offset."""
    dropped = segments.remove_after(offset)
    if dropped:
        delete(dropped[::-1])
        _force(sync_directory, directory)
    active = segments.active
    offset_end = active.truncate(offset)
    _force(sync_file, active.path(LOG_SUFFIX))
    if os.path.exists(active.txn_index.path):
        # An aborted transaction that never was would hide records from readers.
        _force(sync_file, active.txn_index.path)
    return offset_end


def start_over(
    segments: Segments, directory: str, create: Callable[[], Segment], delete: Delete
) -> Segments:
    """Drop everything and go on in the one segment that `create` makes."""
    delete(segments.as_list()[::-1])
    fresh = create()
    _force(sync_directory, directory)
    return Segments([fresh], segments.opened)


def rename_away(segments: list[Segment], prefix: str, reason: str) -> list[str]:
    """Take the files of the segments out of the log; the paths to remove later."""
    paths: list[str] = []
    for segment in segments:
        log.info(
            "%s Deleting segment baseOffset=%d size=%d due to %s",
            prefix,
            segment.base_offset,
            segment.size_bytes,
            reason,
        )
        paths += segment.mark_deleted()
    return paths


@contextmanager
def faults_kept(changed: KnownLog) -> Iterator[None]:
    """What changes many files, half done, leaves a log that only a restart can mend."""
    try:
        yield
    except StorageFault as fault:
        changed.fault = fault.to_keep()
        raise


def _force(sync: Callable[[str], None], path: str) -> None:
    try:
        sync(path)
    except OSError as error:
        raise StorageFault.of("cannot flush", path, error) from error
