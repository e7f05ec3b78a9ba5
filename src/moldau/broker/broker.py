"""The composition root: builds every part of a broker, hands them to one another, decides nothing.

The order of the start is Kafka's: settings, metadata, logs, replicas, and only when all of that
stands are clients let in. The stop goes the other way round. Whatever step of the start fails,
`stop` undoes those before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from moldau import __version__
from moldau.broker.access.security_parts import SecurityParts
from moldau.broker.advertised_addresses import advertised_by, listeners_of, socket_settings_of
from moldau.broker.background_jobs import Background
from moldau.broker.broker_id_generation import numbered
from moldau.broker.broker_log.log_setup import BrokerLoggers
from moldau.broker.coordinator_parts import CoordinatorParts
from moldau.broker.dispatch import Dispatch
from moldau.broker.kafka_adoption import open_metadata
from moldau.broker.log_jobs import follow_failures, plan_cleaner, plan_log_jobs
from moldau.broker.log_opening import logs_of, was_left_uncleanly
from moldau.broker.machine_environment import Surroundings
from moldau.broker.monitoring.opening import monitoring_of, telemetry_of
from moldau.broker.restore_parts import add_lone_parts
from moldau.broker.segment_scrubber import Scrubber, ScrubberParts, plan_scrubber
from moldau.broker.snapshot_parts import SnapshotParts, add_cluster_snapshots
from moldau.broker.topic_settings import TopicSettings, dynamic_overrides
from moldau.cluster.lone_controller import LoneController
from moldau.config.broker_config import BrokerConfig
from moldau.config.setting_definition import ConfigError
from moldau.coordinators.producer_id_source import ProducerIdSource
from moldau.engine.timers import Timers
from moldau.handlers.routes import routes_of
from moldau.handlers.services import Services
from moldau.handlers.topic_data.produce_fast_path import PRODUCE, ProduceLane
from moldau.metadata.embedded import EmbeddedStore
from moldau.metadata.store import MetadataStore, StoreError
from moldau.model.cluster import BrokerNode, ClusterImage, Endpoint
from moldau.net.acceptor import BindFault, Listener
from moldau.net.server import Server
from moldau.replication.delayed_requests import Waiting
from moldau.replication.fetch_sessions import FetchSessions
from moldau.replication.replicas import Replicas
from moldau.storage.compaction.compaction_scheduler import Cleaner
from moldau.storage.directories.log_store import LogStore
from moldau.storage.directories.meta_properties import join_zookeeper
from moldau.storage.storage_faults import StorageFault

if TYPE_CHECKING:
    from moldau.broker.cluster_parts import ClusterParts
    from moldau.broker.monitoring.monitoring import Monitoring
    from moldau.cluster.controller_port import Controller

log = logging.getLogger("kafka.server.KafkaServer")
fetcher_log = logging.getLogger("kafka.server.ReplicaFetcherManager")

OVERLAPPING = frozenset({PRODUCE})
"""Requests that may follow one another unanswered: each has done its work when it waits."""


class State(Enum):
    NOT_RUNNING = "NotRunning"
    STARTING = "Starting"
    RECOVERING = "RecoveringFromUncleanShutdown"
    RUNNING = "Running"
    SHUTTING_DOWN = "ShuttingDown"


class StartFault(Exception):
    """The broker cannot start, for a reason that its operator can do something about."""


class Broker:
    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        around: Surroundings | None = None,
    ) -> None:
        self._around = around = around or Surroundings()
        self.config = config
        """What is in force; replaced whole by a dynamic change."""
        self.state = State.NOT_RUNNING
        self._loop = loop
        self._clock = around.clock
        self._timers = Timers(self._clock, loop.call_later)
        self._loggers = BrokerLoggers()
        self._background = Background(loop)
        self._threads = ThreadPoolExecutor(config.num_io_threads, "kafka-request-handler")
        self._logs: LogStore | None = None
        self._settings_at_start = TopicSettings(config, {}, {})
        self._loading: asyncio.Future[None] | None = None
        self._cleaner: Cleaner | None = None
        self._scrubber: Scrubber | None = None
        self._metadata: EmbeddedStore | None = None
        self._controller: LoneController | None = None
        self._replicas: Replicas | None = None
        self._coordinators: CoordinatorParts | None = None
        self._services: Services | None = None
        self._security: SecurityParts | None = None
        self._server: Server | None = None
        self._cluster: ClusterParts | None = None
        """None while the broker stands alone."""
        self._monitoring: Monitoring | None = None
        self._endpoints: tuple[Endpoint, ...] = ()
        self.has_failed = asyncio.Event()
        """Set when no log directory is left, or that of the metadata is lost: it has to stop."""

    @property
    def bootstrap(self) -> str:
        """The address to give a client."""
        host, port = self._endpoints[0].host, self._endpoints[0].port
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    # Starting

    async def start(self) -> None:
        """Raises StartFault with what the operator should know."""
        self._loop.set_default_executor(self._threads)
        log.info("[KafkaServer id=%d] starting version=%s", self.config.node_id, __version__)
        self._enter(State.STARTING)
        try:
            self._monitoring = await monitoring_of(self.config, lambda: self.state.value)
            self.config = await numbered(self.config, self._around, self._timers)
            if any(map(was_left_uncleanly, self.config.log_dirs)):
                self._enter(State.RECOVERING)
            self._logs = self._new_logs()
            self._logs.lock()
            # Before the logs are loaded: it has the topics' settings.
            await self._open_metadata(self._logs)
            self._loading = self._loop.run_in_executor(None, self._logs.load)
            await asyncio.shield(self._loading)
            await self._build()
        except (BindFault, ConfigError, StorageFault, StoreError) as fault:
            raise StartFault(str(fault)) from fault
        self._enter(State.RUNNING)
        log.info("[KafkaServer id=%d] started", self.config.node_id)

    def _new_logs(self) -> LogStore:
        threads = self._around.log_threads(self._loop), self._around.loading_threads(self._loop)
        return logs_of(
            lambda: self.config, self._clock, threads, lambda t: self._settings_at_start.of(t)
        )

    async def _open_metadata(self, logs: LogStore) -> None:
        store: MetadataStore
        if self.config.zookeeper_connect is not None:
            store = await self._open_cluster(logs)
        else:
            store = self._metadata = open_metadata(logs.directories[0].path, logs.cluster_id)
        self._security = SecurityParts(
            lambda: self.config,
            store,
            self._around,
            self._timers,
            is_alone=self._cluster is None,
        )
        await self._security.before_settings()
        reading = TopicSettings.read_patiently(self.config, store, self._clock, self._timers)
        self._settings_at_start = await reading

    async def _open_cluster(self, logs: LogStore) -> MetadataStore:
        from moldau.broker.cluster_parts import ClusterParts
        from moldau.net.tls.pem_blocks import StoreFault

        try:
            self._cluster = cluster = await ClusterParts.open(
                lambda: self.config, self._around, timers=self._timers, follow=self._follow_cluster
            )
        except StoreFault as fault:
            raise StartFault(str(fault)) from fault
        log.info("Cluster ID = %s", cluster.cluster_id)
        logs.claim_cluster(cluster.cluster_id)
        for directory in logs.online:
            join_zookeeper(directory.path)
        return cluster.store

    async def _build(self) -> None:
        if self.config.zookeeper_connect is not None:
            await self._build_member()
            return
        assert self._logs is not None and self._metadata is not None
        config, node_id = self.config, self.config.node_id
        self._controller = controller = LoneController(
            self._metadata,
            node_id,
            config=lambda: self.config,
            clock=self._clock,
            timers=self._timers,
            random_bytes=self._around.random_bytes,
        )
        waiting = Waiting(self._loop, self._timers)
        self._replicas = Replicas(
            node_id, self._logs, waiting, self._clock, config, controller.image
        )
        services = self._new_services(controller, lambda: controller.image, self._replicas)
        services.snapshots = SnapshotParts(self._logs, self._replicas, self._metadata, services)
        add_lone_parts(services, self._logs, controller, lambda: self.config)
        self._server, bound = self._new_server(services)
        controller.on_image(self._follow)
        self._replicas.pending.on_internal = self._follow_roles
        image = await controller.load()
        assert self._security is not None
        await self._security.open()
        log.info("Cluster ID = %s", image.cluster_id)
        self._logs.claim_cluster(image.cluster_id)
        self._endpoints = advertised_by(config, bound)
        await controller.register(BrokerNode(node_id, self._endpoints, config.broker_rack))
        self._plan_jobs()
        self._server.start()

    async def _build_member(self) -> None:
        """As one broker of several, on ZooKeeper."""
        from moldau.cluster.membership import DuplicateBroker
        from moldau.handlers.cluster.state_change_requests import serve_own_controller

        assert self._logs is not None and self._cluster is not None
        config, node_id = self.config, self.config.node_id
        cluster, member = self._cluster, self._cluster.member
        waiting = Waiting(self._loop, self._timers)
        self._replicas = Replicas(node_id, self._logs, waiting, self._clock, config, member.image)
        cluster.wire(
            self._replicas,
            waiting,
            config=lambda: self.config,
            clock=self._clock,
            timers=self._timers,
        )
        services = self._new_services(member.controller, lambda: member.image, self._replicas)
        services.member = member
        member.serve_here = partial(serve_own_controller, on=services)
        self._server, bound = self._new_server(services)
        add_cluster_snapshots(services, self._logs, cluster, self._server.hold)
        await member.load()
        assert self._security is not None
        await self._security.open()
        self._endpoints = advertised_by(config, bound)
        self._plan_jobs()
        cluster.plan_jobs(self._background, self._replicas, config)
        # Before anybody can know of this broker: the controller calls as soon as it does.
        self._server.start()
        try:
            await member.join(BrokerNode(node_id, self._endpoints, config.broker_rack))
        except DuplicateBroker as fault:
            raise StartFault(str(fault)) from fault
        await member.introduced()

    def _new_server(self, services: Services) -> tuple[Server, list[Listener]]:
        lanes = {PRODUCE: ProduceLane(services)}
        dispatch = Dispatch(
            *(routes_of(services), services, self._loop, lanes),
            authorizer=services.authorizer,
            answers=services.answers,
        )
        settings = socket_settings_of(self.config)
        server = self._around.server_type(self._loop, settings, dispatch, OVERLAPPING)
        assert self._security is not None
        self._security.keep_quotas(server, dispatch, services)
        entrance = self._security.entrance
        bound = [server.bind(each, entrance(each)) for each in listeners_of(self.config)]
        self._loggers.tell(server, self._security.follow_log_levels)
        return server, bound

    def _new_services(
        self,
        controller: Controller,
        image: Callable[[], ClusterImage],
        replicas: Replicas,
    ) -> Services:
        assert self._security is not None
        config = self.config
        producer_ids = ProducerIdSource(controller.allocate_producer_ids)
        self._coordinators = coordinators = CoordinatorParts(
            config.node_id,
            config=lambda: self.config,
            image=image,
            replicas=replicas,
            producer_ids=producer_ids,
            clock=self._clock,
            timers=self._timers,
            peers=None if self._cluster is None else self._cluster.member.peers,
        )
        self._services = services = Services(
            node_id=config.node_id,
            config=config,
            image=image,
            replicas=replicas,
            controller=controller,
            fetch_sessions=FetchSessions(
                config.max_incremental_fetch_session_cache_slots,
                self._around.new_session_id,
            ),
            producer_ids=producer_ids,
            coordinators=coordinators.by_key_type,
            groups=coordinators.groups,
            transactions=coordinators.transactions,
            markers=coordinators.markers,
            transactional_writes=coordinators.transactional_writes,
            timers=self._timers,
            clock=self._clock,
            log_levels=self._loggers,
            user_credentials=self._security.user_credentials,
            client_quotas=self._security.client_quotas,
            passwords=self._security.passwords,
            delegation_tokens=self._security.delegation_tokens,
            access_lists=self._security.access_lists,
            authorizer=self._security.authorizer,
            check_stores=self._security.check_stores,
            read_stores_anew=self._read_stores_anew,
        )
        services.telemetry = telemetry_of(self._monitoring, services, self._around)
        return services

    def _enter(self, state: State) -> None:
        self.state = state
        log.info("[KafkaServer id=%d] state=%s", self.config.node_id, state.value)

    def _plan_jobs(self) -> None:
        assert self._logs is not None and self._replicas is not None
        logs, replicas, config = self._logs, self._replicas, self.config
        plan_log_jobs(self._background, logs, replicas, config)
        self._cleaner = plan_cleaner(
            self._background, logs, replicas, lambda: self.config, self._loop, self._clock
        )
        peers = None if self._cluster is None else self._cluster.member.peers
        parts = ScrubberParts(
            logs, replicas, self._cleaner, peers, lambda: self.config, self._clock, self._loop
        )
        self._scrubber = plan_scrubber(self._background, parts)
        assert self._coordinators is not None and self._security is not None
        self._coordinators.plan_jobs(self._background.every)
        self._security.plan_jobs(self._background)
        told = [] if self._cluster is None else [self._cluster.tell_of_failed_directory]
        metadata = logs.directories[0] if self._cluster is None else None
        follow_failures(logs, [self._follow_roles, *told], self.has_failed, metadata)
        if self._monitoring is not None:
            assert self._services is not None and self._server is not None
            watched = (self._services, self._server, logs, self._cleaner, self._cluster)
            self._monitoring.watch(*watched, self._background)

    # Changes while running

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Called after every committed change of the cluster, before its reply leaves."""
        assert self._replicas is not None and self._coordinators is not None
        if new.broker_configs != old.broker_configs:
            self._reconfigure(new)
        self._replicas.apply(old, new)
        self._coordinators.follow(old, new)

    def _follow_roles(self) -> None:
        """Called when partitions are led here only now, or no more, with the same image."""
        assert self._services is not None and self._coordinators is not None
        image = self._services.image()
        self._coordinators.follow(image, image)

    def _follow_cluster(self, old: ClusterImage, new: ClusterImage) -> None:
        """Called after everything that the controller of a cluster has told this broker; roles
        come separately, so replicas only learn names and settings here."""
        assert self._replicas is not None and self._coordinators is not None
        if new.broker_configs != old.broker_configs:
            self._reconfigure(new)
        self._replicas.see(new)
        self._coordinators.follow(old, new)

    def _reconfigure(self, image: ClusterImage) -> None:
        assert self._replicas is not None and self._services is not None
        assert self._server is not None and self._security is not None
        stored = dynamic_overrides(image.broker_configs, self.config.node_id)
        overrides = self._security.passwords.decoded(stored)
        try:
            config = self.config.with_overrides(overrides)
        except ConfigError as fault:
            log.error("Dynamic settings are left as they were: %s", fault)
            return
        if config == self.config:
            return
        if config.num_io_threads != self.config.num_io_threads:
            self._threads.shutdown(wait=False)
            self._threads = ThreadPoolExecutor(config.num_io_threads, "kafka-request-handler")
            self._loop.set_default_executor(self._threads)
        self.config = config
        self._services.config = config
        self._server.reconfigure(socket_settings_of(config))
        self._replicas.reconfigure(config)
        log.info("[KafkaServer id=%d] settings changed: %s", config.node_id, ", ".join(overrides))

    def _read_stores_anew(self) -> None:
        assert self._services is not None
        self.config = self._services.config = self.config.with_overrides(self.config.overrides)

    # Stopping

    async def stop(self) -> None:
        """Also after a start that failed half-way. No acknowledged record needs recovery then."""
        node_id = self.config.node_id
        log.info("[KafkaServer id=%d] shutting down", node_id)
        was_running = self.state is State.RUNNING
        self._enter(State.SHUTTING_DOWN)
        if was_running and self._cluster is not None:
            if self.config.controlled_shutdown_enable:
                await self._cluster.member.hand_over()
        elif was_running:
            log.info("[KafkaServer id=%d] Starting controlled shutdown", node_id)
            fetcher_log.info(
                "[ReplicaFetcherManager on broker %d] Removed fetcher for partitions Set()", node_id
            )
            log.info("[KafkaServer id=%d] Controlled shutdown succeeded", node_id)
        if self._coordinators is not None:
            # While clients can still be told that they have to look for another coordinator.
            await self._coordinators.stop()
        if self._server is not None:
            self._server.stop()
        if self._scrubber is not None:
            self._scrubber.stop()
        await self._background.stop()
        if self._security is not None:
            await self._security.close()
        if self._cluster is not None:
            await self._cluster.stop_replication()
            await self._cluster.close()
        if self._metadata is not None:
            try:
                if self._controller is not None:
                    await self._controller.close()
                await self._metadata.close()
            except StoreError as fault:
                log.error("The metadata store was not closed: %s", fault)
        if self._cleaner is not None:
            self._cleaner.stop()
        if self._replicas is not None:
            self._replicas.moves.stop()
        if self._loading is not None:
            # Told to stop before the start was over: files may still be mended.
            await asyncio.wait((self._loading,))
        if self._logs is not None:
            self._logs.close(self._replicas.high_watermarks() if self._replicas else {})
        if self._monitoring is not None:
            await self._monitoring.stop()
        self._timers.close()
        self._threads.shutdown()
        self._enter(State.NOT_RUNNING)
        log.info("[KafkaServer id=%d] shut down completed", node_id)
