"""Putting a partition directory in order before it is loaded.

A crash may leave files that were about to go (`.deleted`), were being written (`.tmp`, `.cleaned`)
or were about to take the place of others (`.swap`), and indexes whose log is gone. Each is finished
or removed, so that afterwards the names alone say what the log consists of.
"""

from __future__ import annotations

import logging
import os

from moldau.storage.log.batch_walk import walk_places
from moldau.storage.log.segment_file import SegmentFile
from moldau.storage.log_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    offset_file_name,
    parse_offset_file_name,
    remove_if_there,
)

log = logging.getLogger("kafka.log.LogLoader")


def tidy(directory: str) -> list[int]:
    """Finish or undo what was interrupted; the base offsets of the segments that are there."""
    names = set(os.listdir(directory))
    for name in sorted(names):
        if name.endswith((DELETED_SUFFIX, TEMPORARY_SUFFIX)):
            _remove(directory, name, names)
    _finish_swaps(directory, names)
    _remove_orphans(directory, names)
    parsed = (parse_offset_file_name(name) for name in names)
    return sorted(offset for offset, suffix in filter(None, parsed) if suffix == LOG_SUFFIX)


def remove_stray_snapshots(directory: str, offsets: list[int], bases: list[int]) -> list[int]:
    """Of the snapshots at `offsets` only those stay that belong to a segment, and the newest if it
    lies after the last segment's start: a clean stop left it. Those that stay."""
    kept = []
    for offset in offsets:
        newest_after_all = offset == offsets[-1] and offset > bases[-1]
        if offset in bases or newest_after_all:
            kept.append(offset)
        else:
            remove_if_there(os.path.join(directory, offset_file_name(offset, ".snapshot")))
    return kept


def _finish_swaps(directory: str, names: set[str]) -> None:
    """Compaction writes `.cleaned` files, renames them to `.swap` when all are whole, then removes
    the segments they replace and renames them again. With a `.cleaned` file about, the replacement
    was not complete; with only `.swap` files, it was and is carried through."""
    cleaned = {name: _offset_before(name, CLEANED_SUFFIX) for name in names}
    cleaned = {name: offset for name, offset in cleaned.items() if offset is not None}
    first_cleaned = min((o for o in cleaned.values() if o is not None), default=None)
    swaps: dict[str, int] = {}
    for name in sorted(names):
        offset = _offset_before(name, SWAP_SUFFIX)
        if offset is None:
            continue
        if first_cleaned is not None and offset >= first_cleaned:
            _remove(directory, name, names)
        else:
            swaps[name] = offset
    for name in cleaned:
        _remove(directory, name, names)
    if not swaps:
        return
    first, end = _replaced_range(directory, swaps)
    for name in sorted(names):
        parsed = parse_offset_file_name(name)
        if parsed is not None and parsed[1] in SEGMENT_SUFFIXES and first <= parsed[0] < end:
            log.info("Deleting %s in %s, which was compacted into a .swap file.", name, directory)
            _remove(directory, name, names)
    for name in swaps:
        log.info("Recovering %s in %s by renaming it.", name, directory)
        final = name.removesuffix(SWAP_SUFFIX)
        os.rename(os.path.join(directory, name), os.path.join(directory, final))
        names.remove(name)
        names.add(final)


def _replaced_range(directory: str, swaps: dict[str, int]) -> tuple[int, int]:
    """The offsets from the first to the end of the last `.log.swap`."""
    logs = [(o, n) for n, o in swaps.items() if n.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    first, end = min((o for o, _ in logs), default=0), 0
    for offset, name in logs:
        file = SegmentFile(os.path.join(directory, name))
        size_bytes = os.fstat(file.fileno()).st_size
        end = max(end, offset)
        for place in walk_places(file.fileno(), 0, size_bytes):
            end = max(end, place.offset_last + 1)
    return first, end


def _remove_orphans(directory: str, names: set[str]) -> None:
    for name in sorted(names):
        parsed = parse_offset_file_name(name)
        if parsed is None or parsed[1] not in INDEX_SUFFIXES:
            continue
        if offset_file_name(parsed[0], LOG_SUFFIX) not in names:
            path = os.path.join(directory, name)
            log.warning("Found an orphaned index file %s, with no corresponding log file.", path)
            _remove(directory, name, names)


def _offset_before(name: str, suffix: str) -> int | None:
    """The offset of a segment file's name that `suffix` was appended to."""
    if not name.endswith(suffix):
        return None
    parsed = parse_offset_file_name(name.removesuffix(suffix))
    return parsed[0] if parsed else None


def _remove(directory: str, name: str, names: set[str]) -> None:
    remove_if_there(os.path.join(directory, name))
    names.discard(name)
