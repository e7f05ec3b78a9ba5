"""From files to a log: what a start does with each partition directory.

After a clean stop nothing is scanned but the end of the last segment. After a crash every segment
from the recovery point on is checked batch by batch (length, format, checksum, growing offsets),
its indexes are rebuilt, and everything from the first bad byte on is cut off. A gap between two
segments is no bad byte: compaction leaves them, and what follows is whole. Runs in recovery
threads: it touches only the one directory.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from moldau.model.clock import Clock
from moldau.model.names import Millis, Offset, TopicPartition
from moldau.records.batch import read_header, read_overhead
from moldau.records.batch_kernel import BatchRow, intact_end, scan_batches
from moldau.records.old_formats.old_messages import OLD_BYTES_MIN, scan_messages
from moldau.records.old_formats.up_conversion import is_old
from moldau.storage.log import producer_admission
from moldau.storage.log.batch_walk import walk_headers, walk_places
from moldau.storage.log.loaded_log import LoadedLog
from moldau.storage.log.producer_state_replay import rebuild_producers
from moldau.storage.log.segment import Segment
from moldau.storage.log.segment_list import create_segment
from moldau.storage.log.transaction_index import AbortedTransaction
from moldau.storage.log_files import LOG_SUFFIX, sync_directory, sync_file
from moldau.storage.log_settings import LogSettings
from moldau.storage.log_state.leader_epoch_checkpoint import EpochFile
from moldau.storage.log_state.leader_epoch_history import UNDEFINED_EPOCH, EpochStart
from moldau.storage.log_state.producer_snapshots import (
    remove_snapshots,
    snapshot_offsets,
    write_snapshot,
)
from moldau.storage.log_state.producer_state import ProducerStates
from moldau.storage.recovery.directory_leftovers import remove_stray_snapshots, tidy
from moldau.storage.recovery.index_sanity_check import (
    check_indexes,
    rebuild_indexes,
    rebuild_txn_index,
)
from moldau.storage.storage_faults import CorruptFile, StorageFault

log = logging.getLogger("kafka.log.LogLoader")

CHUNK_BYTES = 1024 * 1024
NO_LIMIT = 2**63 - 1
PROGRESS_MS = 5_000
"""A recovery that takes longer than this says how far it is, and again every so often."""


class Recovery(NamedTuple):
    """What is known about a log before its files are looked at."""

    topic_partition: TopicPartition
    directory: str
    settings: LogSettings
    clean: bool
    """The last stop was clean: the files are complete and flushed."""
    log_start_offset: Offset
    recovery_point: Offset
    clock: Clock
    producer_expiration_ms: Millis
    may_have_gaps: bool = False
    """Compaction may have taken the last batches of a segment; otherwise every one should end where
    the next begins. One that does not is told of, and changes nothing else."""


def load_log(known: Recovery) -> LoadedLog:
    directory, settings, now_ms = known.directory, known.settings, known.clock.wall_ms()
    segments = [Segment(directory, base, settings, now_ms) for base in tidy(directory)]
    for segment, following in pairwise(segments):
        segment.close_at(following.base_offset)
    epochs = EpochFile(directory)
    producers: ProducerStates | None = None
    snapshot_offset = known.log_start_offset
    if segments:
        # The checkpoint may be older than the deletion of the segments it points into.
        start = max(known.log_start_offset, segments[0].base_offset)
        known = known._replace(log_start_offset=start)
    first = _first_unflushed(known, segments)
    unflushed_base = segments[first].base_offset if first < len(segments) else 0
    _mend_indexes(known, segments[:first])
    if epochs.is_empty:
        _rebuild_epochs(epochs, segments[:first])
    if first < len(segments):
        producers, snapshot_offset = _recover_unflushed(known, segments, first, epochs)
    elif segments:
        _restore(known, segments[-1])
    if segments and segments[-1].offset_end < known.log_start_offset:
        known = _without_log_start(known, segments)
    if not segments:
        _forget_records(directory, epochs)
        segments = [create_segment(directory, known.log_start_offset, settings, now_ms)]
    log_start_offset = known.log_start_offset
    offset_end = max(segments[-1].offset_end, log_start_offset)
    epochs.truncate_from_end(offset_end)
    epochs.truncate_from_start(segments[0].base_offset)
    epochs.save()
    bases = [segment.base_offset for segment in segments]
    remove_stray_snapshots(directory, snapshot_offsets(os.listdir(directory)), bases)
    if producers is None:
        producers, snapshot_offset = _producers_before(known, segments, len(segments), offset_end)
    if segments[-1].is_shared:
        _go_on_beside(segments, known, now_ms)
    segments[-1].read_first_timestamp()
    for segment in segments:
        # Ten thousand idle logs need no ten thousand open files.
        segment.cool()
    recovery_point = offset_end
    if not known.clean:
        # What was rebuilt is not yet on disk: should the power fail, it must be rebuilt again.
        recovery_point = min(known.recovery_point, offset_end, unflushed_base)
        # What was cut off just before the crash, or by a start that was killed in turn, must not
        # come back under new batches.
        sync_file(segments[-1].path(LOG_SUFFIX))
        sync_directory(directory)
    return LoadedLog(segments, log_start_offset, recovery_point, producers, epochs, snapshot_offset)


def _go_on_beside(segments: list[Segment], known: Recovery, now_ms: Millis) -> None:
    """A snapshot has the last segment too: what is appended must not appear there."""
    last = segments[-1]
    if not last.size_bytes:
        last.make_own()
        return
    last.seal()
    fresh = create_segment(known.directory, last.offset_end, known.settings, now_ms)
    last.close_at(fresh.base_offset)
    segments.append(fresh)


def _forget_records(directory: str, epochs: EpochFile) -> None:
    """The log is new, or died while it was to start over: what is still known of producers and
    leader epochs is of records that are gone."""
    remove_snapshots(directory)
    if not epochs.is_empty:
        epochs.clear()


def _without_log_start(known: Recovery, segments: list[Segment]) -> Recovery:
    """A checkpoint that points behind the log's end is of another log, or of one whose end was
    lost: no reason to remove what there is."""
    start = segments[0].base_offset
    log.warning(
        "%s The checkpoint of log starts says %d and the log ends with offset %d: the checkpoint "
        "is ignored, and records from offset %d on are kept.",
        _prefix(known),
        known.log_start_offset,
        segments[-1].offset_end,
        start,
    )
    return known._replace(log_start_offset=start)


def _first_unflushed(known: Recovery, segments: list[Segment]) -> int:
    """The index of the segment that the recovery point lies in; after a clean stop there is no
    need to recover any. The last segment always is recovered: its tail may be torn."""
    if known.clean:
        return len(segments)
    first = 0
    while first + 1 < len(segments) and segments[first + 1].base_offset <= known.recovery_point:
        first += 1
    return first


def _recover_unflushed(
    known: Recovery, segments: list[Segment], first: int, epochs: EpochFile
) -> tuple[ProducerStates, Offset]:
    """Check the segments from `first` on, in place, and drop what follows a bad byte. The producer
    state at the end comes out of the same pass."""
    unflushed = segments[first:]
    producers, snapshot_offset = _producers_before(known, segments, first, unflushed[0].base_offset)
    # Those of unflushed batches may be from before a truncation; the batches say it anew.
    epochs.truncate_from_end(unflushed[0].base_offset)
    for done, segment in enumerate(unflushed):
        log.info(
            "%s Recovering unflushed segment %d. %d/%d recovered for %s.",
            _prefix(known),
            segment.base_offset,
            done,
            len(unflushed),
            known.topic_partition,
        )
        later = unflushed[done + 1 :]
        limit = later[0].base_offset if later else NO_LIMIT
        checked = check_segment(segment, producers, epochs, known.clock, limit)
        if checked.bad_bytes:
            dropped = [] if checked.is_misplaced else later
            _cut_off(known, segment, checked.bad_bytes, dropped)
            del segments[len(segments) - len(dropped) :]
        has_lost_end = segment is not segments[-1] and not known.may_have_gaps
        has_lost_end = has_lost_end and segment.offset_end != limit
        # A snapshot that lies after lost batches knows of them: it is written anew.
        snapshot_end = limit if has_lost_end else segment.offset_end
        try:
            segment.seal()
            if snapshot_end > snapshot_offset:
                write_snapshot(known.directory, snapshot_end, producers.entries)
                snapshot_offset = snapshot_end
        except StorageFault as fault:
            # A full disk must not keep a broker from starting: all this is in memory too.
            log.warning("%s the next start will take longer: %s", _prefix(known), fault)
        if has_lost_end:
            _warn_of_gap(known, segment, limit)
        if segment is segments[-1]:
            break
        segment.close_at(limit)
    return producers, snapshot_offset


def _warn_of_gap(known: Recovery, segment: Segment, following: Offset) -> None:
    """Nothing is wrong with what comes after it, and it may be compaction's after all: of another
    time, when the topic's settings were others."""
    log.warning(
        "%s Segment %d ends with offset %d and the next one begins with %d, though the topic is "
        "not compacted: %d offsets are missing. What follows is kept.",
        _prefix(known),
        segment.base_offset,
        segment.offset_end - 1,
        following,
        following - segment.offset_end,
    )


