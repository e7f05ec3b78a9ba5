"""Forcing a log to disk. What must be forced is listed on the loop; the waiting is a thread's."""

from __future__ import annotations

from typing import NamedTuple

from moldau.storage.faults import StorageFault
from moldau.storage.files import sync_directory, sync_file, write_whole


class FlushWork(NamedTuple):
    offset_end: int
    """The recovery point once this is done: everything before it needs no recovery."""
    truncations: int
    """How often the log had been truncated; if it was since, the work counts for nothing."""
    files: tuple[str, ...]
    directories: tuple[str, ...]
    epochs_path: str
    epochs: bytes | None
    """Leader epochs that are not yet durable."""

    def run(self) -> StorageFault | None:
        """Blocks until the disk has it all; safe in any thread. Files that were deleted in the
        meantime need no flushing."""
        path = self.epochs_path
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
            if self.epochs is not None:
                write_whole(self.epochs_path, self.epochs)
        except StorageFault as fault:
            return fault
        except OSError as error:
            return StorageFault.of("cannot flush", path, error)
        return None
