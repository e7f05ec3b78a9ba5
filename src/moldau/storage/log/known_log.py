"""What is known of a log whether its files are loaded (`partition_log.py`) or not."""

from __future__ import annotations

from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis, Offset, TopicId, TopicPartition
from moldau.storage.storage_faults import StorageFault


class KnownLog:
    offset_end: Offset
    """Where the next record goes."""
    recovery_point: Offset

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        directory: str,
        log_start_offset: Offset,
        now_ms: Millis,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.directory = directory
        self.log_start_offset = log_start_offset
        self.flushed_ms = now_ms
        self.fault: StorageFault | None = None
        """Set when the disk left the log in a state that only a restart can mend."""
        self.cleaned_end: Offset = 0
        """Up to here the log was compacted; the cleaner's checkpoint."""

    def check_range(self, offset: Offset) -> None:
        if not self.log_start_offset <= offset <= self.offset_end:
            raise ApiError(
                Error.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.topic_partition} is not within "
                f"{self.log_start_offset}..{self.offset_end}",
            )

    def advance_log_start(self, offset: Offset) -> bool:
        """Hide everything before `offset` (DeleteRecords, retention); the caller has made sure
        that it is not above the high watermark."""
        if offset <= self.log_start_offset:
            return False
        assert offset <= self.offset_end, f"{offset} lies after the end {self.offset_end}"
        self.log_start_offset = offset
        return True
