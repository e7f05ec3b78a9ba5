"""Batches that take long to check: those are checked in a thread, one after the other.

A few kilobytes may decompress to 64 MiB, and a plain batch may have as many. Codecs, checksums and
kernels let the interpreter go now and then, so the loop serves everybody else; and one at a time
bounds the memory. Whoever waits here is not overtaken by
the next request of its connection, or the records of a producer would be written out of order.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from moldau.model.names import Millis
from moldau.net.connection_muting import done_beside
from moldau.records.batch_validation import ProducedBatch
from moldau.replication.replica import Replica


class LongBatches:
    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None

    async def check(
        self, replica: Replica, records: memoryview, now_ms: Millis, version: int
    ) -> ProducedBatch:
        """Raises ApiError."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "long-batches")
        return await done_beside(self._thread, replica.check_at_leisure, records, now_ms, version)
