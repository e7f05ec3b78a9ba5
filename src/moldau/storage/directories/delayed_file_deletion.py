"""Files and directories that were renamed away and are removed after a while.

The delay is for readers that opened a file by name just before; those that hold a descriptor are
safe anyway. After a crash the names themselves say what was to go.
"""

from __future__ import annotations

import heapq
import logging
import os

from moldau.model.clock import Clock
from moldau.model.names import Millis
from moldau.storage.directories.storage_threads import Threads
from moldau.storage.log_files import sync_directory
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.log.LogManager")


class Trash:
    def __init__(self, clock: Clock, threads: Threads) -> None:
        self._clock = clock
        self._threads = threads
        self._waiting: list[tuple[Millis, str]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def parents(self) -> set[str]:
        """Where files lie that are yet to go."""
        return {os.path.dirname(path) for _, path in self._waiting}

    def discard(self, paths: list[str], delay_ms: Millis) -> None:
        due_ms = self._clock.monotonic_ms() + delay_ms
        for path in paths:
            heapq.heappush(self._waiting, (due_ms, path))
        if not delay_ms:
            self.remove_due()

    def remove_due(self) -> None:
        now_ms = self._clock.monotonic_ms()
        due = []
        while self._waiting and self._waiting[0][0] <= now_ms:
            due.append(heapq.heappop(self._waiting)[1])
        if due:
            self._threads.run(lambda: _remove(due), _report)


def _remove(paths: list[str]) -> StorageFault | None:
    import shutil  # costs a start of the broker several milliseconds, and few need it soon

    fault = _force_names(paths)
    if fault is not None:
        return fault
    for path in paths:
        try:
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            fault = StorageFault.of("cannot remove", path, error)
    return fault


def _force_names(paths: list[str]) -> StorageFault | None:
    """What took the place of these files was renamed before they were to go: after a power cut the
    one must not be missing because the other is gone."""
    for parent in sorted({os.path.dirname(path) for path in paths}):
        try:
            sync_directory(parent)
        except FileNotFoundError:
            continue
        except OSError as error:
            return StorageFault.of("cannot flush", parent, error)
    return None


def _report(fault: StorageFault | None) -> None:
    if fault is not None:
        log.warning("%s; the next start tries again", fault)
