"""What a poll hands to its user: records past the interceptors, one by one, or as a table.

May run on the user's own thread. User code runs between taking and handing over: whatever becomes
of it, records whose positions have moved are with the user.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from moldau.client.consumer.consumer_records import ConsumerRecord, ConsumerRecords
from moldau.client.consumer.fetch_buffer import Offer, RecordBuffer
from moldau.client.network.receive_buffers import BufferPool
from moldau.client.shared.user_callbacks import tried, warn
from moldau.model.names import TopicPartition

T = TypeVar("T")

COLUMNS_BYTES_MAX = 32 * 1024 * 1024
"""How much memory of tables that are gone is kept for the next ones."""


class Taking:
    def __init__(
        self,
        buffer: RecordBuffer,
        interceptors: Sequence[Any],
        refill: Callable[[], None],
        log: logging.Logger,
        prefix: str,
    ) -> None:
        """`refill` has the room used that was made."""
        self._buffer = buffer
        self._interceptors = interceptors
        self._refill = refill
        self._log = log
        self._prefix = prefix
        self._columns = BufferPool(COLUMNS_BYTES_MAX)

    def records(self, count: int) -> ConsumerRecords | None:
        """At most `count`; None if there is nothing to see."""
        offer, records = self._offer(count)
        self._buffer.hand_over(offer)
        return records

    def one_by_one(self, count: int) -> Iterator[ConsumerRecord] | None:
        """The same, but each position moves with each record: who stops in between comes back
        to the next one."""
        offer, records = self._offer(count)
        if records is None:
            self._buffer.hand_over(offer)
            return None
        return self._buffer.one_by_one(offer, records)

    def table(self, count: int, table_of: Callable[..., T]) -> T | None:
        """What `table_of` makes of whole batches with `count` records or more."""
        offer = self._buffer.take_runs(count)
        self._refill()
        table = table_of(offer.runs, self._columns.take) if offer.runs else None
        self._buffer.hand_over(offer)
        return table

    def _offer(self, count: int) -> tuple[Offer, ConsumerRecords | None]:
        offer = self._buffer.take(count)
        self._refill()
        return offer, self._intercepted(offer.taken) if offer.taken else None

    def _intercepted(self, taken: Mapping[TopicPartition, list[ConsumerRecord]]) -> ConsumerRecords:
        """What interceptors make of them; one that raises is passed over, as in Kafka."""
        records = ConsumerRecords(taken)
        for interceptor in self._interceptors:
            function = getattr(interceptor, "on_consume", None)
            if function is not None:
                changed, fault = tried(function, records)
                if fault is not None:
                    warn(function, fault, log=self._log, prefix=self._prefix)
                elif changed is not None:
                    records = changed
        return records
