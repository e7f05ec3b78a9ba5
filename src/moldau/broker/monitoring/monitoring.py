"""Lets a broker be watched: the HTTP listener, from the first moment of the start to the end.

Built only if `metrics.http.listener` is set. Until the broker's parts stand, it answers that the
process lives and is not ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from moldau.broker.access.quota_keeper import ClientQuotaKeeper
from moldau.broker.background_jobs import Background
from moldau.broker.monitoring.client_telemetry import FORGET_MS, ClientTelemetry
from moldau.broker.monitoring.gc_pauses import GcPauses
from moldau.broker.monitoring.group_lag import LOOK_MS, GroupLag
from moldau.broker.monitoring.http_listener import HttpListener
from moldau.broker.monitoring.known_hosts import KnownHosts
from moldau.broker.monitoring.meters import METERS_MS
from moldau.broker.monitoring.metric_sources import MetricSources
from moldau.broker.monitoring.monitoring_pages import MonitoringPages
from moldau.broker.monitoring.recent_rates import NOTE_MS
from moldau.handlers.services import Services
from moldau.metrics.dialects import Dialect
from moldau.net.server import Server
from moldau.storage.compaction.compaction_scheduler import Cleaner
from moldau.storage.directories.log_store import LogStore

if TYPE_CHECKING:
    from moldau.broker.cluster_parts import ClusterParts
    from moldau.broker.machine_environment import Surroundings
    from moldau.broker.monitoring.reporting.reporters import Reporters

TURN_MS = 150_000
"""Quantiles are of the last two and a half to five minutes."""
STATES = {
    "NotRunning": 0,
    "Starting": 1,
    "RecoveringFromUncleanShutdown": 2,
    "Running": 3,
    "ShuttingDown": 7,
}
"""As Apache Kafka numbers them."""


class Monitoring:
    def __init__(
        self,
        address: str | None,
        names: Iterable[str],
        state: Callable[[], str],
        dialect: Callable[[], str],
        reporters: Reporters | None,
    ) -> None:
        """`address` is host:port; takes it. `names` are this broker's. Raises BindFault."""
        self._pages = MonitoringPages(lambda: STATES[state()], lambda: Dialect(dialect()))
        self._pauses: GcPauses | None = None
        self._reporters = reporters
        self._listener = None
        if address is not None:
            host, _, port = address.rpartition(":")
            hosts = KnownHosts((host, *names))
            self._listener = HttpListener(host.strip("[]"), int(port), hosts, self._pages.at)

    async def start(self) -> None:
        """Raises BindFault."""
        if self._listener is not None:
            await self._listener.start()

    def take_telemetry(self, services: Services, around: Surroundings) -> ClientTelemetry | None:
        """Where clients may push their metrics to; None if nobody would see them."""
        is_reported = self._reporters is not None and self._reporters.takes_clients
        if self._listener is None and not is_reported:
            return None
        telemetry = ClientTelemetry(
            services.config.telemetry_max_bytes,
            services.image,
            services.clock,
            around.random_bytes,
        )
        if self._reporters is not None:
            self._reporters.follow(telemetry)
        self._pages.telemetry = telemetry
        return telemetry

    def watch(
        self,
        services: Services,
        server: Server,
        logs: LogStore,
        cleaner: Cleaner,
        cluster: ClusterParts | None,
        background: Background,
    ) -> None:
        """The broker's parts stand."""
        peers = None if cluster is None else cluster.member.peers
        lag = GroupLag(
            services.node_id,
            services.groups,
            services.replicas,
            services.clock,
            image=services.image,
            peers=peers,
        )
        self._pauses = GcPauses()
        self._pages.sources = sources = MetricSources(
            node_id=services.node_id,
            image=services.image,
            server=server,
            logs=logs,
            replicas=services.replicas,
            cleaner=cleaner,
            fetch_sessions=services.fetch_sessions,
            answers=services.answers,
            group_coordinator=services.groups,
            transaction_coordinator=services.transactions,
            group_lag=lag,
            quotas=lambda: _keeper_of(services),
            cluster=cluster,
            zookeeper=None if cluster is None else getattr(cluster.store, "cells", None),
            is_controller=lambda: cluster is None or cluster.member.election.active is not None,
            now_ms=services.clock.monotonic_ms,
            wall_ms=services.clock.wall_ms,
            gc_pauses=self._pauses.seconds,
            transaction_ms_max=lambda: services.config.transaction_max_timeout_ms,
        )
        self._plan_jobs(sources, services, background)

    def _plan_jobs(
        self, sources: MetricSources, services: Services, background: Background
    ) -> None:
        telemetry = self._pages.telemetry
        if telemetry is not None:
            sources.telemetry = telemetry
            background.every("client-metrics-reaper", FORGET_MS, telemetry.forget_silent)
        if self._reporters is not None:
            sources.reporters = self._reporters.threads
            report = self._pages.report_to(self._reporters)
            background.every("metrics-reporters", self._reporters.interval_ms, report)

        def turn() -> None:
            sources.server.times.turn()
            services.answers.turn()
            sources.logs.flusher.times.turn()
            if sources.zookeeper is not None:
                sources.zookeeper.latency.turn()
            if sources.cluster is not None:
                election = sources.cluster.member.election
                election.elections.times.turn()
                if election.active is not None:
                    election.active.deliveries.turn()

        def note() -> None:
            sources.idleness.note()
            sources.rates.note()

        background.every("metrics-meters", METERS_MS, self._pages.note_meters)
        background.every("metrics-rates", NOTE_MS, note)
        background.every("metrics-quantiles", TURN_MS, turn)
        background.every("metrics-group-lag", LOOK_MS, sources.group_lag.look)

    async def stop(self) -> None:
        if self._pauses is not None:
            self._pauses.stop()
        if self._listener is not None:
            await self._listener.stop()
        if self._reporters is not None:
            await self._reporters.close()
        if self._pages.telemetry is not None:
            self._pages.telemetry.close()


def _keeper_of(services: Services) -> ClientQuotaKeeper | None:
    quotas = services.quotas
    return quotas if isinstance(quotas, ClientQuotaKeeper) else None
