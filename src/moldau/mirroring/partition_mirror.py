"""One partition of a mirror: what the answers of the source and of the target mean.

Pure. The target's log end is the position, so nothing is remembered beside it. Where the source no
longer has what the target holds, or lost what it lacks, the partition stops: nothing is guessed.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.model.errors import Error
from moldau.model.names import TopicId, TopicPartition
from moldau.records.batch import HEADER_BYTES, MAGIC_POSITION, MAGIC_V2, Buffer, whole_headers

NO_EPOCH = -1
DOUBTS_MAX = 2


class Fetched(NamedTuple):
    """A partition's row of the source's answer."""

    error_code: int
    high_watermark: int
    log_start: int
    records: Buffer
    diverging_offset: int = -1
    """Where the logs part at the latest, if they do."""


class Append(NamedTuple):
    offset: int
    log_start: int
    records: memoryview
    leader_epoch: int
    """The newest of the batches; the target must be in one that is not older."""


class LookUpOffsets(NamedTuple):
    """Where does the source's log start, and where does it end?"""


class LookAgain(NamedTuple):
    """The leader may have moved: ask for it, and then the partition again."""

    error_code: int


Step = Append | LookUpOffsets | LookAgain | None
"""None: there is nothing to do until the next answer."""


class PartitionMirror:
    __slots__ = (
        "_doubts",
        "_is_empty",
        "appended_end",
        "bytes",
        "generation",
        "is_proven",
        "last_epoch",
        "leader_epoch",
        "log_start",
        "place",
        "position",
        "records",
        "resume_at",
        "served",
        "source_end",
        "source_start",
        "stopped",
        "topic_id",
        "trouble",
    )

    def __init__(self, place: TopicPartition, topic_id: TopicId) -> None:
        self.place, self.topic_id = place, topic_id
        """In the source."""
        self.resume_at = 0.0
        """Whoever asks does not before that time of its clock."""
        self.served = 0
        """The number of the last answer that had records of it: who waits longest is first in the
        next question, for an answer has room for a few only."""
        self.trouble = ""
        """Why nothing came when it was last asked; it is asked again."""
        self.position = -1
        """Where the next batch begins; -1 until the target has said where it ends."""
        self.appended_end = -1
        """So far the target is known to be; the position is ahead of it while something is on its
        way."""
        self.last_epoch = NO_EPOCH
        self.leader_epoch = NO_EPOCH
        """Of the target."""
        self.log_start = 0
        """Of the target, as far as is known: a crash may take it back."""
        self.generation = 0
        """Rises whenever what was asked for before is not wanted any more."""
        self.source_end = self.source_start = -1
        self.is_proven = False
        """Whether both clusters hold the same last batch before the position."""
        self.stopped = ""
        """Why, if it did."""
        self.records = self.bytes = 0
        self._is_empty = False
        self._doubts = 0

    @property
    def lag(self) -> int:
        """-1 while it is not known."""
        if self.source_end < 0 or self.position < 0:
            return -1
        return max(0, self.source_end - self.appended_end)

    @property
    def is_level(self) -> bool:
        return self.lag == 0 and self.log_start >= self.source_start

    def stands_at(
        self, log_start: int, offset_end: int, last_epoch: int, leader_epoch: int
    ) -> None:
        """What the target says; it alone knows."""
        self.generation += 1
        self.position = self.appended_end = offset_end
        self.last_epoch, self.log_start = last_epoch, log_start
        self.leader_epoch = leader_epoch
        self._is_empty = log_start == offset_end and last_epoch == NO_EPOCH
        self.is_proven = log_start == offset_end

    def appended(self, offset_end: int, log_start: int) -> None:
        self.appended_end = max(self.appended_end, offset_end)
        self.log_start = max(self.log_start, log_start)

    def is_unknown(self) -> None:
        """An append failed: nobody knows how much of it is there."""
        self.generation += 1
        self.position = -1

    def stop(self, reason: str) -> None:
        self.generation += 1
        self.stopped = reason

    def fetched(self, row: Fetched, generation: int) -> Step:
        if generation != self.generation or self.stopped:
            return None
        if row.error_code == Error.OFFSET_OUT_OF_RANGE:
            return LookUpOffsets()
        if row.error_code:
            return LookAgain(row.error_code)
        if row.diverging_offset >= 0:
            parted = min(row.diverging_offset, self.position)
            self.stop(
                f"the source has other records from offset {parted} on than the target, which ends"
                f" at {self.position}: it lost some, as by an unclean election, or was restored"
            )
            return None
        self._doubts = 0
        self.source_end, self.source_start = row.high_watermark, row.log_start
        if len(row.records):
            return self._batches(row)
        if self.log_start < row.log_start <= self.position:
            # Nothing came that could carry it.
            return Append(self.position, row.log_start, memoryview(b""), NO_EPOCH)
        return None

    def _batches(self, row: Fetched) -> Step:
        view = memoryview(row.records)
        start = end = 0
        offset_next, newest, count = self.position, NO_EPOCH, 0
        if len(view) >= HEADER_BYTES and view[MAGIC_POSITION] != MAGIC_V2:
            self.stop(
                f"the records at offset {self.position} are older than Kafka 0.11: have the source"
                " write the topic anew"
            )
            return None
        for position, header in whole_headers(view):
            if header.magic != MAGIC_V2:
                break
            if header.last_offset < self.position:
                start = end = position + header.size_bytes
                continue
            end = position + header.size_bytes
            offset_next, newest = header.offset_end, max(newest, header.leader_epoch)
            count += header.record_count
        if end == start:
            return None
        step = Append(self.position, row.log_start, view[start:end], newest)
        self.position, self._is_empty = offset_next, False
        self.last_epoch = max(self.last_epoch, newest)
        self.records += count
        self.bytes += end - start
        return step

    def looked_up(self, start: int, end: int, generation: int) -> None:
        """The source's log goes from `start` to `end`, and the position is not in it."""
        if generation != self.generation or self.stopped:
            return
        if self.position < start and self._is_empty:
            self.position = start
            return
        self.source_start, self.source_end = start, end
        if self.position < start:
            self.stop(
                f"the source has deleted the records from offset {self.position} to {start - 1},"
                " which were never mirrored"
            )
        elif self.position > end:
            self.stop(
                f"the source ends at offset {end}, and the target at {self.position}: the source"
                " has lost records"
            )
        elif self._doubts < DOUBTS_MAX:
            # A leader that was asked while it changed: look at the next answer.
            self._doubts += 1
        else:
            self.stop(
                f"the source does not know leader epoch {self.last_epoch}, in which the target's"
                f" records before offset {self.position} were written: it lost them"
            )