def _cut_off(known: Recovery, segment: Segment, bad_bytes: int, later: list[Segment]) -> None:
    """Everything from a segment's first bad batch on, the newest first: a start that is killed
    meanwhile leaves the bad batch, and the next one goes on from there."""
    log.warning(
        "%s Corruption found in segment %d, truncating to offset %d: cutting off its last %d "
        "bytes, and %d later segments%s",
        _prefix(known),
        segment.base_offset,
        segment.offset_end,
        bad_bytes,
        len(later),
        _in_words(later),
    )
    for dropped in reversed(later):
        dropped.remove()
    if later:
        sync_directory(known.directory)
    segment.trim()


def _in_words(segments: list[Segment]) -> str:
    if not segments:
        return ""
    size_bytes, last = sum(segment.size_bytes for segment in segments), segments[-1]
    offset_last = last.base_offset - 1
    for place in walk_places(last.file.fileno(), 0, last.size_bytes):
        offset_last = place.offset_last
    return f" with offsets {segments[0].base_offset} to {offset_last} in {size_bytes} bytes"


class Checked(NamedTuple):
    bad_bytes: int
    """From the first batch that is not right to the end of the file."""
    is_misplaced: bool
    """That batch is whole, but its offsets are those of the next segment, which knows better."""


def check_segment(
    segment: Segment, producers: ProducerStates, epochs: EpochFile, clock: Clock, limit: Offset
) -> Checked:
    """Check every batch and rebuild the indexes as appending would have, up to the first batch that
    is not right. The next segment begins at `limit`."""
    size_bytes, is_misplaced = segment.size_bytes, False
    segment.reset()
    segment.txn_index.clear()
    progress = _Progress(segment.path(LOG_SUFFIX), size_bytes, clock)
    for position, chunk, rows in _intact_batches(segment.file.fileno(), size_bytes):
        for number, row in enumerate(rows):
            at, size, base_offset, offset_last, timestamp, epoch, producer_id, _ = row
            if not segment.can_follow(base_offset, offset_last):
                break
            if base_offset > segment.offset_end and _is_misplaced(rows, number):
                break
            if offset_last >= limit:
                is_misplaced = True
                break
            if epoch > epochs.history.latest:
                epochs.recover(epoch, base_offset)
            if producer_id >= 0:
                batch = memoryview(chunk)[at : at + size]
                done = producer_admission.record(producers, batch, read_header(batch), base_offset)
                if done is not None and done.aborted:
                    segment.txn_index.append(AbortedTransaction.of(done))
            segment.add_batch(size, offset_last, timestamp)
        else:
            progress.reached(position)
            continue
        break
    return Checked(size_bytes - segment.size_bytes, is_misplaced)


