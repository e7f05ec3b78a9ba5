"""A topic as the pages of records read it: its partitions, their ends, readers, places in time.

Has connections of its own: a fetch of megabytes must not hold up the answers of other pages,
which brokers give in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, Self

from moldau.client.admin.admin_core import AdminCore
from moldau.client.admin.admin_results import OffsetSpec, checked
from moldau.client.shared.client_errors import error_for
from moldau.config.client_settings.admin_settings import AdminConfig
from moldau.console.records.paging import Range
from moldau.console.records.record_reading import FETCH_BYTES, ChunkReader
from moldau.model.errors import Error
from moldau.model.names import TopicPartition

_CLOSING: set[asyncio.Task[None]] = set()
"""Kept here until they are done, for the loop alone would forget them."""


class TopicReading:
    def __init__(
        self, settings: Mapping[str, Any], topic: str, *, is_committed: bool = True
    ) -> None:
        known = {key: value for key, value in settings.items() if key in AdminConfig.rows}
        self.topic = topic
        self.is_committed = is_committed
        self.leaderless: set[int] = set()
        """As of the last look at the partitions: nothing can be read of them."""
        self._core = AdminCore(known)
        self._readers: dict[tuple[int, int, int], ChunkReader] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A stream whose reader has gone is cancelled at every wait, also at this one.
        closing = asyncio.create_task(self._core.close())
        _CLOSING.add(closing)
        closing.add_done_callback(_CLOSING.discard)
        await asyncio.shield(closing)

    async def partitions(self) -> list[int]:
        """KafkaError if there is no such topic, or one that may not be seen."""
        cluster = self._core.cluster
        await cluster.refresh([self.topic], allow_auto_create=False)
        found = cluster.topic(self.topic)
        if found is None:
            code = cluster.topic_error(self.topic) or Error.UNKNOWN_TOPIC_OR_PARTITION
            if code is Error.UNKNOWN_TOPIC_OR_PARTITION:
                raise error_for(code, f"There is no topic {self.topic}.")
            raise error_for(code, f"The topic {self.topic}: {code.sentence}")
        self.leaderless = {p for p, row in found.partitions.items() if row.leader < 0}
        return sorted(found.partitions)

    async def bounds(self, partitions: Collection[int]) -> dict[int, Range]:
        """What readers see of each: up to the last stable offset, or to the high watermark."""
        starts = await self._listed(dict.fromkeys(partitions, int(OffsetSpec.EARLIEST)))
        ends = await self._listed(dict.fromkeys(partitions, int(OffsetSpec.LATEST)))
        return {p: Range(starts[p], max(starts[p], ends[p])) for p in partitions}

    async def at_time(self, bounds: Mapping[int, Range], timestamp: int) -> dict[int, int]:
        """In each partition the first record that is not older; its end if all are."""
        found = await self._listed(dict.fromkeys(bounds, timestamp))
        return {
            p: min(max(found[p], limits.start), limits.end) if found[p] >= 0 else limits.end
            for p, limits in bounds.items()
        }

    async def held_back(self, bounds: Mapping[int, Range]) -> dict[int, Range]:
        """What readers of committed records do not get yet, because a transaction is open."""
        latest = dict.fromkeys(bounds, int(OffsetSpec.LATEST))
        ends = await self._listed(latest, is_committed=False) if self.is_committed else {}
        return {p: Range(bounds[p].end, end) for p, end in ends.items() if end > bounds[p].end}

    async def _listed(
        self, specs: Mapping[int, int], *, is_committed: bool | None = None
    ) -> dict[int, int]:
        if not specs:
            return {}
        stable = self.is_committed if is_committed is None else is_committed
        wanted = {TopicPartition(self.topic, p): spec for p, spec in specs.items()}
        listed = await self._core.list_offsets(wanted, read_committed=stable)
        return {tp.partition: found.offset for tp, found in checked(listed).items()}

    def reader(
        self, partition: int, *, fetch_bytes: int = FETCH_BYTES, max_wait_ms: int = 0
    ) -> ChunkReader:
        key = (partition, fetch_bytes, max_wait_ms)
        if key not in self._readers:
            self._readers[key] = ChunkReader(
                self._core,
                TopicPartition(self.topic, partition),
                is_committed=self.is_committed,
                fetch_bytes=fetch_bytes,
                max_wait_ms=max_wait_ms,
            )
        return self._readers[key]
