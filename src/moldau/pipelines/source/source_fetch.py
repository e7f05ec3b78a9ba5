"""One task's read: raw record batches of one partition, from offset to offset.

No group, no membership: fetches go to the partition's leader, one ahead of what is being decoded.
Ends that no record has (a transaction's marker, a compacted record) are passed like others, since
it is the batches' offsets that count. An executor runs this.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

from moldau.client.consumer.fetch_buffer import BatchSlice
from moldau.client.consumer.fetch_session import EPOCH_NONE, FetchSession, FetchSettings, Want
from moldau.client.serialization.fetched_batches import Fetched, batches_of, body_of
from moldau.client.shared.client_errors import KafkaError, error_for
from moldau.model.errors import RETRIABLE, Error
from moldau.model.names import NO_TOPIC_ID
from moldau.pipelines.source.source_client import SourceClient
from moldau.pipelines.source.source_offsets import OffsetRange
from moldau.pipelines.source.source_options import SourceError
from moldau.pipelines.source.source_plan import lost

SLICES_BYTES_MAX = 32 * 1024 * 1024
"""Decompressed bytes that become one Arrow batch, give or take a record batch."""


class OutOfRangeError(Exception):
    """The offset is not in the log of the partition."""


class OtherTopicError(Exception):
    """The topic has the name of the one to be read, and is another one."""


class RangeReader:
    def __init__(
        self, client: SourceClient, part: OffsetRange, topic_id: bytes = NO_TOPIC_ID
    ) -> None:
        """`topic_id`: of the topic that the range was planned for, as far as that is known."""
        self._client = client
        self._topic_id = topic_id
        self._network = client.admin.network
        self._cluster = client.admin.cluster
        self._part = part
        self._settings = FetchSettings.of(client.consumer)
        self._check_crcs = client.consumer.check_crcs
        self._node = -1
        """A follower that the leader has named as nearer, -1 for the leader."""

    def read(self) -> Iterator[list[BatchSlice]]:
        """Lists of batches, each for one Arrow batch; the last may go beyond the end."""
        tp, offset, end = self._part
        stalled_at = time.monotonic() + self._client.options.poll_timeout_ms / 1000
        answer = self._client.submit(self._fetch(offset))
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
                    answer = self._client.submit(self._fetch(offset))
                continue
            except KafkaError as fault:
                raise SourceError(f"{tp} could not be read at offset {offset}: {fault}") from None
            fetched = self._batches(row, offset)
            if fetched.next_offset == offset:
                if time.monotonic() > stalled_at:
                    offset = self._after_stall(offset, row)
                answer = self._client.submit(self._fetch(offset))
                continue
            stalled_at = time.monotonic() + self._client.options.poll_timeout_ms / 1000
            if fetched.next_offset < end:
                answer = self._client.submit(self._fetch(fetched.next_offset))
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

    async def _fetch(self, offset: int) -> Any:
        """The partition's row of a fetch that the leader did not refuse."""
        failures = 0
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._network.settings.default_api_timeout_ms / 1000
        while True:
            try:
                row = await self._try(offset)
                if row is not None:
                    return row
            except KafkaError as fault:
                if not fault.retriable or loop.time() > give_up_at:
                    raise
                self._node = -1
                failures += 1
                await self._network.pause(failures)
                await self._refresh()

    async def _refresh(self) -> None:
        await self._cluster.refresh([self._part.tp.topic], allow_auto_create=False)

    async def _try(self, offset: int) -> Any:
        """None if the leader has named another replica to ask."""
        tp = self._part.tp
        found = self._cluster.leader(*tp)
        if found is None:
            await self._refresh()
            found = self._cluster.leader(*tp)
            if found is None:
                raise error_for(Error.LEADER_NOT_AVAILABLE, f"{tp} has no leader")
        leader, epoch = found
        topic_id = self._cluster.topic_id(tp.topic)
        if NO_TOPIC_ID not in (topic_id, self._topic_id) and topic_id != self._topic_id:
            raise OtherTopicError
        request = self._settings.request()
        session = FetchSession()
        want = Want(topic_id, offset, epoch, self._settings.partition_max_bytes)
        version_max = session.fill(request, {tp: want})
        request.session_epoch = EPOCH_NONE
        response = await self._network.call(
            leader if self._node < 0 else self._node,
            request,
            version_max=version_max,
            version_min=4,
            timeout_ms=self._settings.request_timeout_ms + self._settings.max_wait_ms,
        )
        code = response.error_code or response.responses[0].partitions[0].error_code
        if code == Error.OFFSET_OUT_OF_RANGE and self._node < 0:
            raise OutOfRangeError
        if code in RETRIABLE or code == Error.OFFSET_OUT_OF_RANGE:
            # A follower may lag behind; the leader knows.
            raise error_for(Error.NOT_LEADER_OR_FOLLOWER, f"{tp}: {Error(code).sentence}")
        if code:
            raise error_for(code, f"{tp}: {Error(code).sentence}")
        row = response.responses[0].partitions[0]
        if row.preferred_read_replica >= 0 and row.preferred_read_replica in self._network.nodes:
            self._node = row.preferred_read_replica
            return None
        return row
