"""One log directory: its lock, whose it is, whether it was left cleanly, its checkpoints."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from moldau.model.names import TopicPartition
from moldau.storage.directories.meta_properties import (
    FILE_NAME,
    MetaProperties,
    random_id,
    read_meta_properties,
    write_meta_properties,
)
from moldau.storage.log.rest_notes import REST_FILE
from moldau.storage.log_files import (
    TEMPORARY_SUFFIX,
    remove_if_there,
    sync_ancestors,
    sync_directory,
    write_whole,
)
from moldau.storage.log_state.checkpoint_files import (
    CHECKPOINT_FILES,
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    read_offsets,
    write_offsets,
)
from moldau.storage.storage_faults import CorruptFile, StorageFault

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
        self.identity = (0, 0)
        """Device and inode of the directory that was locked."""
        self._lock: int | None = None
        # What each checkpoint file says, and which of our writings said so.
        self._written: dict[str, tuple[Mapping[TopicPartition, int], int]] = {}
        self._generation = 0
        self._waiting = 0
        self._restated: dict[TopicPartition, tuple[int, Mapping[str, int]]] = {}
        """While writings wait: what those up to a generation must say of a partition instead."""
        self._writing = Lock()
        self._counting = Lock()
        """Never held for long, unlike the other."""

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
        found = os.stat(self.path)
        self.identity = found.st_dev, found.st_ino
        self._remove_half_written()

    def _remove_half_written(self) -> None:
        """A crash may have left the new version of a checkpoint, not yet in its place."""
        for name in (*CHECKPOINT_FILES, FILE_NAME, REST_FILE, CLEAN_SHUTDOWN_FILE):
            remove_if_there(self.file(name + TEMPORARY_SUFFIX))

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
        if found == MetaProperties():
            try:
                sync_ancestors(self.path)
            except OSError as error:
                raise StorageFault.of("cannot flush", self.path, error) from error
        if found != wanted:
            write_meta_properties(self.path, wanted)

    def take_clean_mark(self) -> bool:
        """Whether the last stop was clean. The mark goes at once: should we crash while loading,
        the next start must look at everything."""
        path = self.file(CLEAN_SHUTDOWN_FILE)
        self.was_clean = os.path.exists(path)
        if self.was_clean:
            remove_if_there(path)
            self.flush_names()
        return self.was_clean

    def flush_names(self) -> None:
        """Make the partitions' directories themselves durable."""
        try:
            sync_directory(self.path)
        except OSError as error:
            raise StorageFault.of("cannot flush", self.path, error) from error

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
            offsets = read_offsets(self.file(name))
        except CorruptFile as corrupt:
            log.warning("checkpoint file is damaged, %s: %s", consequence, corrupt)
            return {}
        self._written[name] = offsets, 0
        return offsets

    def saying_more(self, partition: TopicPartition, highest: Mapping[str, int]) -> list[str]:
        """Which of the checkpoints named in `highest` have a higher offset for the partition than
        that, or may have once the writings that wait are done."""
        if self._waiting:
            return list(highest)
        written = {name: self._written.get(name, ({}, 0))[0] for name in highest}
        return [name for name in highest if written[name].get(partition, 0) > highest[name]]

    def lower_cleaned(self, partition: TopicPartition, highest: int, instead: int) -> None:
        """Should the cleaner's checkpoint say more than `highest` of the partition, let it say
        `instead`. Blocks then."""
        written, _ = self._written.get(CLEANER_FILE, ({}, 0))
        if written.get(partition, 0) > highest:
            self.write_checkpoints({CLEANER_FILE: {**written, partition: instead}})

    def write_checkpoints(self, checkpoints: Checkpoints) -> None:
        """Blocks; leaves out files that say so already."""
        fault = self.checkpointing(checkpoints)()
        if fault is not None:
            raise fault

    def restate(self, rows: Mapping[TopicPartition, Mapping[str, int]]) -> None:
        """New logs are about to get these names: let every checkpoint say of each what `rows` has
        by file name and nothing else, those that are yet to be written included. Blocks if there
        is anything to do."""
        written = [offsets for offsets, _ in self._written.values()]
        named = any(partition in offsets for offsets in written for partition in rows)
        if not (any(rows.values()) or named or self._waiting):
            return
        with self._writing:
            self._generation += 1
            if self._waiting:
                self._restated |= {place: (self._generation, row) for place, row in rows.items()}
            for name in CHECKPOINT_FILES:
                before, generation = self._written.get(name, ({}, 0))
                after = with_rows(before, {place: row.get(name) for place, row in rows.items()})
                if after != before:
                    write_offsets(self.file(name), after)
                    self._written[name] = after, generation

    def checkpointing(self, checkpoints: Checkpoints) -> Callable[[], StorageFault | None]:
        """The same as work for a thread. One that comes late does not overwrite a newer one."""
        self._generation += 1
        generation = self._generation
        with self._counting:
            self._waiting += 1

        def work() -> StorageFault | None:
            with self._writing:
                try:
                    for name, offsets in checkpoints.items():
                        self._write(name, self._as_restated(name, offsets, generation), generation)
                except StorageFault as fault:
                    return fault
                finally:
                    with self._counting:
                        self._waiting -= 1
                    if not self._waiting:
                        self._restated.clear()
            return None

        return work

    def _write(self, name: str, offsets: Mapping[TopicPartition, int], generation: int) -> None:
        written, generation_written = self._written.get(name, (None, 0))
        if generation < generation_written:
            return
        if written != offsets:
            write_offsets(self.file(name), offsets)
        self._written[name] = offsets, generation

    def _as_restated(
        self, name: str, offsets: Mapping[TopicPartition, int], generation: int
    ) -> Mapping[TopicPartition, int]:
        newer = {
            p: rows.get(name) for p, (since, rows) in self._restated.items() if generation < since
        }
        return with_rows(offsets, newer) if newer else offsets


def with_rows(
    offsets: Mapping[TopicPartition, int], rows: Mapping[TopicPartition, int | None]
) -> Mapping[TopicPartition, int]:
    """The same with these rows changed; None takes one out."""
    changed = {**offsets, **rows}
    return {place: offset for place, offset in changed.items() if offset is not None}


def identify(
    directories: Sequence[LogDirectory], node_id: int, cluster_id: str | None
) -> str | None:
    """Check that the directories are this node's, of one cluster, and write that down; the id of
    the cluster, if one of them knows it."""
    for directory in directories:
        found = directory.read_meta()
        if found.node_id not in (None, node_id):
            raise StorageFault(
                "cannot use log directory",
                directory.path,
                reason=f"it belongs to node {found.node_id} and this is node {node_id}; "
                "set node.id back, or use another directory",
            )
        if cluster_id is not None and found.cluster_id not in (None, cluster_id):
            raise StorageFault(
                "cannot use log directory",
                directory.path,
                reason=f"it belongs to cluster {found.cluster_id} and this is {cluster_id}",
            )
        cluster_id = cluster_id or found.cluster_id
    for directory in directories:
        directory.claim(node_id, cluster_id)
    return cluster_id
