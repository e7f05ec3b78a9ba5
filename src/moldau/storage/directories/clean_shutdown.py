"""A clean stop: every log flushed, checkpoints and notes written, the directory marked."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from moldau.model.names import TopicPartition
from moldau.storage.directories.log_directory import Checkpoints, LogDirectory
from moldau.storage.directories.storage_threads import run_each
from moldau.storage.log.log_at_rest import AnyLog, RestingLog
from moldau.storage.log.log_flushing import FlushWork
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log.rest_notes import RestNote, note_of, write_notes
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.log.LogManager")


def flush_all(logs: Sequence[PartitionLog], threads: int) -> None:
    """Complete the files of each and force them to disk; one that fails keeps its fault."""
    works = []
    for partition_log in logs:
        try:
            work = None if partition_log.fault else partition_log.begin_close()
        except StorageFault as fault:
            partition_log.fault = fault.to_keep()
            continue
        if work is not None:
            works.append(_flush(partition_log, work))
    run_each(works, threads)


def _flush(partition_log: PartitionLog, work: FlushWork) -> Callable[[], None]:
    # Their common parent is flushed once, for all.
    work = work._replace(directories=(partition_log.directory,))

    def run() -> None:
        partition_log.finish_flush(work, work.run())

    return run


def leave(
    directory: LogDirectory,
    logs: Mapping[TopicPartition, AnyLog],
    checkpoints: Checkpoints,
    may_be_clean: bool,
    changing: Collection[str],
) -> None:
    """`changing` are the directories of logs that lose files yet: no note is true of them."""
    try:
        directory.flush_names()
        directory.write_checkpoints(checkpoints)
        if not may_be_clean or any(each.fault is not None for each in logs.values()):
            return
        notes = {
            partition: _note_of(partition_log)
            for partition, partition_log in logs.items()
            if partition_log.directory not in changing
        }
        with contextlib.suppress(StorageFault):
            # Without notes the next start takes longer, that is all.
            write_notes(directory.path, {p: note for p, note in notes.items() if note is not None})
        directory.leave_clean_mark()
    except StorageFault as fault:
        log.error("Log directory %s was not left cleanly: %s", directory.path, fault)


def _note_of(partition_log: AnyLog) -> RestNote | None:
    if isinstance(partition_log, RestingLog):
        return partition_log.rest.note
    return note_of(partition_log)
