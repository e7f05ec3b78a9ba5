"""The log directories of a broker together: those that can be used, and those that have failed.

A directory that fails is left out as long as another one remains, at the start as well as later;
it comes back with the next start. Two brokers in one directory are a fault at once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence

from moldau.model.names import TopicPartition
from moldau.storage.directories.log_directory import DirectoryInUse, LogDirectory
from moldau.storage.directories.log_directory_health import failure_behind, failure_of
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.log.LogManager")


class LogDirectories:
    def __init__(self, paths: Iterable[str], failed: Callable[[LogDirectory], None]) -> None:
        """`failed(directory)` hears of each that fails."""
        distinct = dict.fromkeys(os.path.abspath(path) for path in paths)
        self.all = [LogDirectory(path) for path in distinct]
        self._failed = failed

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.all if directory.fault is None]

    @property
    def were_clean(self) -> bool:
        return all(directory.was_clean for directory in self.online)

    @property
    def unclean_in_words(self) -> str:
        unclean = ", ".join(each.path for each in self.online if not each.was_clean)
        return f" (unclean log dirs = {unclean})" if unclean else ""

    def of(self, path: str) -> LogDirectory:
        """The one that the partition directory `path` lies in."""
        parent = os.path.dirname(path)
        return next(each for each in self.all if each.path == parent)

    def forget(self, places: Sequence[TopicPartition]) -> None:
        """There may have been logs of these names: what checkpoints say of them is not about those
        that are about to be made. Raises StorageFault."""
        for directory in self.online:
            directory.restate({place: {} for place in places})

    def each_online(self, step: Callable[[LogDirectory], None]) -> None:
        """A step of the start; raises StorageFault when nothing is left."""
        for directory in self.online:
            try:
                step(directory)
            except DirectoryInUse:
                raise
            except StorageFault as fault:
                self._take_offline(directory, fault)
        if not self.online:
            fault_first = self.all[0].fault
            assert fault_first is not None
            raise fault_first

    def suspect(self, directory: LogDirectory, fault: StorageFault) -> None:
        """After `fault` in it: should the whole directory have failed, take it offline."""
        if directory.fault is None:
            self._take_offline(directory, failure_behind(fault, directory))

    def look(self) -> None:
        """From time to time: files that are open can be written to long after they are gone."""
        for directory in self.online:
            self._take_offline(directory, failure_of(directory))

    def _take_offline(self, directory: LogDirectory, failure: StorageFault | None) -> None:
        if failure is None:
            return
        directory.fault = failure
        log.error("Log directory %s is offline: %s", directory.path, failure)
        self._failed(directory)
        directory.unlock()

    def unlock(self) -> None:
        for directory in self.all:
            directory.unlock()
