"""What recovery hands over to a log: the files as they were found, or made."""

from __future__ import annotations

from typing import NamedTuple

from moldau.model.names import Offset
from moldau.storage.log.segment import Segment
from moldau.storage.log_state.leader_epoch_checkpoint import EpochFile
from moldau.storage.log_state.producer_state import ProducerStates


class LoadedLog(NamedTuple):
    segments: list[Segment]
    log_start_offset: Offset
    recovery_point: Offset
    producers: ProducerStates
    epochs: EpochFile
    snapshot_offset: Offset
    """Where the newest producer snapshot was taken."""

    @property
    def offset_end(self) -> Offset:
        return max(self.segments[-1].offset_end, self.log_start_offset)
