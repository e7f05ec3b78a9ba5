"""A client of the simulated cluster: asks whoever should know, and again until there is an answer.

It speaks through the real encoders over the simulated network, from a process of its own that is
never harmed.
"""

from __future__ import annotations

import asyncio
from typing import Any

from moldau.model.cluster import Endpoint
from moldau.model.errors import Error
from moldau.model.names import TopicId
from moldau.net.peers import Peers, PeerUnreachable
from moldau.wire.messages.groups import FindCoordinatorRequest
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from moldau.wire.schema import Message
from tests.sim.network import PORT, Network
from tests.sim.world import World, new_loop

NAME = "client"
TIMEOUT_MS = 2_500
RETRY_SECONDS = 0.1
RETRIABLE = frozenset(
    {
        Error.LEADER_NOT_AVAILABLE,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.UNKNOWN_TOPIC_ID,
        Error.REQUEST_TIMED_OUT,
        Error.NETWORK_EXCEPTION,
        Error.NOT_ENOUGH_REPLICAS,
        Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Error.NOT_COORDINATOR,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.CONCURRENT_TRANSACTIONS,
        Error.NOT_CONTROLLER,
        Error.OFFSET_NOT_AVAILABLE,
        Error.FENCED_LEADER_EPOCH,
        Error.UNKNOWN_LEADER_EPOCH,
        Error.KAFKA_STORAGE_ERROR,
        Error.BROKER_NOT_AVAILABLE,
        Error.INVALID_REPLICATION_FACTOR,
    }
)
"""Try again: also with too few brokers for a new topic, which have yet to join."""


class Client:
    def __init__(self, world: World, network: Network, brokers: int) -> None:
        self.world = world
        self.loop = new_loop(world, NAME)
        network.attach(self.loop)
        self._brokers = brokers
        self._chance = world.chance("client")
        self._leaders: dict[tuple[str, int], int] = {}
        self._epochs: dict[tuple[str, int], tuple[TopicId | None, int]] = {}
        self._peers = Peers(self.loop, self._endpoint_of, client_id=NAME)

    def _endpoint_of(self, broker: int) -> Endpoint | None:
        return Endpoint("PLAINTEXT", f"b{broker}", PORT)

    async def pause(self) -> None:
        await asyncio.sleep(RETRY_SECONDS * self._chance.uniform(0.5, 1.5))

    async def call(self, broker: int, request: Message, version: int, lane: str) -> Any:
        return await self._peers.call(
            broker, request, timeout_ms=TIMEOUT_MS, lane=lane, version=version
        )

    def any_broker(self) -> int:
        return self._chance.randrange(self._brokers)

    async def ask_any(self, request: Message, version: int, lane: str) -> Any:
        """Whoever answers."""
        while True:
            try:
                return await self.call(self.any_broker(), request, version, lane)
            except PeerUnreachable:
                await self.pause()

    def should_retry(self, code: int, what: str) -> bool:
        error = Error(code)
        if error in RETRIABLE:
            return True
        self.world.fail(f"{what} was refused: {error.name}")
        return False

    # Who leads, who coordinates

    async def leader(self, topic: str, partition: int) -> int:
        while True:
            known = self._leaders.get((topic, partition))
            if known is not None:
                return known
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
            )
            answer = await self.ask_any(request, 12, "metadata")
            for row in answer.topics[0].partitions:
                place = topic, row.partition_index
                # As every client does: never back to a leader of an earlier epoch, unless the
                # topic is another one. Brokers may still tell of one that had its name before.
                topic_id, epoch = self._epochs.get(place, (None, -1))
                is_newer = topic_id != answer.topics[0].topic_id or row.leader_epoch >= epoch
                if row.error_code == 0 and row.leader_id >= 0 and is_newer:
                    self._epochs[place] = answer.topics[0].topic_id, row.leader_epoch
                    self._leaders.setdefault(place, row.leader_id)
            if (topic, partition) not in self._leaders:
                await self.pause()

    def forget_topic(self, topic: str) -> None:
        """Another one has its name now."""
        self._leaders.pop((topic, 0), None)
        self._epochs.pop((topic, 0), None)

    async def forget_leader(self, topic: str, partition: int) -> None:
        self._leaders.pop((topic, partition), None)
        await self.pause()

    async def coordinator(self, key: str, key_type: int) -> int:
        while True:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            answer = await self.ask_any(request, 4, "coordinator")
            row = answer.coordinators[0]
            if not row.error_code:
                node: int = row.node_id
                return node
            self.should_retry(row.error_code, f"the search for {key}'s coordinator")
            await self.pause()

    async def create_topic(self, name: str, partitions: int, min_insync: int) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=3,
            configs=[CreatableTopicConfig(name="min.insync.replicas", value=str(min_insync))],
        )
        while True:
            request = CreateTopicsRequest(topics=[topic], timeout_ms=2_000)
            answer = await self.ask_any(request, 7, "topics")
            code = answer.topics[0].error_code
            if code in (0, Error.TOPIC_ALREADY_EXISTS):
                return
            self.should_retry(code, f"the topic {name}")
            await self.pause()
