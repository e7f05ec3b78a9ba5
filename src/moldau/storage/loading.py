"""Finding the logs in a log directory and loading them, several at a time."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from moldau.model.clock import Clock
from moldau.model.names import Millis, TopicPartition
from moldau.storage.faults import StorageFault
from moldau.storage.files import (
    DELETED_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    KRAFT_METADATA_DIRECTORY,
    STRAY_DIRECTORY_SUFFIX,
    parse_partition_directory,
)
from moldau.storage.loaded_log import LoadedLog
from moldau.storage.log_directory import LogDirectory
from moldau.storage.recovery import Recovery, load_log
from moldau.storage.settings import LogSettings
from moldau.storage.threads import run_each

log = logging.getLogger("kafka.log.LogManager")

INLINE_LOGS_MAX = 64
"""After a clean stop loading takes well under a millisecond each: fewer need no threads."""


class Contents(NamedTuple):
    partitions: list[TopicPartition]
    deleted: list[str]
    """Directories of deleted partitions that were still waiting to be removed."""


class Loaded(NamedTuple):
    topic_partition: TopicPartition
    path: str
    settings: LogSettings
    log: LoadedLog


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
    """Every log of one directory; raises the first StorageFault that any of them met."""
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
        started_ms = options.clock.monotonic_ms()
        try:
            loaded = Loaded(partition, known.directory, known.settings, load_log(known))
        except StorageFault as fault:
            self.fault = fault
            return
        except OSError as error:
            self.fault = StorageFault.of("cannot load the log in", known.directory, error)
            return
        self.loaded.append(loaded)
        took_ms = options.clock.monotonic_ms() - started_ms
        _report(loaded, took_ms, len(self.loaded), self._count)


def _report(loaded: Loaded, took_ms: Millis, count: int, of: int) -> None:
    segments = loaded.log.segments
    log.info(
        "Completed load of Log(dir=%s, topic=%s, partition=%d) with %d segments, "
        "local-log-start-offset %d and log-end-offset %d in %dms (%d/%d completed in %s)",
        loaded.path,
        loaded.topic_partition.topic,
        loaded.topic_partition.partition,
        len(segments),
        loaded.log.log_start_offset,
        max(segments[-1].offset_end, loaded.log.log_start_offset),
        took_ms,
        count,
        of,
        os.path.dirname(loaded.path),
    )
