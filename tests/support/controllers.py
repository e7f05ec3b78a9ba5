"""Brokers that contend to be the controller on one tree, with nothing else in them.

Each knows the cluster only by what controllers tell it, keeps what it was told, and answers as a
broker would. Calls go through memory and can be cut.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from moldau.broker.system_clock import SystemClock
from moldau.cluster import broker_registration
from moldau.cluster.cluster_controller import ClusterController
from moldau.cluster.controller_election import ControllerElection
from moldau.cluster.tree import tree_layout
from moldau.cluster.tree.metadata_retries import patiently
from moldau.config.broker_config import BrokerConfig
from moldau.controller.rules.replica_placement import Start
from moldau.controller.rules.topic_rules import Draw
from moldau.engine.timers import Timers
from moldau.metadata import paths
from moldau.model.cluster import BrokerNode, ClusterImage, Endpoint
from moldau.model.errors import Error
from moldau.net.peers import PeerUnreachable
from moldau.replication.metadata_cache import FULL, ClusterView
from moldau.testing.shared_tree import SharedTree, TreeSession
from moldau.wire.messages.replication import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

CLUSTER = "cluster"


class MemoryPeers:
    """What brokers call one another with."""

    def __init__(self, brokers: dict[int, Contender]) -> None:
        self._brokers = brokers

    async def call(
        self,
        broker: int,
        request: Any,
        *,
        timeout_ms: int,
        lane: str = "",
        version: int | None = None,
    ) -> Any:
        target = self._brokers.get(broker)
        if target is None or not target.is_running:
            raise PeerUnreachable(f"broker {broker} is down")
        await asyncio.sleep(0)
        return await target.serve(request)

    def forget(self, broker: int) -> None:
        pass


class Contender:
    def __init__(
        self, tree: SharedTree, node_id: int, brokers: dict[int, Contender], **settings: str
    ) -> None:
        self.node_id = node_id
        self.session: TreeSession = tree.session()
        properties = {key.replace("_", "."): value for key, value in settings.items()}
        self.config, _ = BrokerConfig.parse({"node.id": str(node_id), **properties})
        self.node = BrokerNode(node_id, (Endpoint("PLAINTEXT", "here", 9000 + node_id),))
        self.view = ClusterView(node_id, CLUSTER)
        self.broker_epoch = -1
        self.is_running = False
        self.patience_ms = 10_000
        self.roles: dict[tuple[str, int], tuple[int, int]] = {}
        """Leader and epoch of every replica here."""
        self.failing: set[tuple[str, int]] = set()
        """Replicas whose disk is broken."""
        self._changed = asyncio.Event()
        clock = SystemClock()
        timers = Timers(clock, asyncio.get_running_loop().call_later)
        self.election = ControllerElection(
            self.session,
            node_id,
            CLUSTER,
            config=lambda: self.config,
            clock=clock,
            timers=timers,
            peers=MemoryPeers(brokers),
            here=self.serve,
            draw_id=lambda: os.urandom(16),
        )
        self.controller = ClusterController(
            self.session,
            node_id,
            self.election,
            config=lambda: self.config,
            image=lambda: self.view.image,
            until=self.until,
            draw=lambda: Draw(os.urandom(16), Start()),
            forward=_nowhere,
            patiently=lambda ask: patiently(
                ask, clock=clock, timers=timers, timeout_ms=self.patience_ms
            ),
        )
        brokers[node_id] = self

    async def start(self) -> Contender:
        await tree_layout.lay_out(self.session)
        self.is_running = True
        await self.register()
        self.election.start()
        return self

    async def register(self) -> None:
        await broker_registration.register(self.session, self.node, 0)
        node = await self.session.get(paths.broker_path(self.node_id))
        self.broker_epoch = node.created_by

    async def stop(self) -> None:
        self.is_running = False
        await self.election.close()
        await self.session.close()

    def crash(self) -> None:
        """Nobody hears of it any more, its session ends."""
        self.is_running = False
        self.session.expire()

    @property
    def is_controller(self) -> bool:
        return self.election.active is not None

    async def serve(self, request: Any) -> Any:
        error = Error.NONE
        if self.view.is_stale(request.controller_epoch):
            error = Error.STALE_CONTROLLER_EPOCH
        elif request.broker_epoch < self.broker_epoch:
            error = Error.STALE_BROKER_EPOCH
        if isinstance(request, UpdateMetadataRequest):
            if not error:
                self.view.update_metadata(request)
            self._changed.set()
            self._changed = asyncio.Event()
            return UpdateMetadataResponse(error_code=error)
        if isinstance(request, LeaderAndIsrRequest):
            return self._take_roles(request, error)
        assert isinstance(request, StopReplicaRequest)
        if not error:
            self.view.heard(request.controller_epoch)
            for topic in request.topic_states:
                for row in topic.partition_states:
                    self.roles.pop((topic.topic_name, row.partition_index), None)
        return StopReplicaResponse(error_code=error, partition_errors=[])

    def _take_roles(self, request: LeaderAndIsrRequest, error: Error) -> LeaderAndIsrResponse:
        from moldau.wire.messages.replication import (
            LeaderAndIsrPartitionError,
            LeaderAndIsrTopicError,
        )

        topics = []
        if not error:
            self.view.heard(request.controller_epoch)
        if not error and request.type == FULL:
            named = {
                (topic.topic_name, state.partition_index)
                for topic in request.topic_states
                for state in topic.partition_states
            }
            self.roles = {place: role for place, role in self.roles.items() if place in named}
        for topic in request.topic_states if not error else ():
            rows = []
            for state in topic.partition_states:
                place = topic.topic_name, state.partition_index
                code = Error.KAFKA_STORAGE_ERROR if place in self.failing else Error.NONE
                if not code and state.leader_epoch >= self.roles.get(place, (0, -1))[1]:
                    self.roles[place] = state.leader, state.leader_epoch
                rows.append(
                    LeaderAndIsrPartitionError(
                        partition_index=state.partition_index, error_code=code
                    )
                )
            topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=rows))
        return LeaderAndIsrResponse(error_code=error, topics=topics)

    async def until(self, is_so: Callable[[ClusterImage], bool]) -> bool:
        try:
            async with asyncio.timeout(5):
                while not is_so(self.view.image):
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True


async def _nowhere(topics: object) -> None:
    raise AssertionError(f"{topics} were to be forwarded")


async def eventually(is_so: Callable[[], bool], what: str = "") -> None:
    """Wait on the loop until it is so, for a few seconds at most."""
    for _ in range(500):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"it never became so: {what}")
