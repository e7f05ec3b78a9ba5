"""A log at rest: what its note tells, and no way to its files but to load them.

Loading happens in a thread (`directories/log_waking.py`) and ends with a `PartitionLog` in the
store, in the place of this one. Until then offsets, epochs and settings may change here; the loaded
log takes them over. Whoever needs more than a note holds gets None, or has nothing to ask.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.model.names import Millis, Offset, TopicId, TopicPartition
from moldau.storage.log.known_log import KnownLog
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log.rest_notes import AtRest
from moldau.storage.log_settings import LogSettings
from moldau.storage.log_state.leader_epoch_history import EpochStart
from moldau.storage.storage_faults import StorageFault

Woken = Callable[[PartitionLog | StorageFault], None]
Wake = Callable[["RestingLog", Woken], None]
"""Load the log and call back on the loop's thread."""


class RestingLog(KnownLog):
    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        directory: str,
        settings: LogSettings,
        rest: AtRest,
        now_ms: Millis,
        wake: Wake,
    ) -> None:
        super().__init__(topic_partition, topic_id, directory, rest.log_start_offset, now_ms)
        self.offset_end = self.recovery_point = rest.note.offset_end
        self.settings = settings
        self.rest = rest
        self.epoch_assigned: EpochStart | None = None
        """Written down as soon as the files are loaded. Should that never happen, it has no
        records."""
        self._wake = wake

    def __repr__(self) -> str:
        return f"RestingLog({self.topic_partition}, {self.log_start_offset}..{self.offset_end})"

    def wake(self, woken: Woken) -> None:
        """`woken` may be called at once: with the fault that the log has, for one."""
        self._wake(self, woken)

    def cool(self) -> None:
        """Nothing is open."""

    @property
    def base_offset(self) -> Offset:
        """Where the first segment starts."""
        return self.rest.note.base_offset

    @property
    def segment_count(self) -> int:
        return self.rest.note.segment_count

    @property
    def is_short(self) -> bool:
        """Whether it has only the segment that is being written."""
        return self.rest.note.segment_count == 1

    @property
    def size_bytes(self) -> int:
        return self.rest.note.size_bytes

    @property
    def latest_epoch(self) -> int:
        return (self.epoch_assigned or self.rest.note.epoch).epoch

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """A log with a transaction that is not over is never at rest."""
        return high_watermark

    def assign_epoch(self, epoch: int, offset_start: Offset) -> None:
        if epoch != self.latest_epoch:
            self.epoch_assigned = EpochStart(epoch, offset_start)

    def epoch_end_offset(self, epoch: int) -> tuple[int, Offset] | None:
        """What followers that are up to date ask for, thousands of partitions at a time; None for
        what only the files know."""
        if epoch < 0:
            return None
        if epoch == self.latest_epoch:
            return epoch, self.offset_end
        if self.epoch_assigned is not None and epoch == self.rest.note.epoch.epoch:
            return epoch, self.epoch_assigned.offset_start
        return None

    def may_lose_segments(self, now_ms: Millis) -> bool:
        """Whether retention has to look at the files."""
        return self.rest.may_lose_segments(now_ms, self.log_start_offset, self.settings)


AnyLog = RestingLog | PartitionLog
