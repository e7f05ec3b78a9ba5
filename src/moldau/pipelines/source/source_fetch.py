"""One task's read: raw record batches of one partition, from offset to offset.

No group, no membership: fetches go to the partition's leader, one ahead of what is being decoded.
Ends that no record has (a transaction's marker, a compacted record) are passed like others, since
it is the batches' offsets that count. An executor runs this.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from moldau.client.consumer.fetch_buffer import BatchSlice
from moldau.client.consumer.fetch_session import FetchSettings
from moldau.client.consumer.partition_fetch import (
    OtherTopicError,
    OutOfRangeError,
    PartitionFetch,
)
from moldau.client.serialization.fetched_batches import Fetched, batches_of, body_of
from moldau.client.shared.client_errors import KafkaError
from moldau.model.names import NO_TOPIC_ID
from moldau.pipelines.source.source_client import SourceClient
from moldau.pipelines.source.source_offsets import OffsetRange
from moldau.pipelines.source.source_options import SourceError
from moldau.pipelines.source.source_plan import lost

SLICES_BYTES_MAX = 32 * 1024 * 1024
"""Decompressed bytes that become one Arrow batch, give or take a record batch."""


class RangeReader:
    def __init__(
        self, client: SourceClient, part: OffsetRange, topic_id: bytes = NO_TOPIC_ID
    ) -> None:
        """`topic_id`: of the topic that the range was planned for, as far as that is known."""
        self._client = client
        self._part = part
        self._settings = FetchSettings.of(client.consumer)
        self._fetch = PartitionFetch(client.admin.cluster, self._settings, part.tp, topic_id)
        self._check_crcs = client.consumer.check_crcs

    def read(self) -> Iterator[list[BatchSlice]]:
        """Lists of batches, each for one Arrow batch; the last may go beyond the end."""
        tp, offset, end = self._part
        stalled_at = time.monotonic() + self._client.options.poll_timeout_ms / 1000
        answer = self._client.submit(self._fetch.at(offset))
        while offset < end:
            try:
                row = answer.result()
            except OtherTopicError:
                lost(
                    self._client.options,
                    f"The topic {tp.topic} was deleted and created anew, so offsets {offset} to"
                    f" {end} of {tp} are gone",
                )
                return
            except OutOfRangeError:
                offset = self._after_loss(offset)
                if offset < end:
                    answer = self._client.submit(self._fetch.at(offset))
                continue
            except KafkaError as fault:
                raise SourceError(f"{tp} could not be read at offset {offset}: {fault}") from None
            fetched = self._batches(row, offset)
            if fetched.next_offset == offset:
                if time.monotonic() > stalled_at:
                    offset = self._after_stall(offset, row)
                answer = self._client.submit(self._fetch.at(offset))
                continue
            stalled_at = time.monotonic() + self._client.options.poll_timeout_ms / 1000
            if fetched.next_offset < end:
                answer = self._client.submit(self._fetch.at(fetched.next_offset))
            yield from self._slices(fetched)
            offset = fetched.next_offset

    def _batches(self, row: Any, offset: int) -> Fetched:
        aborted = None
        if self._settings.is_read_committed:
            aborted = row.aborted_transactions or []
        view: Any = row.records if row.records is not None else memoryview(b"")
        return batches_of(self._part.tp, 0, view, offset, aborted)

    def _slices(self, fetched: Fetched) -> Iterator[list[BatchSlice]]:
        slices: list[BatchSlice] = []
        size_bytes = 0
        for row in reversed(fetched.batches):
            if row[2] >= self._part.end:
                break
            header, body = body_of(fetched.tp, fetched.view, row, self._check_crcs)
            slices.append(BatchSlice(fetched.tp, header, body, fetched.position))
            size_bytes += len(body)
            if size_bytes >= SLICES_BYTES_MAX:
                yield slices
                slices, size_bytes = [], 0
        if slices:
            yield slices

    def _after_loss(self, offset: int) -> int:
        """Where to go on if records are gone and that is allowed."""
        tp, _, end = self._part
        earliest = self._client.earliest([tp])[tp]
        latest = self._client.latest([tp])[tp]
        lost(
            self._client.options,
            f"Offset {offset} of {tp} is out of range, which holds offsets {earliest} to {latest}",
        )
        return max(offset, earliest) if offset < latest and earliest < end else end

    def _after_stall(self, offset: int, row: Any) -> int:
        tp, _, end = self._part
        waited_s = self._client.options.poll_timeout_ms / 1000
        lost(
            self._client.options,
            f"{tp} has given no record from offset {offset} on for {waited_s:g} s although it"
            f" should reach offset {end} (its high watermark is {row.high_watermark})",
        )
        return end
