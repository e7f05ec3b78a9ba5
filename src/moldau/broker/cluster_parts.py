"""What only a broker of a cluster has: the session with ZooKeeper, the member, the fetchers.

Loaded when `zookeeper.connect` is set; a broker that stands alone never imports any of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from moldau.broker.access.security_parts import SASL_PROTOCOLS, TLS_PROTOCOLS
from moldau.broker.background_jobs import Background
from moldau.broker.machine_environment import Surroundings
from moldau.cluster.lone_controller import draw_topic_id
from moldau.cluster.membership import ImageListener, Member
from moldau.cluster.tree import tree_layout
from moldau.cluster.tree.metadata_retries import patiently
from moldau.config.broker_config import BrokerConfig
from moldau.engine.timers import Timers
from moldau.metadata.store import SharedStore, StoreError
from moldau.model.clock import Clock
from moldau.model.names import uuid_text
from moldau.net.peers import PeerSecurity
from moldau.replication.delayed_requests import Waiting
from moldau.replication.following.fetcher_manager import ReplicaFetchers
from moldau.replication.isr_sender import IsrSender
from moldau.replication.replica import Replica
from moldau.replication.replicas import Replicas
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.server.KafkaServer")

IDLE_FETCHERS_MS = 10_000


class ClusterParts:
    def __init__(self, store: SharedStore, member: Member, cluster_id: str) -> None:
        self.store = store
        self.member = member
        self.cluster_id = cluster_id
        self.fetchers: ReplicaFetchers | None = None
        self.isr_sender: IsrSender | None = None
        self._telling: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(
        cls,
        config: Callable[[], BrokerConfig],
        around: Surroundings,
        *,
        timers: Timers,
        follow: ImageListener,
    ) -> ClusterParts:
        """Raises ConfigError, StoreError and StoreFault."""
        security = _peer_security(config)
        store = await around.open_store(config())

        def draw() -> bytes:
            return draw_topic_id(around.random_bytes)

        async def cluster_id_there() -> str:
            await tree_layout.lay_out(store)
            return await tree_layout.cluster_id_of(store, lambda: uuid_text(draw()))

        cluster_id = await patiently(
            cluster_id_there,
            clock=around.clock,
            timers=timers,
            timeout_ms=config().zookeeper_connection_timeout_ms,
        )
        member = Member(
            store,
            config().node_id,
            cluster_id,
            config=config,
            clock=around.clock,
            timers=timers,
            follow=follow,
            random_bytes=around.random_bytes,
            draw_id=draw,
            security=security,
        )
        return cls(store, member, cluster_id)

    def wire(
        self,
        replicas: Replicas,
        waiting: Waiting,
        *,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        timers: Timers,
    ) -> None:
        member, node_id = self.member, config().node_id

        def broken(replica: Replica, fault: StorageFault) -> None:
            replicas.put_offline(replica, fault)
            self.tell_of_failed_directory()

        self.fetchers = ReplicaFetchers(
            node_id,
            member.peers,
            config=config,
            broker_epoch=lambda: member.broker_epoch,
            clock=clock,
            timers=timers,
            broken=broken,
        )
        self.isr_sender = IsrSender(
            node_id,
            member.peers,
            waiting,
            image=lambda: member.image,
            broker_epoch=lambda: member.broker_epoch,
            timeout_ms=lambda: config().controller_socket_timeout_ms,
            clock=clock,
            timers=timers,
            lost=broken,
        )
        replicas.join_cluster(self.fetchers, self.isr_sender)
        replicas.regained.on_regained = self.tell_of_failed_directory

    def tell_of_failed_directory(self) -> None:
        """The controller, which asks in return which replicas are served, and which again."""
        telling = asyncio.get_running_loop().create_task(self.member.log_dir_failed())
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    def plan_jobs(self, background: Background, replicas: Replicas, config: BrokerConfig) -> None:
        assert self.isr_sender is not None
        assert self.fetchers is not None
        isr_sender, fetchers = self.isr_sender, self.fetchers
        interval_ms = max(1, config.replica_lag_time_max_ms // 2)
        background.every("isr-expiration", interval_ms, lambda: isr_sender.shrink(replicas))
        background.every("shutdown-idle-replica-fetchers", IDLE_FETCHERS_MS, fetchers.drop_idle)

    async def stop_replication(self) -> None:
        if self.fetchers is not None:
            await self.fetchers.stop()
        if self.isr_sender is not None:
            await self.isr_sender.stop()

    async def close(self) -> None:
        try:
            await self.member.close()
            await self.store.close()
        except StoreError as fault:
            log.error("The session with ZooKeeper was not closed: %s", fault)


def _peer_security(config: Callable[[], BrokerConfig]) -> PeerSecurity:
    """How to speak to other brokers; what is not needed for it is not loaded."""
    among_brokers = config().inter_broker_listener
    endpoints = {each.listener: each for each in config().bound_endpoints}
    protocol = endpoints[among_brokers].security_protocol
    security = PeerSecurity()
    if protocol in TLS_PROTOCOLS:
        from moldau.net.tls.tls_entrance import PeerTls

        security = security._replace(tls=PeerTls(config).context)
    if protocol in SASL_PROTOCOLS:
        from moldau.net.sasl.peer_login import PeerLogin

        security = security._replace(login=PeerLogin(config).login)
    return security
