"""Reading closed files again to see whether the disk still holds what was written.

Every batch of a `.log` file is checked by length, format, offsets, epoch and checksum, every index
entry by the batch it points to, snapshots by their checksum. Nothing is changed, so a running
broker may be looked at too; the segment it writes to is left out. What is damaged is named as a
range of bytes and offsets, which is what a repair from another replica needs to know.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from moldau.model.names import TopicPartition
from moldau.records.batch import BatchHeader
from moldau.storage.log_files import (
    EPOCHS_FILE,
    KRAFT_METADATA_DIRECTORY,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_file_name,
    parse_partition_directory,
    read_whole,
)
from moldau.storage.log_state.checkpoint_files import (
    CLEANER_FILE,
    encode_epochs,
    read_epochs,
    read_offsets,
)
from moldau.storage.log_state.leader_epoch_history import EpochHistory
from moldau.storage.log_state.producer_snapshots import decode_snapshot, snapshot_offsets
from moldau.storage.scrubbing.scrub_batches import BatchWalk, Reader
from moldau.storage.scrubbing.scrub_indexes import (
    EpochCheck,
    IndexCheck,
    OffsetIndexCheck,
    TimeIndexCheck,
    TxnIndexCheck,
    offset_entries,
)
from moldau.storage.scrubbing.scrub_producers import base_offsets, snapshot_at
from moldau.storage.storage_faults import CorruptFile, StorageFault


class Damage(NamedTuple):
    """Something that is not as it was written."""

    partition: TopicPartition
    path: str
    reason: str
    position: int
    position_end: int
    """The bytes in doubt; up to the end of the file where no later batch can be found."""
    offset: int
    offset_end: int
    """The offsets that they held, end exclusive: from the last good batch to the next."""

    def __str__(self) -> str:
        where = f"bytes {self.position} to {self.position_end}"
        if self.offset < self.offset_end:
            where += f", offsets {self.offset} to {self.offset_end - 1}"
        return f"{self.path} is damaged at {where}: {self.reason}"


class Scrubbed(NamedTuple):
    """One file that was read."""

    path: str
    size_bytes: int
    damages: tuple[Damage, ...]


class ClosedSegment(NamedTuple):
    """What to read: a segment, by where it begins and where the next one does."""

    partition: TopicPartition
    directory: str
    base_offset: int
    next_base: int | None
    """None for the last one."""
    is_compacted: bool = False
    """The cleaner has been at work here: transactions may have lost their records."""

    def path(self, suffix: str) -> str:
        return os.path.join(self.directory, offset_file_name(self.base_offset, suffix))

    @property
    def paths(self) -> set[str]:
        return {self.path(suffix) for suffix in SEGMENT_SUFFIXES}

    @property
    def name(self) -> str:
        return self.path(LOG_SUFFIX)


def partitions_in(log_directory: str) -> Iterator[tuple[TopicPartition, str]]:
    try:
        names = sorted(os.listdir(log_directory))
    except OSError as error:
        raise StorageFault.of("cannot read", log_directory, error) from error
    for name in names:
        partition = parse_partition_directory(name)
        path = os.path.join(log_directory, name)
        if partition is not None and name != KRAFT_METADATA_DIRECTORY and os.path.isdir(path):
            yield partition, path


def cleaned_partitions(log_directory: str) -> set[TopicPartition] | None:
    """Those that compaction has worked on; None if the checkpoint cannot tell."""
    try:
        return set(read_offsets(os.path.join(log_directory, CLEANER_FILE)))
    except CorruptFile:
        return None


def scrub_partition(
    partition: TopicPartition, directory: str, *, with_last: bool, has_read: Reader
) -> Iterator[Scrubbed]:
    """Every file of the closed segments; `with_last` the last segment too, of a stopped broker.
    Files that retention removes meanwhile are passed over."""
    cleaned = cleaned_partitions(os.path.dirname(directory))
    bases = base_offsets(directory)
    for number, base in enumerate(bases):
        is_last = number == len(bases) - 1
        if is_last and not with_last:
            continue
        next_base = None if is_last else bases[number + 1]
        is_compacted = cleaned is None or partition in cleaned
        segment = ClosedSegment(partition, directory, base, next_base, is_compacted)
        try:
            yield from scrub_segment(segment, has_read)
        except FileNotFoundError:
            continue
    yield from scrub_snapshots(partition, directory)


def scrub_segment(segment: ClosedSegment, has_read: Reader) -> Iterator[Scrubbed]:
    path = segment.path(LOG_SUFFIX)
    epochs = EpochCheck(known_epochs(segment.directory))
    checks = _index_checks(segment)
    has_new = False

    def see(position: int, header: BatchHeader, content: bytes) -> None:
        nonlocal has_new
        has_new = True
        epochs.see(position, header, content)
        for check in checks.values():
            check.see(position, header, content)

    with open(path, "rb", buffering=0) as file:
        descriptor = file.fileno()
        size = os.fstat(descriptor).st_size
        # What the kernel remembers of the file may be better than what the disk holds.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        index = offset_entries(segment.path(OFFSET_INDEX_SUFFIX), segment.base_offset)
        walk = BatchWalk(descriptor, size, segment.base_offset, segment.next_base, has_read, index)
        found = [*walk.damaged(see), *epochs.bad_batches]
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    damages = tuple(Damage(segment.partition, path, *each) for each in sorted(found, key=_place))
    yield Scrubbed(path, size, damages)
    whole = Damage(segment.partition, "", "", 0, 0, segment.base_offset, walk.offset_end)
    for suffix, check in checks.items():
        path = segment.path(suffix)
        size = os.path.getsize(path) if os.path.exists(path) else 0
        # Damaged batches, or such as are older than these rules, prove nothing.
        reason = check.end() if has_new and not (damages or walk.has_old) else ""
        blamed = whole._replace(path=path, reason=reason, position_end=size)
        yield Scrubbed(path, size, (blamed,) if reason else ())
    if epochs.file_fault:
        path = os.path.join(segment.directory, EPOCHS_FILE)
        yield _scrubbed_epochs(whole._replace(path=path, reason=epochs.file_fault))


def _place(found: tuple[str, int, int, int, int]) -> int:
    return found[1]


def _index_checks(segment: ClosedSegment) -> dict[str, IndexCheck]:
    base = segment.base_offset
    producers = None
    if not segment.is_compacted:
        producers = snapshot_at(str(segment.partition), segment.directory, base)
    return {
        OFFSET_INDEX_SUFFIX: OffsetIndexCheck(segment.path(OFFSET_INDEX_SUFFIX), base),
        TIME_INDEX_SUFFIX: TimeIndexCheck(segment.path(TIME_INDEX_SUFFIX), base),
        TXN_INDEX_SUFFIX: TxnIndexCheck(segment.path(TXN_INDEX_SUFFIX), base, producers),
    }


def known_epochs(directory: str) -> EpochHistory:
    """What the epoch file says; nothing if it cannot be read."""
    try:
        return EpochHistory(read_epochs(os.path.join(directory, EPOCHS_FILE)))
    except CorruptFile:
        return EpochHistory()


def _scrubbed_epochs(damage: Damage) -> Scrubbed:
    size = os.path.getsize(damage.path)
    return Scrubbed(damage.path, size, (damage._replace(position_end=size),))


def scrub_snapshots(partition: TopicPartition, directory: str) -> Iterator[Scrubbed]:
    """Every snapshot of the producers, and the form of the epoch file."""
    for offset in snapshot_offsets(os.listdir(directory)):
        path = os.path.join(directory, offset_file_name(offset, SNAPSHOT_SUFFIX))
        try:
            with open(path, "rb") as file:
                content = file.read()
            decode_snapshot(content, path)
        except FileNotFoundError:
            continue
        except CorruptFile as corrupt:
            damage = Damage(partition, path, corrupt.reason, 0, len(content), offset, offset)
            yield Scrubbed(path, len(content), (damage,))
        else:
            yield Scrubbed(path, len(content), ())
    path = os.path.join(directory, EPOCHS_FILE)
    try:
        content = read_whole(path) or b""
        # A history takes no rows that contradict one another: what was written grows in both.
        is_right = not content or content == encode_epochs(EpochHistory(read_epochs(path)).entries)
        reason = "" if is_right else "it is not written like that"
    except CorruptFile as corrupt:
        reason = corrupt.reason
    if reason:
        yield _scrubbed_epochs(Damage(partition, path, reason, 0, 0, 0, 0))
