"""Replication among several brokers, put together: fetchers, ISR changes, and the upkeep of both.

Made once by a broker that is in a cluster. A broker that stands alone does without all of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from moldau.config.broker import BrokerConfig
from moldau.engine.timers import Timers
from moldau.model.clock import Clock
from moldau.model.cluster import ClusterImage
from moldau.model.names import BrokerId, Millis
from moldau.net.peers import PeerCalls
from moldau.replication.followers import ReplicaFetchers
from moldau.replication.isr_changes import IsrSender
from moldau.replication.replica import Replica
from moldau.replication.replicas import Replicas
from moldau.storage.faults import StorageFault

log = logging.getLogger("kafka.server.ReplicaManager")

IDLE_FETCHERS_MS: Millis = 60_000


class Every(Protocol):
    def __call__(self, name: str, interval_ms: int, job: Callable[[], None], /) -> None: ...


class ClusterReplication:
    def __init__(
        self,
        node_id: BrokerId,
        replicas: Replicas,
        peers: PeerCalls,
        *,
        config: Callable[[], BrokerConfig],
        image: Callable[[], ClusterImage],
        broker_epoch: Callable[[], int],
        clock: Clock,
        timers: Timers,
        replica_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """`replica_lost` hears of a disk that failed: the controller has to be told."""
        self._replicas = replicas
        self._config = config
        self._replica_lost = replica_lost
        self.fetchers = ReplicaFetchers(
            node_id,
            peers,
            config=config,
            broker_epoch=broker_epoch,
            clock=clock,
            timers=timers,
            broken=self._broken,
        )
        self.isr_changes = IsrSender(
            node_id,
            peers,
            replicas.waiting,
            image=image,
            broker_epoch=broker_epoch,
            timeout_ms=lambda: config().request_timeout_ms,
            clock=clock,
            timers=timers,
        )
        replicas.join_cluster(self.fetchers, self.isr_changes)

    def plan_jobs(self, every: Every) -> None:
        """`every(name, interval_ms, job)` runs a job again and again."""
        every("isr-expiration", max(1, self._config().replica_lag_time_max_ms // 2), self.check_isr)
        every("idle-fetchers", IDLE_FETCHERS_MS, self.fetchers.drop_idle)

    def check_isr(self) -> None:
        self.isr_changes.shrink(list(self._replicas))

    async def stop(self) -> None:
        await self.fetchers.stop()
        await self.isr_changes.stop()

    def _broken(self, replica: Replica, fault: StorageFault) -> None:
        self._replicas.put_offline(replica, fault)
        self._replica_lost()
