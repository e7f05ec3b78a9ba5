"""The leader epochs of one partition and their file, `leader-epoch-checkpoint`.

Batches carry their epoch, so entries that a power cut takes are rebuilt by recovery. That is why a
change is written without fsync; the next flush of the log makes it durable, before the recovery
point moves past the batches it could be rebuilt from.
"""

from __future__ import annotations

import contextlib
import logging
import os

from moldau.storage.log_files import EPOCHS_FILE, write_whole
from moldau.storage.log_state.checkpoint_files import encode_epochs, read_epochs
from moldau.storage.log_state.leader_epoch_history import UNDEFINED_EPOCH, EpochHistory, EpochStart
from moldau.storage.storage_faults import CorruptFile, StorageFault

log = logging.getLogger("kafka.server.epoch.LeaderEpochFileCache")


class EpochFile:
    __slots__ = ("_is_unflushed", "_is_unsaved", "history", "path")

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, EPOCHS_FILE)
        self._is_unflushed = False
        self._is_unsaved = False
        try:
            self.history = EpochHistory(read_epochs(self.path))
        except CorruptFile as corrupt:
            log.warning("leader epochs are unreadable and will be rebuilt: %s", corrupt)
            self.history = EpochHistory()

    @property
    def is_empty(self) -> bool:
        """With batches in the log: the file is missing or was torn."""
        return self.history.latest == UNDEFINED_EPOCH

    def replace(self, entries: list[EpochStart]) -> None:
        """All at once: a file that knows a part would be believed after a crash."""
        self.history = EpochHistory(entries)
        if entries:
            self._write()

    def assign(self, epoch: int, offset_start: int) -> None:
        if self.history.assign(epoch, offset_start):
            self._write()

    def recover(self, epoch: int, offset_start: int) -> None:
        """As `assign`, for a batch found on disk: written with all others by `save`."""
        if self.history.assign(epoch, offset_start):
            self._is_unsaved = True

    def save(self) -> None:
        """What could not be written yet, if that is possible now: a full disk must not keep a log
        from opening. The next flush insists."""
        if self._is_unsaved:
            self._write_if_possible()

    def truncate_from_end(self, offset_end: int) -> None:
        if self.history.truncate_from_end(offset_end):
            self._write_if_possible()

    def truncate_from_start(self, offset_start: int) -> None:
        if self.history.truncate_from_start(offset_start):
            self._write_if_possible()

    def clear(self) -> None:
        self.history.clear()
        self._write_if_possible()

    def _write_if_possible(self) -> None:
        """Entries too many do no harm: the next start drops them again. And on a full disk this
        must not stand in the way of deleting segments."""
        with contextlib.suppress(StorageFault):
            self._write()

    def take_unflushed(self) -> list[str]:
        """What a flush must force to disk: this file if it has changed since the last one."""
        if self._is_unsaved:
            self._write()
        unflushed = [self.path] if self._is_unflushed else []
        self._is_unflushed = False
        return unflushed

    def _write(self) -> None:
        self._is_unflushed = self._is_unsaved = True
        write_whole(self.path, encode_epochs(self.history.entries), durable=False)
        self._is_unsaved = False
