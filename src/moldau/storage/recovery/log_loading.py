"""Finding the logs in a log directory and loading them, several at a time."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from moldau.model.clock import Clock
from moldau.model.names import Millis, TopicId, TopicPartition
from moldau.storage.directories.log_directory import LogDirectory
from moldau.storage.directories.storage_threads import run_each
from moldau.storage.log.loaded_log import LoadedLog
from moldau.storage.log.rest_notes import AtRest, is_untouched, read_notes
from moldau.storage.log_files import (
    DELETED_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    KRAFT_METADATA_DIRECTORY,
    STRAY_DIRECTORY_SUFFIX,
    parse_partition_directory,
)
from moldau.storage.log_settings import LogSettings
from moldau.storage.log_state.partition_metadata import read_topic_id
from moldau.storage.recovery.log_recovery import Recovery, load_log
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.log.LogManager")

INLINE_LOGS_MAX = 64
"""After a clean stop loading takes well under a millisecond each: fewer need no threads."""


class Contents(NamedTuple):
    partitions: list[TopicPartition]
    deleted: list[str]
    """Directories of deleted partitions that were still waiting to be removed."""


class Loaded(NamedTuple):
    topic_partition: TopicPartition
    topic_id: TopicId
    path: str
    settings: LogSettings
    log: LoadedLog | AtRest


class LoadOptions(NamedTuple):
    settings_for: Callable[[str], LogSettings]
    clock: Clock
    threads: int
    producer_expiration_ms: Millis


def list_directory(directory: LogDirectory) -> Contents:
    partitions, deleted = [], []
    with os.scandir(directory.path) as entries:
        for entry in entries:
            if not entry.is_dir():
                continue
            partition = parse_partition_directory(entry.name)
            if entry.name.endswith(DELETED_DIRECTORY_SUFFIX):
                deleted.append(entry.path)
            elif entry.name == KRAFT_METADATA_DIRECTORY:
                continue
            elif partition is not None:
                partitions.append(partition)
            elif entry.name.endswith((FUTURE_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX)):
                log.warning("%s is left alone: no log is loaded from it", entry.path)
            else:
                log.warning("%s is left alone: its name is not <topic>-<partition>", entry.path)
    return Contents(sorted(partitions), deleted)


def load_directory(
    directory: LogDirectory, partitions: list[TopicPartition], options: LoadOptions
) -> list[Loaded]:
    """Every log of one directory, at rest where its note is good; raises the first StorageFault
    that any of them met."""
    clean = directory.take_clean_mark()
    if not partitions:
        directory.was_clean = True
        log.info("No logs found to be loaded in %s", directory.path)
    elif clean:
        log.info(
            "Skipping recovery of %d logs from %s since clean shutdown file was found",
            len(partitions),
            directory.path,
        )
    else:
        log.info(
            "Recovering %d logs from %s since no clean shutdown file was found",
            len(partitions),
            directory.path,
        )
    loading = _Loading(directory, len(partitions), options)
    # After a crash too: where nothing has changed since the last clean stop, and the recovery point
    # is where that log ended, everything was flushed then.
    partitions = loading.leave_at_rest(partitions)
    inline = clean and len(partitions) <= INLINE_LOGS_MAX
    works = [partial(loading.load, partition) for partition in partitions]
    run_each(works, 1 if inline else options.threads)
    if loading.fault is not None:
        raise loading.fault
    return loading.loaded


class _Loading:
    """What the threads that load one directory share: they only read it, or append."""

    def __init__(self, directory: LogDirectory, count: int, options: LoadOptions) -> None:
        self.loaded: list[Loaded] = []
        self.fault: StorageFault | None = None
        self._directory = directory
        self._count = count
        self._options = options
        self._recovery_points = directory.recovery_points()
        self._log_starts = directory.log_starts()
        self._cleaned = directory.cleaned_ends()

    def leave_at_rest(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Those that have to be loaded."""
        notes = read_notes(self._directory.path)
        touched = []
        for partition in partitions:
            path, note = self._directory.file(str(partition)), notes.get(partition)
            point = self._recovery_points.get(partition)
            if note is None or note.offset_end != point or not is_untouched(path, note):
                touched.append(partition)
                continue
            settings = self._options.settings_for(partition.topic)
            log_start = max(self._log_starts.get(partition, 0), note.base_offset)
            at_rest = AtRest(note, log_start)
            self.loaded.append(Loaded(partition, note.topic_id, path, settings, at_rest))
        return touched

    def load(self, partition: TopicPartition) -> None:
        if self.fault is not None:
            return
        options = self._options
        settings = options.settings_for(partition.topic)
        known = Recovery(
            partition,
            self._directory.file(str(partition)),
            settings,
            self._directory.was_clean,
            self._log_starts.get(partition, 0),
            self._recovery_points.get(partition, 0),
            options.clock,
            options.producer_expiration_ms,
            "compact" in settings.cleanup_policy or partition in self._cleaned,
        )
        started_ms, is_over = options.clock.monotonic_ms(), False
        try:
            loaded = load_files(known)
            topic_id = read_topic_id(known.directory)
            is_over = True
        except StorageFault as fault:
            self.fault, is_over = fault, True
            return
        finally:
            if not is_over:
                # A bug here. The start fails with it: a log that is not loaded must not be missing.
                log.error("There was an error in one of the threads while %s was loaded", partition)
        self.loaded.append(Loaded(partition, topic_id, known.directory, settings, loaded))
        took_ms = options.clock.monotonic_ms() - started_ms
        _report(known, loaded, took_ms, len(self.loaded), self._count)


def load_files(known: Recovery) -> LoadedLog:
    """Raises StorageFault."""
    try:
        return load_log(known)
    except OSError as error:
        raise StorageFault.of("cannot load the log in", known.directory, error) from error


def _report(known: Recovery, loaded: LoadedLog, took_ms: Millis, count: int, of: int) -> None:
    log.info(
        "Completed load of Log(dir=%s, topic=%s, partition=%d) with %d segments, "
        "local-log-start-offset %d and log-end-offset %d in %dms (%d/%d completed in %s)",
        known.directory,
        known.topic_partition.topic,
        known.topic_partition.partition,
        len(loaded.segments),
        loaded.log_start_offset,
        loaded.offset_end,
        took_ms,
        count,
        of,
        os.path.dirname(known.directory),
    )
