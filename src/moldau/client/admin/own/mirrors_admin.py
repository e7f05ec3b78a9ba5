"""Topics that repeat those of another cluster: Moldau keeps them, Apache Kafka does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from moldau.client.admin.admin_requests import AdminRequests, check_top
from moldau.client.shared.client_errors import KafkaError, error_for
from moldau.records.batch import Buffer
from moldau.wire.messages.mirrors import (
    AppendMirroredRequest,
    BeginMirrorsRequest,
    DemoteToMirrorRequest,
    DescribeMirrorsRequest,
    MirrorConfig,
    MirroredPartition,
    MirroredTopic,
    MirrorEpoch,
    NewMirror,
    PromoteMirrorRequest,
    RaiseMirrorEpochsRequest,
)
from moldau.wire.schema import Message

LONG_TIMEOUT_MS = 120_000
"""Cutting and promoting may load many logs."""


class TopicToMirror(NamedTuple):
    name: str
    topic_id: bytes
    source: str
    configs: Mapping[str, str]
    leader_epochs: Sequence[int]


class MirroredPlace(NamedTuple):
    log_start: int
    offset_end: int
    leader_epoch: int
    last_epoch: int
    last_stable_offset: int
    error_code: int = 0


class MirroredInfo(NamedTuple):
    name: str
    topic_id: bytes
    source: str
    """Empty: it is no mirror."""
    partitions: tuple[MirroredPlace, ...]


class MirroredBatches(NamedTuple):
    topic_id: bytes
    source: str
    partition: int
    offset: int
    log_start: int
    records: Buffer


class MirrorsAdmin(AdminRequests):
    async def begin_mirrors(
        self, topics: Sequence[TopicToMirror], *, source_producer_id: int = -1
    ) -> None:
        rows = [
            NewMirror(
                name=topic.name,
                topic_id=topic.topic_id,
                source=topic.source,
                configs=[MirrorConfig(name=key, value=text) for key, text in topic.configs.items()],
                leader_epochs=list(topic.leader_epochs),
            )
            for topic in topics
        ]
        await self._mirroring(
            BeginMirrorsRequest(source_producer_id=source_producer_id, topics=rows)
        )

    async def append_mirrored(self, batches: Sequence[MirroredBatches]) -> list[int | KafkaError]:
        """Where each partition ends now, or why nothing was appended, in the order of the batches.
        Raises KafkaError; then it is not known what was."""
        topics = [
            MirroredTopic(
                topic_id=each.topic_id,
                source=each.source,
                partitions=[
                    MirroredPartition(
                        partition=each.partition,
                        fetch_offset=each.offset,
                        log_start_offset=each.log_start,
                        records=each.records,
                    )
                ],
            )
            for each in batches
        ]
        answer = await self._mirroring(AppendMirroredRequest(topics=topics), self._limit_ms(None))
        rows = [row for topic in answer.topics for row in topic.partitions]
        return [
            error_for(row.error_code, row.error_message) if row.error_code else row.offset_end
            for row in rows
        ]

    async def describe_mirrors(self, topics: Sequence[str] = ()) -> dict[str, MirroredInfo]:
        """All mirrors, or these topics, as far as they are there."""
        answer = await self._mirroring(DescribeMirrorsRequest(topics=list(topics)))
        return {
            row.name: MirroredInfo(
                row.name,
                row.topic_id,
                row.source,
                tuple(
                    MirroredPlace(
                        each.log_start_offset,
                        each.offset_end,
                        each.leader_epoch,
                        each.last_epoch,
                        each.last_stable_offset,
                        each.error_code,
                    )
                    for each in row.partitions
                ),
            )
            for row in answer.topics
            if not row.error_code
        }

    async def raise_mirror_epochs(
        self, topic_id: bytes, source: str, leader_epochs: Mapping[int, int]
    ) -> None:
        rows = [
            MirrorEpoch(partition=number, leader_epoch=epoch)
            for number, epoch in leader_epochs.items()
        ]
        await self._mirroring(
            RaiseMirrorEpochsRequest(topic_id=topic_id, source=source, partitions=rows)
        )

    async def promote_mirror(self, topic: str) -> int:
        """How many transactions that were open are aborted now."""
        answer = await self._mirroring(PromoteMirrorRequest(topic=topic), LONG_TIMEOUT_MS)
        aborted: int = answer.aborted_transactions
        return aborted

    async def demote_to_mirror(self, topic: str, source: str, offset_ends: Sequence[int]) -> None:
        """Everything behind these offsets goes."""
        await self._mirroring(
            DemoteToMirrorRequest(topic=topic, source=source, offset_ends=list(offset_ends)),
            LONG_TIMEOUT_MS,
        )

    async def _mirroring(self, request: Message, limit_ms: int | None = None) -> Any:
        """Never a second time by itself: whoever mirrors looks first where the mirror stands."""
        if self.cluster.controller_id < 0:
            await self.cluster.refresh_brokers()
        answer = await self.network.call(
            self.cluster.controller_id, request, timeout_ms=limit_ms or self._limit_ms(None)
        )
        return check_top(answer)
