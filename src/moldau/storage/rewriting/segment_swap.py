"""Putting a compacted segment in the place of those it was made from. On the loop: renames only.

`.cleaned` → `.swap` for the new files, then `.deleted` for the old, then the new get their final
names. A crash before the first step is complete leaves the old segments, one after it the new:
`directory_leftovers.py` tells the two apart by whether a `.cleaned` file is left. So the order
matters, and the log file, which decides, is renamed last in the first step and first in the last.
"""

from __future__ import annotations

import contextlib
import os

from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log.segment import Segment
from moldau.storage.log_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    offset_file_name,
    remove_if_there,
)
from moldau.storage.log_state.producer_snapshots import snapshot_path
from moldau.storage.storage_faults import StorageFault


def swap_in(partition_log: PartitionLog, old: list[Segment]) -> Segment:
    """Replace closed neighbours `old` by the `.cleaned` segment that starts where they do. A fault
    after the old files began to go leaves the log unusable until its next start."""
    directory, base_offset = partition_log.directory, old[0].base_offset
    names = [offset_file_name(base_offset, suffix) for suffix in SEGMENT_SUFFIXES]
    try:
        for name in reversed(names):
            _rename(directory, name + CLEANED_SUFFIX, name + SWAP_SUFFIX)
    except StorageFault:
        _discard(directory, base_offset, (SWAP_SUFFIX, CLEANED_SUFFIX))
        raise
    try:
        paths = [path for segment in old for path in segment.mark_deleted()]
        for name in names:
            _rename(directory, name + SWAP_SUFFIX, name)
        new = Segment(directory, base_offset, partition_log.settings, old[0].created_ms)
    except StorageFault as fault:
        partition_log.fault = fault.to_keep()
        raise
    new.close_at(old[-1].offset_end)
    partition_log.segments.replace(old, new)
    for segment in old[1:]:
        # Snapshots belong to segments: that of a segment which is no more would be a stray.
        path = snapshot_path(directory, segment.base_offset)
        with contextlib.suppress(OSError):
            os.rename(path, path + DELETED_SUFFIX)
            paths.append(path + DELETED_SUFFIX)
    partition_log.discard(paths, partition_log.settings.file_delete_delay_ms)
    return new


def discard_cleaned(directory: str, base_offset: int) -> None:
    """Remove a new segment that is not wanted after all. Not a `.swap`: where the old files have
    begun to go it is the only one that there is, and the next start puts it in place."""
    _discard(directory, base_offset, (CLEANED_SUFFIX,))


def _discard(directory: str, base_offset: int, stages: tuple[str, ...]) -> None:
    """The log last, and only if all else went: with it there, nothing else counts."""
    with contextlib.suppress(StorageFault):
        for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
            path = os.path.join(directory, offset_file_name(base_offset, suffix))
            for stage in stages:
                remove_if_there(path + stage)


def _rename(directory: str, name: str, new_name: str) -> None:
    """Index files that were not needed are not there."""
    path = os.path.join(directory, name)
    try:
        os.rename(path, os.path.join(directory, new_name))
    except FileNotFoundError:
        if LOG_SUFFIX in name:
            raise StorageFault("cannot rename", path, reason="it is gone") from None
    except OSError as error:
        raise StorageFault.of("cannot rename", path, error) from error
