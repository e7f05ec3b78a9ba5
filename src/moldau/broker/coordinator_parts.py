"""The coordinators of a broker, built and wired to one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from moldau.config.broker_config import BrokerConfig
from moldau.coordinators.coordinator import Coordinator, PlanJob
from moldau.coordinators.group_coordinator import GroupCoordinator
from moldau.coordinators.local_markers import MarkerWriter
from moldau.coordinators.producer_id_source import ProducerIdSource
from moldau.coordinators.transaction_coordinator import TransactionCoordinator
from moldau.coordinators.transactional_writes import TransactionalWrites
from moldau.engine.timers import Timers
from moldau.model.clock import Clock
from moldau.model.cluster import ClusterImage
from moldau.model.names import BrokerId
from moldau.replication.replicas import Replicas

if TYPE_CHECKING:
    from moldau.net.peers import PeerCalls


class CoordinatorParts:
    def __init__(
        self,
        node_id: BrokerId,
        *,
        config: Callable[[], BrokerConfig],
        image: Callable[[], ClusterImage],
        replicas: Replicas,
        producer_ids: ProducerIdSource,
        clock: Clock,
        timers: Timers,
        peers: PeerCalls | None = None,
    ) -> None:
        """`peers` are the other brokers of a cluster."""
        self.groups = GroupCoordinator(
            node_id, config=config, replicas=replicas, clock=clock, timers=timers
        )
        self.markers = MarkerWriter(replicas, clock, timers, self.groups.end_transaction)
        self.transactions = TransactionCoordinator(
            node_id,
            config=config,
            image=image,
            replicas=replicas,
            producer_ids=producer_ids,
            markers=self.markers,
            clock=clock,
            timers=timers,
            peers=peers,
        )
        self.transactional_writes = TransactionalWrites(
            self.transactions, config=config, replicas=replicas, clock=clock, timers=timers
        )
        self._all: tuple[Coordinator, ...] = (self.groups, self.transactions)
        """In the order in which they are told; they stop the other way round."""
        self.by_key_type: Mapping[int, Coordinator] = {each.key_type: each for each in self._all}
        """As FindCoordinator names them."""

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Called after every change of the cluster, when the replicas have followed it."""
        for coordinator in self._all:
            coordinator.follow(old, new)

    def plan_jobs(self, plan: PlanJob) -> None:
        for coordinator in self._all:
            coordinator.plan_jobs(plan)

    async def stop(self) -> None:
        """Whoever waits has been answered when this returns."""
        for coordinator in reversed(self._all):
            coordinator.stop()
        for coordinator in reversed(self._all):
            await coordinator.close()
