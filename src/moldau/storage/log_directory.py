"""One log directory: its lock, whose it is, whether it was left cleanly, its checkpoints."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Mapping

from moldau.model.names import TopicPartition
from moldau.storage.checkpoints import (
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    read_offsets,
    write_offsets,
)
from moldau.storage.faults import CorruptFile, StorageFault
from moldau.storage.files import remove_if_there, sync_directory, write_whole
from moldau.storage.meta_properties import (
    MetaProperties,
    random_id,
    read_meta_properties,
    write_meta_properties,
)

log = logging.getLogger("kafka.log.LogManager")

Checkpoints = Mapping[str, Mapping[TopicPartition, int]]
"""File name to what it should say."""

LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
CLEAN_SHUTDOWN_CONTENT = b'{"version":0,"brokerEpoch":-1}'


class DirectoryInUse(StorageFault):
    def __init__(self, directory: str) -> None:
        super().__init__("cannot lock", directory)
        self.args = (
            f"Failed to acquire lock on file {LOCK_FILE} in {directory}. A Kafka instance in "
            "another process or thread is using this directory.",
        )


class LogDirectory:
    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.id = ""
        self.was_clean = False
        self.fault: StorageFault | None = None
        """Why the directory is offline; None while it works."""
        self._lock: int | None = None
        self._written: dict[str, Mapping[TopicPartition, int]] = {}

    def __repr__(self) -> str:
        return f"LogDirectory({self.path})"

    def prepare(self) -> None:
        """Make it if need be, check that it can be used, lock it."""
        if not os.path.exists(self.path):
            log.info("Log directory %s not found, creating it.", self.path)
            try:
                os.makedirs(self.path, exist_ok=True)
            except OSError as error:
                raise StorageFault.of("cannot create log directory", self.path, error) from error
        if not os.path.isdir(self.path):
            raise StorageFault("cannot use log directory", self.path, reason="not a directory")
        if not os.access(self.path, os.R_OK | os.W_OK | os.X_OK):
            raise StorageFault(
                "cannot use log directory", self.path, reason="not readable and writable"
            )
        self._acquire_lock()

    def _acquire_lock(self) -> None:
        path = self.file(LOCK_FILE)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageFault.of("cannot open", path, error) from error
        try:
            # The first is seen by every Moldau, in this process too; the second by Apache Kafka.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError | PermissionError):
                raise DirectoryInUse(self.path) from error
            raise StorageFault.of("cannot lock", path, error) from error
        self._lock = descriptor

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def read_meta(self) -> MetaProperties:
        try:
            return read_meta_properties(self.path)
        except CorruptFile as corrupt:
            reason = corrupt.reason
            raise StorageFault("cannot read", corrupt.path, reason=reason) from corrupt

    def claim(self, node_id: int, cluster_id: str | None) -> None:
        """Write down whose directory this is, if that is not there yet."""
        found = self.read_meta()
        self.id = found.directory_id or random_id()
        wanted = MetaProperties(node_id, cluster_id or found.cluster_id, self.id)
        if found != wanted:
            write_meta_properties(self.path, wanted)

    def take_clean_mark(self) -> bool:
        """Whether the last stop was clean. The mark goes at once: should we crash while loading,
        the next start must look at everything."""
        path = self.file(CLEAN_SHUTDOWN_FILE)
        self.was_clean = os.path.exists(path)
        if self.was_clean:
            remove_if_there(path)
            sync_directory(self.path)
        return self.was_clean

    def leave_clean_mark(self) -> None:
        write_whole(self.file(CLEAN_SHUTDOWN_FILE), CLEAN_SHUTDOWN_CONTENT)

    def recovery_points(self) -> dict[TopicPartition, int]:
        return self._read(RECOVERY_POINT_FILE, "the log is checked from its start")

    def log_starts(self) -> dict[TopicPartition, int]:
        return self._read(LOG_START_FILE, "logs start at their first segment")

    def high_watermarks(self) -> dict[TopicPartition, int]:
        return self._read(HIGH_WATERMARK_FILE, "high watermarks start at the log start")

    def cleaned_ends(self) -> dict[TopicPartition, int]:
        return self._read(CLEANER_FILE, "logs are compacted from their start")

    def _read(self, name: str, consequence: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self.file(name))
        except CorruptFile as corrupt:
            log.warning("checkpoint file is damaged, %s: %s", consequence, corrupt)
            return {}

    def write_checkpoints(self, checkpoints: Checkpoints) -> None:
        """Blocks; leaves out files that say so already."""
        for name, offsets in checkpoints.items():
            if self._written.get(name) != offsets:
                write_offsets(self.file(name), offsets)
                self._written[name] = offsets

    def checkpointing(self, checkpoints: Checkpoints) -> Callable[[], StorageFault | None]:
        """The same as work for a thread."""

        def work() -> StorageFault | None:
            try:
                self.write_checkpoints(checkpoints)
            except StorageFault as fault:
                return fault
            return None

        return work