def _is_misplaced(rows: list[BatchRow], number: int) -> bool:
    """No checksum covers a batch's offset. Compaction leaves gaps, so one that is too large shows
    only when the next batch starts before its end."""
    return number + 1 < len(rows) and rows[number + 1][2] <= rows[number][3]


def _intact_batches(
    descriptor: int, size_bytes: int
) -> Iterator[tuple[int, bytes, list[BatchRow]]]:
    """(position, bytes, batches in them) of pieces of the file, up to the first bad batch."""
    position, wanted = 0, CHUNK_BYTES
    while position + OLD_BYTES_MIN <= size_bytes:
        chunk = os.pread(descriptor, min(wanted, size_bytes - position), position)
        end = intact_end(chunk, memoryview(chunk), 0, len(chunk))
        if not end and is_old(chunk):
            old = scan_messages(chunk, memoryview(chunk), 0, len(chunk), True)
            if old:
                yield position, chunk, old
                position, wanted = position + old[-1][0] + old[-1][1], CHUNK_BYTES
                continue
        if not end:
            _, batch_bytes = read_overhead(chunk)
            if len(chunk) < batch_bytes <= size_bytes - position:
                wanted = batch_bytes
                continue
            return
        yield position, chunk, scan_batches(chunk, 0, end)
        position, wanted = position + end, CHUNK_BYTES


