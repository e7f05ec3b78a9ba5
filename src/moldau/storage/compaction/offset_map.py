"""The newest offset of every key in the dirty part of a log, in bounded memory.

Keys are kept as their MD5: 24 bytes an entry however long they are. The memory is an anonymous
map, so it is given back to the system the moment a compaction ends.
"""

from __future__ import annotations

import mmap

from moldau.records.batch import BatchHeader, Buffer
from moldau.records.compaction_kernel import SLOT_BYTES, newest_offset, note_keys

LOAD_FACTOR_MIN = 0.01


class OffsetMap:
    def __init__(self, memory_bytes: int, load_factor: float, keys_max: int) -> None:
        """Room for as many keys as fill `memory_bytes` to the load factor, but no more than
        `keys_max` can need: most logs are small."""
        load_factor = max(LOAD_FACTOR_MIN, load_factor)
        slots_wanted = int(keys_max / load_factor) + 2
        self._slots = max(2, min(memory_bytes // SLOT_BYTES, slots_wanted))
        # One slot stays free: searching ends there.
        self.capacity = max(1, min(int(self._slots * load_factor), self._slots - 1))
        self.size = 0
        self.offset_latest = -1
        """Up to here the log was read: later records are newer than what the map knows."""
        self._memory = mmap.mmap(-1, self._slots * SLOT_BYTES)
        self.table = memoryview(self._memory).cast("Q")

    def close(self) -> None:
        self.table.release()
        self._memory.close()

    def __contains__(self, key: bytes) -> bool:
        return newest_offset(self.table, key) >= 0

    def newest(self, key: bytes) -> int:
        """-1 if the key is not known."""
        return newest_offset(self.table, key)

    def note(self, header: BatchHeader, body: Buffer, start: int, offset_start: int) -> bool:
        """Note the keys of a batch from `offset_start` on; `body` has its records from `start` on.
        False if not all found room: then the batch does not count as read. Raises ValueError with
        the index of a record that is broken."""
        added, passed = note_keys(
            self.table,
            body,
            (start, len(body)),
            header.record_count,
            header.base_offset,
            offset_start,
            self.capacity - self.size,
        )
        if added < 0:
            raise ValueError(passed)
        self.size += added
        return passed == header.record_count
