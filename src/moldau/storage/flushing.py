"""Forcing a log to disk. What must be forced is listed on the loop; the waiting is a thread's.

The list is of names only: should a directory have been deleted and made anew in the meantime, an
fsync too many harms nobody.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.storage.faults import StorageFault
from moldau.storage.files import SEGMENT_SUFFIXES, sync_directory, sync_file
from moldau.storage.segment import Segment


def segment_files(segments: list[Segment], offset_end: int) -> list[str]:
    """The files of those `segments` that begin before `offset_end`; writes what their indexes still
    hold in memory."""
    files: list[str] = []
    for segment in segments:
        if segment.base_offset < offset_end:
            segment.save_indexes()
            files += [segment.path(suffix) for suffix in SEGMENT_SUFFIXES]
    return files


class FlushWork(NamedTuple):
    offset_end: int
    """The recovery point once this is done: everything before it needs no recovery."""
    truncations: int
    """How often the log had been truncated; if it was since, the work counts for nothing."""
    files: tuple[str, ...]
    directories: tuple[str, ...]

    def run(self) -> StorageFault | None:
        """Blocks until the disk has it all; safe in any thread. Files that were deleted in the
        meantime need no flushing."""
        path = ""
        try:
            for path in self.files:
                try:
                    sync_file(path)
                except FileNotFoundError:
                    continue
            for path in self.directories:
                try:
                    sync_directory(path)
                except FileNotFoundError:
                    continue
        except OSError as error:
            return StorageFault.of("cannot flush", path, error)
        return None
