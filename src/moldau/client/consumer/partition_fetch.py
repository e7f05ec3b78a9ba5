"""Fetches of one partition from any offset, without a group and without positions.

For those who read ranges: the tasks of pipelines, the console. Each call is one fetch that the
leader, or the follower it names as nearer, did not refuse; what another try may mend is tried
again as long as any client would.
"""

from __future__ import annotations

import asyncio

from moldau.client.consumer.fetch_session import EPOCH_NONE, FetchSession, FetchSettings, Want
from moldau.client.network.cluster_metadata import Cluster
from moldau.client.shared.client_errors import KafkaError, error_for
from moldau.model.errors import RETRIABLE, Error
from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.wire.messages.fetch import FetchablePartitionResponse


class OutOfRangeError(Exception):
    """The offset is not in the log of the partition."""


class OtherTopicError(Exception):
    """The topic has the name of the one to be read, and is another one."""


class PartitionFetch:
    """Belongs to the loop of the cluster's connections."""

    def __init__(
        self,
        cluster: Cluster,
        settings: FetchSettings,
        tp: TopicPartition,
        topic_id: bytes = NO_TOPIC_ID,
    ) -> None:
        """`topic_id`: of the topic that is meant, as far as that is known."""
        self._cluster = cluster
        self._network = cluster.network
        self._settings = settings
        self._tp = tp
        self._topic_id = topic_id
        self._node = -1
        """A follower that the leader has named as nearer, -1 for the leader."""

    async def at(self, offset: int) -> FetchablePartitionResponse:
        """The partition's row of a fetch that was not refused."""
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
        await self._cluster.refresh([self._tp.topic], allow_auto_create=False)

    async def _try(self, offset: int) -> FetchablePartitionResponse | None:
        """None if the leader has named another replica to ask."""
        tp = self._tp
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
        row: FetchablePartitionResponse = response.responses[0].partitions[0]
        if row.preferred_read_replica >= 0 and row.preferred_read_replica in self._network.nodes:
            self._node = row.preferred_read_replica
            return None
        return row
