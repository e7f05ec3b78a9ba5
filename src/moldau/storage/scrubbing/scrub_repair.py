"""Writing a damaged segment anew beside the old one, out of its own good batches and another
replica's in the place of the bad ones.

Nothing is taken on trust: own batches and fetched ones are checked by checksum, offsets and leader
epoch, the indexes are made anew, and what was written is read back before it may take the place of
the old files. Until then its files end with `.tmp`, which every start of a broker removes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from moldau.model.names import Offset
from moldau.records.batch import (
    CRC_START,
    MAGIC_POSITION,
    MAGIC_V2,
    BatchHeader,
    Buffer,
    whole_headers,
)
from moldau.records.checksum import crc32c
from moldau.storage.log import producer_admission
from moldau.storage.log.transaction_index import AbortedTransaction
from moldau.storage.log_files import (
    EPOCHS_FILE,
    LOG_SUFFIX,
    TEMPORARY_SUFFIX,
    offset_file_name,
)
from moldau.storage.log_state.leader_epoch_history import UNDEFINED_EPOCH, EpochHistory
from moldau.storage.log_state.producer_state import ProducerStates
from moldau.storage.rewriting.segment_rewriting import CleanedSegment, DamagedSegment, read_batches
from moldau.storage.scrubbing.scrub_batches import BatchWalk, Reader
from moldau.storage.scrubbing.scrub_producers import producers_before, snapshot_at
from moldau.storage.scrubbing.segment_scrubbing import ClosedSegment, Damage, known_epochs

BUFFER_BYTES = 1 << 20


class CannotRepair(Exception):
    """In one sentence: why not, and so the damage stays."""


class EpochsAreWrong(CannotRepair):
    """Another replica has the same batch with the same leader epoch: the epoch file is damaged."""


class OffsetRange(NamedTuple):
    offset: Offset
    offset_end: Offset


class Cut(NamedTuple):
    """Bytes of the old file that do not come into the new one, and the offsets they held."""

    position: int
    position_end: int
    offset: Offset
    offset_end: Offset


class MendedSegment(CleanedSegment):
    """As compaction's new segment, under names of its own: the cleaner may be at work too."""

    def path(self, suffix: str) -> str:
        name = offset_file_name(self.base_offset, suffix) + TEMPORARY_SUFFIX
        return os.path.join(self.directory, name)


class Knowledge(NamedTuple):
    """What must be known of the log around a segment."""

    epochs: EpochHistory
    producers: ProducerStates
    """As they were before the segment; moves on with what is written."""
    may_have_gaps: bool
    """Compaction may have taken batches out, here or at the other replica."""
    index_interval_bytes: int


