"""Whether a snapshot still is what its manifest says: every file there in its size, every batch
whole, small files by their checksums. Reads all of it and changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from moldau.model.names import TopicPartition
from moldau.records.checksum import crc32c
from moldau.storage.log_files import LOG_SUFFIX, offset_file_name, read_whole
from moldau.storage.scrubbing.scrub_batches import Reader
from moldau.storage.scrubbing.scrub_producers import base_offsets
from moldau.storage.scrubbing.segment_scrubbing import scrub_partition
from moldau.storage.snapshots.snapshot_files import Manifest, PartitionRow, data_of
from moldau.storage.storage_faults import StorageFault


class Verified(NamedTuple):
    """One partition, or the small files of one directory."""

    name: str
    size_bytes: int
    faults: tuple[str, ...]


def verify(manifest: Manifest, has_read: Reader) -> Iterator[Verified]:
    """`has_read(bytes)` hears how far it is."""
    yield _small_files(manifest)
    for row in manifest.partitions:
        directory = data_of(manifest.directories[row.part], manifest.name)
        partition = TopicPartition(row.topic, row.partition)
        yield _partition(row, partition, os.path.join(directory, str(partition)), has_read)


def _small_files(manifest: Manifest) -> Verified:
    faults, size_bytes = [], 0
    for name, checksum in manifest.checksums.items():
        part, _, file_name = name.partition("/")
        path = os.path.join(data_of(manifest.directories[int(part)], manifest.name), file_name)
        content = read_whole(path)
        if content is None:
            faults.append(f"{path} is missing")
        elif crc32c(content) != checksum:
            faults.append(f"{path} is not what was written: its checksum is wrong")
        size_bytes += len(content or b"")
    return Verified("small files", size_bytes, tuple(faults))


def _partition(
    row: PartitionRow, partition: TopicPartition, directory: str, has_read: Reader
) -> Verified:
    try:
        faults = list(_segments(row, directory))
        if not faults:
            files = scrub_partition(partition, directory, with_last=True, has_read=has_read)
            faults = [str(damage) for scrubbed in files for damage in scrubbed.damages]
    except (OSError, StorageFault) as error:
        faults = [f"{directory} cannot be read: {error}"]
    return Verified(str(partition), row.size_bytes, tuple(faults))


def _segments(row: PartitionRow, directory: str) -> Iterator[str]:
    if not os.path.isdir(directory):
        yield f"{directory} is missing"
        return
    wanted = dict(row.segments)
    for base in base_offsets(directory):
        path = os.path.join(directory, offset_file_name(base, LOG_SUFFIX))
        size_bytes = wanted.pop(base, None)
        if size_bytes is None:
            yield f"{path} does not belong there"
        elif os.stat(path).st_size != size_bytes:
            yield f"{path} has {os.stat(path).st_size} bytes, not {size_bytes}"
    for base in wanted:
        yield f"{os.path.join(directory, offset_file_name(base, LOG_SUFFIX))} is missing"
