"""Giving the files of a captured log a second name. In a thread, while the log goes on.

What the log does meanwhile may move its files, and never changes them: retention and compaction
rename a segment to `.deleted` before it goes, a deleted partition's directory gets another name. So
each file is looked for under both names and taken by its size, and a segment whose log and indexes
might be of two is taken again. What cannot be found any more fails the snapshot.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from moldau.storage.log.shared_files import copy_beginning
from moldau.storage.log_files import (
    DELETED_DIRECTORY_SUFFIX,
    DELETED_SUFFIX,
    EPOCHS_FILE,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA_FILE,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    offset_file_name,
    parse_offset_file_name,
    sync_directory,
    sync_file,
    write_whole,
)
from moldau.storage.log_state.partition_metadata import read_topic_id
from moldau.storage.log_state.producer_snapshots import snapshot_path
from moldau.storage.snapshots.captured_logs import CapturedLog, CapturedSegment
from moldau.storage.storage_faults import StorageFault

TRIES = 3


class FilesGone(StorageFault):
    """The log has let go of files since the moment: another moment may do."""

    def __init__(self, directory: str, base_offset: int) -> None:
        name = offset_file_name(base_offset, LOG_SUFFIX)
        super().__init__("cannot link", os.path.join(directory, name), reason="it has changed")


def link_log(captured: CapturedLog, parent: str) -> None:
    """As a partition directory below `parent`, forced to disk. Raises StorageFault."""
    target = os.path.join(parent, str(captured.topic_partition))
    try:
        source = _directory_of(captured)
        os.mkdir(target)
        segments = (*_closed(captured, source), captured.last)
        for segment in segments:
            _link_segment(source, target, segment)
        _link_others(captured, source, target)
        if captured.offset_end > captured.recovery_point:
            _force(captured, segments, target)
        sync_directory(target)
    except OSError as error:
        raise StorageFault.of("cannot link", captured.directory, error) from error


def has_grown(captured: CapturedLog, parent: str) -> bool:
    """Whether its last segment has been written to since the moment."""
    name = offset_file_name(captured.last.base_offset, LOG_SUFFIX)
    path = os.path.join(parent, str(captured.topic_partition), name)
    try:
        return os.stat(path).st_size != captured.last.size_bytes
    except OSError as error:
        raise StorageFault.of("cannot read", path, error) from error


def settle_log(captured: CapturedLog, parent: str) -> None:
    """For a log that was at rest and was woken while it was linked: it may have been written to."""
    target = os.path.join(parent, str(captured.topic_partition))
    path = os.path.join(target, offset_file_name(captured.last.base_offset, LOG_SUFFIX))
    temporary = path + ".tmp"
    try:
        copy_beginning(path, temporary, captured.last.size_bytes)
        os.replace(temporary, path)
        for suffix in INDEX_SUFFIXES:
            # They are made anew from the log by whoever loads it.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(target, offset_file_name(captured.last.base_offset, suffix)))
        sync_directory(target)
    except OSError as error:
        raise StorageFault.of("cannot copy", path, error) from error


def _directory_of(captured: CapturedLog) -> str:
    """Where its files are now: the partition may have been deleted since."""
    if os.path.isdir(captured.directory) and _is_of(captured, captured.directory):
        return captured.directory
    parent, name = os.path.split(captured.directory)
    with os.scandir(parent) as entries:
        for entry in entries:
            departed = entry.name.startswith(f"{name}.") and entry.name.endswith(
                DELETED_DIRECTORY_SUFFIX
            )
            if departed and _is_of(captured, entry.path):
                return entry.path
    raise FilesGone(captured.directory, captured.last.base_offset)


def _is_of(captured: CapturedLog, directory: str) -> bool:
    return read_topic_id(directory) == captured.topic_id


def _closed(captured: CapturedLog, source: str) -> tuple[CapturedSegment, ...]:
    if captured.closed is not None:
        return captured.closed
    closed = tuple(_segments_before(source, captured.last.base_offset))
    if sum(segment.size_bytes for segment in closed) != captured.closed_bytes:
        raise FilesGone(source, captured.last.base_offset)
    return closed


def _segments_before(source: str, offset: int) -> Iterator[CapturedSegment]:
    for name in sorted(os.listdir(source)):
        parsed = parse_offset_file_name(name)
        if parsed is not None and parsed[1] == LOG_SUFFIX and parsed[0] < offset:
            yield CapturedSegment(parsed[0], os.stat(os.path.join(source, name)).st_size)


def _link_segment(source: str, target: str, segment: CapturedSegment) -> None:
    if not segment.size_bytes:
        _make_empty(target, segment.base_offset)
        return
    names = [offset_file_name(segment.base_offset, suffix) for suffix in SEGMENT_SUFFIXES]
    for _ in range(TRIES):
        for ending in ("", DELETED_SUFFIX):
            if _link_as(source, target, names, ending, segment.size_bytes):
                return
    raise FilesGone(source, segment.base_offset)


def _make_empty(target: str, base_offset: int) -> None:
    """A segment without records. The log's own will be written to, so it gets no second name."""
    for suffix in (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        path = os.path.join(target, offset_file_name(base_offset, suffix))
        write_whole(path, b"", durable=False)


def _link_as(source: str, target: str, names: list[str], ending: str, size_bytes: int) -> bool:
    """Whether the files with this ending are those of the segment, all of them."""
    origin, log = os.path.join(source, names[0] + ending), os.path.join(target, names[0])
    try:
        os.link(origin, log)
    except FileNotFoundError:
        return False
    if os.stat(log).st_size == size_bytes:
        for name in names[1:]:
            with contextlib.suppress(FileNotFoundError):
                os.link(os.path.join(source, name + ending), os.path.join(target, name))
        # Had another segment taken its place meanwhile, the indexes might be that one's.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samefile(origin, log):
                return True
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(target, name))
    return False


def _link_others(captured: CapturedLog, source: str, target: str) -> None:
    """These are never changed in place, always replaced: by names they can be had."""
    for name in (PARTITION_METADATA_FILE, EPOCHS_FILE):
        with contextlib.suppress(FileNotFoundError):
            os.link(os.path.join(source, name), os.path.join(target, name))
    for name in os.listdir(source):
        parsed = parse_offset_file_name(name)
        if parsed is None or parsed[1] != SNAPSHOT_SUFFIX or parsed[0] > captured.offset_end:
            continue
        with contextlib.suppress(FileNotFoundError):
            os.link(os.path.join(source, name), os.path.join(target, name))
    if captured.producers is not None:
        path = snapshot_path(target, captured.offset_end)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        write_whole(path, captured.producers)


def _force(captured: CapturedLog, segments: Sequence[CapturedSegment], target: str) -> None:
    """What lies behind the recovery point may be in memory only."""
    names = [EPOCHS_FILE, PARTITION_METADATA_FILE]
    names.append(offset_file_name(captured.offset_end, SNAPSHOT_SUFFIX))
    ends = [*(segment.base_offset for segment in segments[1:]), captured.offset_end]
    for segment, end in zip(segments, ends, strict=True):
        if end > captured.recovery_point:
            names += [offset_file_name(segment.base_offset, each) for each in SEGMENT_SUFFIXES]
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            sync_file(os.path.join(target, name))