def _mend_indexes(known: Recovery, segments: list[Segment]) -> None:
    """Rebuild what is missing or visibly damaged in segments that were flushed. After a clean stop
    a close look is kept for the last one: there may be a hundred thousand others."""
    for index, segment in enumerate(segments):
        is_last = index == len(segments) - 1
        try:
            check_indexes(segment, closely=is_last or not known.clean)
            continue
        except CorruptFile as corrupt:
            log.warning(
                "%s Found a corrupted index file corresponding to log file %s due to %s, "
                "rebuilding index files...",
                _prefix(known),
                segment.path(LOG_SUFFIX),
                corrupt.reason,
            )
            damaged = corrupt.path
        offset_end = segment.offset_end
        if damaged == segment.txn_index.path:
            producers, _ = _producers_before(known, segments, index, segment.base_offset)
            rebuild_txn_index(segment, producers)
        else:
            rebuild_indexes(segment)
        for path in (damaged, segment.offset_index.path, segment.time_index.path):
            # Nothing will flush a segment that counts as flushed.
            if os.path.exists(path):
                sync_file(path)
        if not (is_last and known.clean):
            segment.close_at(offset_end)


def _rebuild_epochs(epochs: EpochFile, segments: list[Segment]) -> None:
    """From the headers of batches that are not doubted."""
    entries: list[EpochStart] = []
    for segment in segments:
        for _, header in walk_headers(segment.file.fileno(), 0, segment.size_bytes):
            if header.leader_epoch > (entries[-1].epoch if entries else UNDEFINED_EPOCH):
                entries.append(EpochStart(header.leader_epoch, header.base_offset))
    epochs.replace(entries)


def _restore(known: Recovery, segment: Segment) -> None:
    """The segment to write to after a clean stop. Should it end with half a batch nevertheless,
    that must go before anything is written after it."""
    size_bytes = segment.size_bytes
    segment.restore_tail()
    if segment.size_bytes < size_bytes:
        log.warning(
            "%s %s has %d bytes after its last batch in spite of a clean stop: cutting them off",
            _prefix(known),
            segment.path(LOG_SUFFIX),
            size_bytes - segment.size_bytes,
        )
        segment.trim()


def _producers_before(
    known: Recovery, segments: list[Segment], count: int, offset_end: Offset
) -> tuple[ProducerStates, Offset]:
    """The state before `offset_end`, from the first `count` segments. An older snapshot than the
    first segment is of no use: what producers wrote in between is gone."""
    return rebuild_producers(
        str(known.topic_partition),
        known.directory,
        segments[:count],
        segments[0].base_offset,
        offset_end,
        known.clock.wall_ms(),
        known.producer_expiration_ms,
    )


def _prefix(known: Recovery) -> str:
    parent = os.path.dirname(known.directory)
    return f"[LogLoader partition={known.topic_partition}, dir={parent}]"


class _Progress:
    def __init__(self, path: str, size_bytes: int, clock: Clock) -> None:
        self._path = path
        self._size_bytes = size_bytes
        self._clock = clock
        self._next_ms = clock.monotonic_ms() + PROGRESS_MS

    def reached(self, position: int) -> None:
        if self._clock.monotonic_ms() >= self._next_ms:
            self._next_ms += PROGRESS_MS
            percent = 100 * position // self._size_bytes
            log.info("Recovering %s: %d %% of %d bytes", self._path, percent, self._size_bytes)
