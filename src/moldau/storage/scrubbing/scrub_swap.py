"""Putting mended segments in the place of the damaged ones: under a running broker on its loop, or
in the directory of a stopped one. Renames only; the order is that of compaction's swap, so that a
crash leaves the old segment or the new one.
"""

from __future__ import annotations

import os

from moldau.storage.log.batch_walk import walk_headers
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log.segment import Segment
from moldau.storage.log_files import (
    CLEANED_SUFFIX,
    EPOCHS_FILE,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    offset_file_name,
    sync_directory,
    write_whole,
)
from moldau.storage.log_state.checkpoint_files import encode_epochs
from moldau.storage.log_state.leader_epoch_history import UNDEFINED_EPOCH, EpochStart
from moldau.storage.log_state.producer_snapshots import write_snapshot
from moldau.storage.recovery.directory_leftovers import tidy
from moldau.storage.rewriting.rewrite_claim import claim
from moldau.storage.rewriting.segment_swap import discard_cleaned, swap_in
from moldau.storage.scrubbing.scrub_producers import base_offsets, producers_before
from moldau.storage.storage_faults import StorageFault


def swap_mended(partition_log: PartitionLog, old: Segment) -> Segment:
    """On the loop, while the cleaner is not at this log. The compacting process of an earlier
    broker may still be: it would write into our `.cleaned` files."""
    directory, base_offset = partition_log.directory, old.base_offset
    claimed = claim(directory, waits=False)
    try:
        try:
            _rename_all(directory, base_offset, TEMPORARY_SUFFIX, CLEANED_SUFFIX)
        except StorageFault:
            discard_cleaned(directory, base_offset)
            raise
        return swap_in(partition_log, [old])
    finally:
        os.close(claimed)


def to_compact_again(base_offset: int, cleaned_end: int) -> int:
    """How far a log counts as compacted once what begins at `base_offset` came from elsewhere: the
    other replica may have compacted less of it. Not 0, which would say that it never was."""
    return min(cleaned_end or 1, max(1, base_offset))


def swap_mended_offline(directory: str, bases: list[int]) -> None:
    """Segments that are neighbours; all of them or, after a crash, none. The next start of a broker
    would finish what is done here, so that is how it is done."""
    claimed = claim(directory)
    try:
        _swap_offline(directory, bases)
    finally:
        os.close(claimed)


def _swap_offline(directory: str, bases: list[int]) -> None:
    for base in bases:
        _rename_all(directory, base, TEMPORARY_SUFFIX, CLEANED_SUFFIX)
    for base in sorted(bases, reverse=True):
        # The first one last: as long as it is `.cleaned`, no later `.swap` counts.
        for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
            _rename(directory, offset_file_name(base, suffix), CLEANED_SUFFIX, SWAP_SUFFIX)
    try:
        sync_directory(directory)
        tidy(directory)
        sync_directory(directory)
    except OSError as error:
        raise StorageFault.of("cannot rename files in", directory, error) from error


def _rename_all(directory: str, base: int, before: str, after: str) -> None:
    """The log first: nothing else counts without it."""
    for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
        _rename(directory, offset_file_name(base, suffix), before, after)


def _rename(directory: str, name: str, before: str, after: str) -> None:
    path = os.path.join(directory, name)
    try:
        os.rename(path + before, path + after)
    except FileNotFoundError:
        if name.endswith(LOG_SUFFIX):
            raise StorageFault("cannot rename", path + before, reason="it is gone") from None
    except OSError as error:
        raise StorageFault.of("cannot rename", path + before, error) from error


def rewrite_snapshot(partition: str, directory: str, offset: int) -> None:
    """A damaged snapshot, from the one before it and the batches since."""
    write_snapshot(directory, offset, producers_before(partition, directory, offset).entries)


def rewrite_epochs(directory: str) -> None:
    """The epoch file of a stopped broker, from the batches."""
    entries: list[EpochStart] = []
    for base in base_offsets(directory):
        path = os.path.join(directory, offset_file_name(base, LOG_SUFFIX))
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            for _, header in walk_headers(file.fileno(), 0, size):
                if header.leader_epoch > (entries[-1].epoch if entries else UNDEFINED_EPOCH):
                    entries.append(EpochStart(header.leader_epoch, header.base_offset))
    write_whole(os.path.join(directory, EPOCHS_FILE), encode_epochs(entries))
