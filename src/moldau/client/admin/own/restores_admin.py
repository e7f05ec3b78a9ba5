"""Restoring topics as they were: Moldau's brokers let themselves be told, Apache Kafka's do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from moldau.client.admin.admin_requests import AdminRequests, check_top
from moldau.client.shared.client_errors import KafkaError, UnsupportedVersionError
from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.records.batch import Buffer
from moldau.wire.messages.restores import (
    AppendRestoredRequest,
    BeginRestoreRequest,
    EndRestoreRequest,
    RestoredConfig,
    RestoredTopic,
)
from moldau.wire.schema import Message

END_TIMEOUT_MS = 600_000
"""A disk may have much to write before what was restored is safe."""


class TopicToRestore(NamedTuple):
    name: str
    log_start_offsets: Sequence[int]
    """One for each partition."""
    configs: Mapping[str, str] = {}
    topic_id: bytes = NO_TOPIC_ID


class RestoresAdmin(AdminRequests):
    async def begin_restore(
        self, topics: Sequence[TopicToRestore], *, timeout_ms: int | None = None
    ) -> str:
        """What the next calls name. The topics must not exist."""
        rows = [
            RestoredTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                configs=[
                    RestoredConfig(name=key, value=text) for key, text in topic.configs.items()
                ],
                log_start_offsets=list(topic.log_start_offsets),
            )
            for topic in topics
        ]
        request = BeginRestoreRequest(topics=rows)
        answer = await self._restoring(request, timeout_ms or END_TIMEOUT_MS)
        restore_id: str = answer.restore_id
        return restore_id

    async def append_restored(self, restore_id: str, place: TopicPartition, records: Buffer) -> int:
        """Whole batches as they were; where the partition ends now."""
        request = AppendRestoredRequest(
            restore_id=restore_id, topic=place.topic, partition=place.partition, records=records
        )
        offset_end: int = (await self._restoring(request, self._limit_ms(None))).offset_end
        return offset_end

    async def end_restore(
        self, restore_id: str, *, is_wanted: bool, producer_id_last: int = -1
    ) -> None:
        """Make topics of what was appended, all at once, or give it up."""
        request = EndRestoreRequest(
            restore_id=restore_id, is_wanted=is_wanted, producer_id_last=producer_id_last
        )
        await self._restoring(request, END_TIMEOUT_MS)

    async def can_restore(self) -> bool:
        """Whether the cluster is one that topics can be restored to as they were."""
        try:
            await self.begin_restore([])
        except UnsupportedVersionError:
            return False
        except KafkaError:
            # It knows how, and only not with nothing.
            return True
        raise AssertionError("a restore of nothing has begun")

    async def _restoring(self, request: Message, limit_ms: int) -> Any:
        """Never a second time by itself: batches whose answer was lost may be there."""
        if self.cluster.controller_id < 0:
            await self.cluster.refresh_brokers()
        answer = await self.network.call(self.cluster.controller_id, request, timeout_ms=limit_ms)
        return check_top(answer)
