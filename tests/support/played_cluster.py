"""Several brokers in one process, on real sockets and real logs, and a test that plays controller.

Roles and metadata go out as the requests a controller sends; what leaders propose about their ISR
comes to `Controller.proposals`, and is granted unless a test says otherwise. There is no
ZooKeeper: the test decides everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from itertools import count
from pathlib import Path
from typing import Any, cast

from moldau.broker.coordinator_parts import CoordinatorParts
from moldau.broker.dispatch import Dispatch
from moldau.broker.log_opening import logs_of
from moldau.broker.system_clock import SystemClock
from moldau.broker.topic_settings import TopicSettings
from moldau.config.broker_config import BrokerConfig
from moldau.coordinators.producer_id_source import ProducerIdSource
from moldau.engine.timers import Timers
from moldau.handlers.routes import ROUTES, cluster_routes
from moldau.handlers.services import Services
from moldau.handlers.topic_data.produce_fast_path import PRODUCE, ProduceLane
from moldau.model.cluster import ClusterImage, Endpoint
from moldau.model.errors import Error
from moldau.model.names import BrokerId, TopicPartition
from moldau.net.acceptor import Listener
from moldau.net.peers import Peers
from moldau.net.server import Server, SocketSettings
from moldau.replication.delayed_requests import Waiting
from moldau.replication.fetch_sessions import FetchSessions
from moldau.replication.following.fetcher_manager import ReplicaFetchers
from moldau.replication.isr_sender import IsrSender
from moldau.replication.metadata_cache import ClusterView
from moldau.replication.replica import Replica
from moldau.replication.replicas import Replicas
from moldau.wire.messages.partitions import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
    AlterPartitionResponseTopic,
)
from moldau.wire.messages.replication import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from moldau.wire.schema import Message
from tests.support.at_once import AtOnce
from tests.support.scripted_broker import ScriptedBroker
from tests.support.services import Levels

CONTROLLER: BrokerId = 99
LISTENER = "PLAINTEXT"
SECONDS_MAX = 30.0
ALL_ROUTES = {**cluster_routes(), **ROUTES}


def topic_id_of(name: str) -> bytes:
    return name.encode().ljust(16, b"-")[:16]


class PlayedMember:
    """What `cluster/membership.py` is in earnest."""

    def __init__(self, node: PlayedBroker) -> None:
        self._node = node
        self.broker_epoch = 1
        self.turn = asyncio.Lock()
        self.view = ClusterView(node.node_id, "played")
        self.peers = node.peers
        self.controller = cast(Any, None)
        self._published = self.view.image

    async def registered(self) -> None:
        pass

    async def ready(self) -> None:
        pass

    def publish(self, image: ClusterImage) -> None:
        old, self._published = self._published, image
        self._node.replicas.see(image)
        self._node.coordinators.follow(old, image)

    async def learn_topics(self, names: Collection[str]) -> None:
        pass

    async def learn_late_topics(self) -> None:
        pass


class PlayedBroker:
    def __init__(self, cluster: PlayedCluster, node_id: BrokerId, directory: Path) -> None:
        loop = asyncio.get_running_loop()
        self.node_id = node_id
        self.clock = SystemClock()
        self.timers = Timers(self.clock, loop.call_later)
        waiting = Waiting(loop, self.timers)
        properties = {"node.id": str(node_id), "log.dirs": str(directory), **cluster.settings}
        self.config, _ = BrokerConfig.parse(properties)
        at_start = TopicSettings(self.config, {}, {})
        self.store = logs_of(lambda: self.config, self.clock, (AtOnce(), AtOnce()), at_start.of)
        self.store.open()
        self.peers = Peers(loop, cluster.endpoint_of, client_id=str(node_id))
        self.replicas = Replicas(
            node_id, self.store, waiting, self.clock, self.config, ClusterImage("", -1)
        )
        numbers = count(1)
        producer_ids = ProducerIdSource(self._allocate)
        self.coordinators = CoordinatorParts(
            node_id,
            config=lambda: self.config,
            image=lambda: self.member.view.image,
            replicas=self.replicas,
            producer_ids=producer_ids,
            clock=self.clock,
            timers=self.timers,
            peers=self.peers,
        )
        self.member = PlayedMember(self)
        self.fetchers = ReplicaFetchers(
            node_id,
            self.peers,
            config=lambda: self.config,
            broker_epoch=lambda: self.member.broker_epoch,
            clock=self.clock,
            timers=self.timers,
            broken=self.replicas.put_offline,
        )
        self.isr_sender = IsrSender(
            node_id,
            self.peers,
            waiting,
            image=lambda: self.member.view.image,
            broker_epoch=lambda: self.member.broker_epoch,
            timeout_ms=lambda: self.config.controller_socket_timeout_ms,
            clock=self.clock,
            timers=self.timers,
            lost=self.replicas.put_offline,
        )
        self.replicas.join_cluster(self.fetchers, self.isr_sender)
        self.on = Services(
            node_id=node_id,
            config=self.config,
            image=lambda: self.member.view.image,
            replicas=self.replicas,
            controller=cast(Any, None),
            fetch_sessions=FetchSessions(100, lambda: next(numbers)),
            producer_ids=producer_ids,
            coordinators=self.coordinators.by_key_type,
            groups=self.coordinators.groups,
            transactions=self.coordinators.transactions,
            markers=self.coordinators.markers,
            transactional_writes=self.coordinators.transactional_writes,
            timers=self.timers,
            clock=self.clock,
            log_levels=Levels(),
            user_credentials=cast(Any, None),
            client_quotas=cast(Any, None),
            member=self.member,
        )
        dispatch = Dispatch(ALL_ROUTES, self.on, loop, {PRODUCE: ProduceLane(self.on)})
        self.server = Server(loop, SocketSettings(), dispatch, frozenset({PRODUCE}))
        self.port = self.server.bind(Listener(LISTENER, "127.0.0.1", 0)).port
        self.server.start()

    async def _allocate(self) -> range:
        """Ids that no other broker gives."""
        return range(self.node_id * 1000, self.node_id * 1000 + 1000)

    def replica(self, topic: str = "t", partition: int = 0) -> Replica:
        return self.replicas.find(topic, partition)

    async def stop(self, *, cleanly: bool = True) -> None:
        """Not cleanly is as a crash: what was not checkpointed is forgotten."""
        await self.coordinators.stop()
        self.server.stop()
        await self.fetchers.stop()
        await self.isr_sender.stop()
        await self.peers.close()
        self.store.close(self.replicas.high_watermarks() if cleanly else {})
        self.timers.close()


class PlayedCluster:
    """Use by `play`. Brokers are numbered from 0."""

    def __init__(self, directory: Path, **settings: str) -> None:
        """Settings by key, with underscores for the dots."""
        self.directory = directory
        self.settings = {key.replace("_", "."): value for key, value in settings.items()}
        self.brokers: dict[BrokerId, PlayedBroker] = {}
        self.proposals: list[tuple[TopicPartition, tuple[BrokerId, ...]]] = []
        self.refuse_with: Error | None = None
        self.partition_epoch = 0
        self.controller_epoch = 1
        self._outside: Peers | None = None
        self._controller = ScriptedBroker({AlterPartitionRequest: self._alter})
        self._cut: set[BrokerId] = set()
        self._names: dict[bytes, str] = {}

    def endpoint_of(self, broker: BrokerId) -> Endpoint | None:
        if broker == CONTROLLER:
            return Endpoint(LISTENER, "127.0.0.1", self._controller.port)
        if broker not in self.brokers or broker in self._cut:
            return None
        return Endpoint(LISTENER, "127.0.0.1", self.brokers[broker].port)

    async def start(self, size: int) -> None:
        await self._controller.__aenter__()
        self._outside = Peers(asyncio.get_running_loop(), self._any_endpoint, client_id="test")
        for node_id in range(size):
            self.start_broker(node_id)
        await self.tell_brokers()

    def _any_endpoint(self, broker: BrokerId) -> Endpoint | None:
        return Endpoint(LISTENER, "127.0.0.1", self.brokers[broker].port)

    def start_broker(self, node_id: BrokerId) -> PlayedBroker:
        directory = self.directory / str(node_id)
        directory.mkdir(exist_ok=True)
        broker = self.brokers[node_id] = PlayedBroker(self, node_id, directory)
        return broker

    async def stop_broker(self, node_id: BrokerId, *, cleanly: bool = True) -> None:
        broker = self.brokers.pop(node_id)
        await broker.stop(cleanly=cleanly)

    def cut(self, node_id: BrokerId) -> None:
        """Other brokers cannot reach it any more."""
        self._cut.add(node_id)
        for broker in self.brokers.values():
            broker.peers.forget(node_id)

    def heal(self, node_id: BrokerId) -> None:
        self._cut.discard(node_id)

    async def stop(self) -> None:
        assert self._outside is not None
        await self._outside.close()
        for node_id in list(self.brokers):
            await self.stop_broker(node_id)
        await self._controller.__aexit__()

    async def call(self, broker: BrokerId, request: Message, version: int) -> Any:
        assert self._outside is not None
        # Each kind on a connection of its own: a write that waits must not hold up the controller.
        lane = type(request).__name__
        return await self._outside.call(
            broker, request, timeout_ms=10_000, version=version, lane=lane
        )

    # What a controller says

    async def tell_brokers(self) -> None:
        await self._update([])

    async def lead(
        self,
        leader: BrokerId,
        epoch: int,
        *,
        replicas: tuple[BrokerId, ...] = (0, 1, 2),
        isr: tuple[BrokerId, ...] | None = None,
        topic: str = "t",
        partitions: int = 1,
        to: Collection[BrokerId] | None = None,
    ) -> dict[BrokerId, Error]:
        """Give every replica that runs its role, then tell all brokers; the first errors."""
        isr = replicas if isr is None else isr
        self.partition_epoch += 1
        self._names[topic_id_of(topic)] = topic
        rows = [
            LeaderAndIsrPartitionState(
                partition_index=index,
                controller_epoch=self.controller_epoch,
                leader=leader,
                leader_epoch=epoch,
                isr=list(isr),
                partition_epoch=self.partition_epoch,
                replicas=list(replicas),
                is_new=epoch == 0,
            )
            for index in range(partitions)
        ]
        request = LeaderAndIsrRequest(
            controller_id=CONTROLLER,
            controller_epoch=self.controller_epoch,
            broker_epoch=1,
            topic_states=[
                LeaderAndIsrTopicState(
                    topic_name=topic, topic_id=topic_id_of(topic), partition_states=rows
                )
            ],
        )
        errors = {}
        for broker in replicas if to is None else to:
            if broker in self.brokers:
                answer = await self.call(broker, request, 7)
                assert answer.error_code == 0, Error(answer.error_code)
                errors[broker] = Error(answer.topics[0].partition_errors[0].error_code)
        await self._update(
            [
                UpdateMetadataTopicState(
                    topic_name=topic,
                    topic_id=topic_id_of(topic),
                    partition_states=[
                        UpdateMetadataPartitionState(
                            partition_index=index,
                            controller_epoch=self.controller_epoch,
                            leader=leader,
                            leader_epoch=epoch,
                            isr=list(isr),
                            zk_version=self.partition_epoch,
                            replicas=list(replicas),
                        )
                        for index in range(partitions)
                    ],
                )
            ]
        )
        return errors

    async def _update(self, topics: list[UpdateMetadataTopicState]) -> None:
        ports = {node_id: broker.port for node_id, broker in self.brokers.items()}
        request = UpdateMetadataRequest(
            controller_id=CONTROLLER,
            controller_epoch=self.controller_epoch,
            broker_epoch=1,
            topic_states=topics,
            live_brokers=[
                UpdateMetadataBroker(
                    id=node_id,
                    rack=f"rack-{node_id}",
                    endpoints=[
                        UpdateMetadataEndpoint(host="127.0.0.1", port=port, listener=LISTENER)
                    ],
                )
                for node_id, port in {**ports, CONTROLLER: self._controller.port}.items()
            ],
        )
        for node_id in self.brokers:
            assert (await self.call(node_id, request, 8)).error_code == 0

    def _alter(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                isr = tuple(state.broker_id for state in row.new_isr_with_epochs)
                name = self._names[topic.topic_id]
                self.proposals.append((TopicPartition(name, row.partition_index), isr))
                if self.refuse_with is None:
                    self.partition_epoch += 1
                rows.append(
                    AlterPartitionResponsePartition(
                        partition_index=row.partition_index,
                        error_code=self.refuse_with or 0,
                        leader_id=request.broker_id,
                        leader_epoch=row.leader_epoch,
                        isr=list(isr),
                        partition_epoch=self.partition_epoch,
                    )
                )
            topics.append(AlterPartitionResponseTopic(topic_id=topic.topic_id, partitions=rows))
        return AlterPartitionResponse(topics=topics)


async def until(is_true: Callable[[], bool], what: str = "") -> None:
    """Give sockets their time until the condition holds."""
    deadline = asyncio.get_running_loop().time() + SECONDS_MAX
    while not is_true():
        assert asyncio.get_running_loop().time() < deadline, f"it did not come true: {what}"
        await asyncio.sleep(0.005)


def play(
    scenario: Callable[[PlayedCluster], Awaitable[None]],
    directory: Path,
    size: int = 3,
    **settings: str,
) -> None:
    async def whole() -> None:
        async with asyncio.timeout(60):
            cluster = PlayedCluster(directory, **settings)
            await cluster.start(size)
            await scenario(cluster)
            await cluster.stop()

    asyncio.run(whole())
