"""Which leader epoch wrote from which offset on (KIP-101).

Followers and consumers ask where an epoch ended to find out where their log parted from the
leader's. Entries grow in both epoch and start offset; the file format is a checkpoint's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochStart(NamedTuple):
    epoch: int
    offset_start: int


class EpochHistory:
    __slots__ = ("_entries", "latest")

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self._entries: list[EpochStart] = []
        self.latest = UNDEFINED_EPOCH
        for entry in entries:
            self.assign(entry.epoch, entry.offset_start)

    @property
    def entries(self) -> list[EpochStart]:
        return list(self._entries)

    @property
    def last(self) -> EpochStart:
        if not self._entries:
            return EpochStart(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        return self._entries[-1]

    def assign(self, epoch: int, offset_start: int) -> bool:
        """Note that `epoch` writes from `offset_start` on; True if that was news.

        Entries that contradict it are from a log that has since been truncated: they go.
        """
        entries = self._entries
        if entries and entries[-1].epoch == epoch and entries[-1].offset_start <= offset_start:
            return False
        while entries and (entries[-1].epoch >= epoch or entries[-1].offset_start >= offset_start):
            entries.pop()
        entries.append(EpochStart(epoch, offset_start))
        self.latest = epoch
        return True

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset` (at the log's end: that would have written it)."""
        index = bisect_right(self._entries, offset, key=_offset_start) - 1
        return self._entries[index].epoch if index >= 0 else UNDEFINED_EPOCH

    def end_of(self, epoch: int, offset_end: int) -> tuple[int, int]:
        """(largest known epoch ≤ `epoch`, its exclusive end); undefined if `epoch` is newer than
        anything here, `offset_end` if it is the epoch being written now."""
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, offset_end
        index = bisect_right(self._entries, epoch, key=_epoch)
        if index == len(self._entries):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        higher_start = self._entries[index].offset_start
        if index == 0:
            # Older than all we know: its records are gone, so ours starts where the log does.
            return epoch, higher_start
        return self._entries[index - 1].epoch, higher_start

    def truncate_from_end(self, offset_end: int) -> bool:
        """Forget epochs that start at or after `offset_end`; True if any did."""
        before = len(self._entries)
        while self._entries and self._entries[-1].offset_start >= offset_end:
            self._entries.pop()
        self.latest = self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH
        return len(self._entries) != before

    def truncate_from_start(self, offset_start: int) -> bool:
        """Forget epochs that ended before `offset_start`; the one it lies in now starts there."""
        index = bisect_right(self._entries, offset_start, key=_offset_start) - 1
        if index < 0 or (index == 0 and self._entries[0].offset_start == offset_start):
            return False
        first = EpochStart(self._entries[index].epoch, offset_start)
        self._entries[: index + 1] = [first]
        return True

    def clear(self) -> None:
        self._entries.clear()
        self.latest = UNDEFINED_EPOCH


def _epoch(entry: EpochStart) -> int:
    return entry.epoch


def _offset_start(entry: EpochStart) -> int:
    return entry.offset_start