class Mending:
    """Blocks: for a thread. `start`, then `take` what was fetched for `wanted` until that is None;
    the new files are complete then. Raises CannotRepair and StorageFault."""

    def __init__(
        self, segment: ClosedSegment, cuts: Sequence[Cut], known: Knowledge, has_read: Reader
    ) -> None:
        self.segment = segment
        self._path = segment.path(LOG_SUFFIX)
        self._cuts = list(cuts)
        self._known = known
        self._has_read = has_read
        self._position = 0
        self._offset = segment.base_offset
        self._new: MendedSegment | None = None
        self._unwritten = bytearray()

    @property
    def wanted(self) -> OffsetRange | None:
        if not self._cuts:
            return None
        return OffsetRange(max(self._offset, self._cuts[0].offset), self._cuts[0].offset_end)

    def start(self) -> None:
        segment = self.segment
        if not (self._cuts and self._cuts[0].position == 0) and _is_old(self._path):
            raise CannotRepair("it holds messages of the formats before 0.11")
        self._new = MendedSegment(
            segment.directory, segment.base_offset, self._known.index_interval_bytes
        )
        self._copy_own()

    def take(self, records: Buffer) -> None:
        """Batches from `wanted` on; more than wanted does no harm. None at all means that the other
        replica has nothing more of it."""
        wanted, is_over = self.wanted, not records
        assert wanted is not None
        view = memoryview(records)
        for position, header in whole_headers(view):
            if header.offset_end <= wanted.offset:
                continue
            if header.base_offset >= wanted.offset_end:
                is_over = True
                break
            batch = view[position : position + header.size_bytes]
            self._check(batch, header, wanted)
            self._add(batch, header)
        if is_over and self._known.may_have_gaps:
            self._offset = wanted.offset_end
        elif is_over and self._offset < wanted.offset_end:
            raise CannotRepair(f"it has no offset {self._offset}")
        elif self._offset <= wanted.offset:
            raise CannotRepair(f"it sent no whole batch for offset {wanted.offset}")
        if self._offset >= wanted.offset_end:
            self._position = self._cuts.pop(0).position_end
            self._copy_own()

    def abandon(self) -> None:
        if self._new is not None:
            self._new.abandon()

    def _check(self, batch: memoryview, header: BatchHeader, wanted: OffsetRange) -> None:
        base = header.base_offset
        if header.magic != MAGIC_V2 or crc32c(batch[CRC_START:]) != header.crc:
            raise CannotRepair(f"its batch for offset {base} is damaged as well")
        expected = max(self._offset, wanted.offset)
        if base < expected or header.offset_end > wanted.offset_end:
            raise CannotRepair(f"its batch of offsets {base} to {header.last_offset} does not fit")
        if base > expected and not self._known.may_have_gaps:
            raise CannotRepair(f"it has no offset {expected}")
        epoch = self._known.epochs.epoch_at(base)
        if epoch not in (header.leader_epoch, UNDEFINED_EPOCH):
            if batch == self._own(len(batch)):
                raise EpochsAreWrong(
                    f"its batch for offset {base} is the one that is here, so it is the file "
                    f"{EPOCHS_FILE} that is wrong; stop the broker, then use log-scrub --repair"
                )
            raise CannotRepair(
                f"its batch for offset {base} is of leader epoch {header.leader_epoch}, the one "
                f"that was here of {epoch}"
            )

    def _own(self, size: int) -> bytes:
        """What is at the place of the batches that are left out."""
        with open(self._path, "rb", buffering=0) as file:
            file.seek(self._cuts[0].position)
            return file.read(size)

    def _copy_own(self) -> None:
        """Up to the next cut; after the last one the new files are made complete."""
        size = os.path.getsize(self._path)
        end = self._cuts[0].position if self._cuts else size
        try:
            for _, header, batch in read_batches(
                self._path, self._position, end, BUFFER_BYTES, self._has_read
            ):
                self._add(batch, header)
        except DamagedSegment as damaged:
            raise CannotRepair(str(damaged)) from damaged
        if not self._cuts:
            self._finish()

    def _add(self, batch: memoryview, header: BatchHeader) -> None:
        assert self._new is not None
        if header.has_producer:
            content = batch if header.is_control else b""
            done = producer_admission.record(
                self._known.producers, content, header, header.base_offset
            )
            if done is not None and done.aborted:
                self._new.add_aborted(AbortedTransaction.of(done))
        self._new.add(len(batch), header.last_offset, header.max_timestamp)
        self._unwritten += batch
        if len(self._unwritten) >= BUFFER_BYTES:
            self._write()
        self._offset = header.offset_end

    def _write(self) -> None:
        assert self._new is not None
        self._new.write(bytes(self._unwritten))
        self._unwritten.clear()

    def _finish(self) -> None:
        assert self._new is not None
        self._write()
        self._new.finish(os.stat(self._path).st_mtime_ns)
        with open(self._new.path(LOG_SUFFIX), "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            segment = self.segment
            walk = BatchWalk(
                file.fileno(), size, segment.base_offset, segment.next_base, self._has_read
            )
            for bad in walk.damaged(lambda position, header, content: None):
                raise CannotRepair(f"what was written cannot be read back: {bad.reason}")
            if size != self._new.size_bytes:
                raise CannotRepair("what was written cannot be read back: bytes are missing")


def _is_old(path: str) -> bool:
    """Whether the first message is; those of the old formats come before all batches."""
    with open(path, "rb", buffering=0) as file:
        start = file.read(MAGIC_POSITION + 1)
    return len(start) > MAGIC_POSITION and start[MAGIC_POSITION] < MAGIC_V2


def cuts_for(segment: ClosedSegment, damages: Sequence[Damage]) -> list[Cut]:
    """What to leave out of the `.log`; nothing if only the files beside it are damaged."""
    path = segment.path(LOG_SUFFIX)
    cuts: list[Cut] = []
    for damage in sorted(damages, key=lambda damage: damage.position):
        if damage.path != path:
            continue
        if segment.next_base is None and damage.position_end == os.path.getsize(path):
            raise CannotRepair(
                "its end is damaged, and nothing says where the segment that is being written ended"
            )
        cut = Cut(damage.position, damage.position_end, damage.offset, damage.offset_end)
        if cuts and cut.position <= cuts[-1].position_end:
            last = cuts.pop()
            cut = Cut(
                last.position,
                max(last.position_end, cut.position_end),
                min(last.offset, cut.offset),
                max(last.offset_end, cut.offset_end),
            )
        cuts.append(cut)
    return cuts


class Plan(NamedTuple):
    """A segment to write anew."""

    segment: ClosedSegment
    cuts: list[Cut]

    @property
    def is_whole(self) -> bool:
        """Everything comes from another replica."""
        segment = self.segment
        return any((cut.offset, cut.offset_end) == segment[2:4] for cut in self.cuts)


def plan_repair(
    segments: Sequence[ClosedSegment],
    damages: Sequence[Damage],
    *,
    may_have_gaps: bool,
    cleaned_end: Offset,
) -> list[Plan]:
    """Which of a log's segments are to be written anew, in their order. Replicas of a compacted log
    differ, and a deletion that one of them has carried out and forgotten must not be undone by the
    other's older records. So there everything that either may have compacted, from the first
    segment to the damaged one at least, comes from one other replica."""
    plans = []
    for segment in segments:
        own = [damage for damage in damages if damage.path in segment.paths]
        if own:
            plans.append(Plan(segment, cuts_for(segment, own)))
    cut = [plan.segment for plan in plans if plan.cuts]
    if not may_have_gaps or not cut:
        return plans
    if cut[-1].next_base is None:
        raise CannotRepair("it is the last segment of a compacted log")
    end = max(cleaned_end, cut[-1].next_base)
    replaced = [each for each in segments if each.base_offset < end and each.next_base is not None]
    return [Plan(each, [whole_cut(each)]) for each in replaced]


def whole_cut(segment: ClosedSegment) -> Cut:
    """Take everything from the other replica."""
    assert segment.next_base is not None, "the last segment is never compacted"
    size = os.path.getsize(segment.path(LOG_SUFFIX))
    return Cut(0, size, segment.base_offset, segment.next_base)


def in_groups(plans: Sequence[Plan]) -> list[list[Plan]]:
    """What has to be put in place together: neighbours that come whole from another replica. The
    rest can be mended one after another, which needs less room."""
    whole = [plan for plan in plans if plan.is_whole]
    return [*([whole] if whole else []), *([plan] for plan in plans if not plan.is_whole)]


def begin_mending(
    plans: Sequence[Plan], *, may_have_gaps: bool, index_interval_bytes: int, has_read: Reader
) -> list[Mending]:
    """Blocks. The mendings of a group are to be carried out in their order."""
    epochs = known_epochs(plans[0].segment.directory)
    producers: ProducerStates | None = None
    mendings = []
    for segment, cuts in plans:
        partition, directory, base = str(segment.partition), segment.directory, segment.base_offset
        # Without a snapshot what is written for the segment before tells, not what was there.
        producers = snapshot_at(partition, directory, base) or producers
        if producers is None:
            producers = producers_before(partition, directory, base)
        known = Knowledge(epochs, producers, may_have_gaps, index_interval_bytes)
        mendings.append(Mending(segment, cuts, known, has_read))
    return mendings
