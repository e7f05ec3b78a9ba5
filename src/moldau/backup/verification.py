"""Whether a backup is what its moments say: every file there, every byte as it was written, every
batch whole. Reads all of it and changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from moldau.backup.backup_faults import Damaged
from moldau.backup.batch_files import PARTIAL_SUFFIX, Reading
from moldau.backup.batch_scan import BatchScan
from moldau.backup.moments import DATA, FileRow, data_path, read_chain
from moldau.backup.progress import Progress
from moldau.records.batch import CRC_START, Buffer, whole_headers
from moldau.records.checksum import crc32c


class Verified(NamedTuple):
    moments: int
    files: int
    records: int
    raw_bytes: int
    faults: tuple[str, ...]


def verify(directory: str, progress: Progress) -> Verified:
    try:
        chain = read_chain(directory)
    except Damaged as damaged:
        return Verified(0, 0, 0, 0, (damaged.sentence,))
    if not chain.moments:
        return Verified(0, 0, 0, 0, (f"{directory} has no moment of a backup",))
    files = chain.files()
    progress.begins(sum(row.counts.records for rows in files.values() for row in rows))
    faults: list[str] = []
    count = records = raw_bytes = 0
    for place, rows in files.items():
        for row in rows:
            count += 1
            try:
                for chunk in checked_chunks(data_path(directory, place, row.name), row):
                    raw_bytes += len(chunk)
                    progress.copied(len(chunk))
                records += row.counts.records
                progress.copied(0, row.counts.records)
            except Damaged as damaged:
                faults.append(damaged.sentence)
    faults += strangers(directory, files)
    return Verified(len(chain.moments), count, records, raw_bytes, tuple(faults))


def checked_chunks(path: str, row: FileRow) -> Iterator[Buffer]:
    """The batches of a file, each with a checksum that is right; Damaged at the end, at the latest,
    if it is not the file that was written."""
    try:
        size_bytes = os.stat(path).st_size
    except OSError:
        raise Damaged(path, "is missing") from None
    if size_bytes != row.stored_bytes:
        raise Damaged(path, f"has {size_bytes} bytes, not {row.stored_bytes}")
    reading, scan = Reading(path), BatchScan()
    for chunk in reading.chunks():
        for position, header in whole_headers(chunk):
            end = position + header.size_bytes
            if crc32c(chunk[position + CRC_START : end]) != header.crc:
                raise Damaged(path, f"has a damaged batch at offset {header.base_offset}")
        scan.take(chunk)
        yield chunk
    if (reading.stored_bytes, reading.written.checksum) != (row.stored_bytes, row.checksum):
        raise Damaged(path, "is not what was written: its checksum is wrong")
    if scan.counts != row.counts:
        raise Damaged(path, f"has {scan.counts.records} records, not {row.counts.records}")


def strangers(directory: str, files: dict[str, list[FileRow]]) -> Iterator[str]:
    """Files that no moment names, and that no run that was cut off has left: a moment is gone."""
    known = {data_path(directory, place, row.name) for place, rows in files.items() for row in rows}
    ends = {
        data_path(directory, place): rows[-1].offset_end for place, rows in files.items() if rows
    }
    for parent, _, names in os.walk(os.path.join(directory, DATA)):
        for name in names:
            path = os.path.join(parent, name)
            if path in known or name.endswith(PARTIAL_SUFFIX):
                continue
            start = name.partition("-")[0]
            end = ends.get(os.path.join(parent, ""), 0)
            if start.isdigit() and int(start) >= end:
                # Left by a run that was cut off: the next one takes it over.
                continue
            yield f"{path} does not belong there"
