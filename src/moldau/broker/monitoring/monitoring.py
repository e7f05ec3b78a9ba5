"""Lets a broker be watched: the HTTP listener, from the first moment of the start to the end.

Built only if `metrics.http.listener` is set. Until the broker's parts stand, it answers that the
process lives and is not ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from moldau.broker.background_jobs import Background
from moldau.broker.monitoring.client_telemetry import FORGET_MS, ClientTelemetry
from moldau.broker.monitoring.http_listener import HttpListener
from moldau.broker.monitoring.known_hosts import KnownHosts
from moldau.broker.monitoring.loop_idleness import NOTE_MS
from moldau.broker.monitoring.meters import METERS_MS
from moldau.broker.monitoring.metric_sources import MetricSources
from moldau.broker.monitoring.monitoring_pages import MonitoringPages
from moldau.handlers.services import Services
from moldau.net.server import Server
from moldau.storage.compaction.compaction_scheduler import Cleaner
from moldau.storage.directories.log_store import LogStore

if TYPE_CHECKING:
    from moldau.broker.cluster_parts import ClusterParts
    from moldau.broker.machine_environment import Surroundings

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
    def __init__(self, address: str, names: Iterable[str], state: Callable[[], str]) -> None:
        """`address` is host:port; takes it. `names` are this broker's. Raises BindFault."""
        host, _, port = address.rpartition(":")
        self._pages = MonitoringPages(lambda: STATES[state()])
        hosts = KnownHosts((host, *names))
        self._listener = HttpListener(host.strip("[]"), int(port), hosts, self._pages.at)

    async def start(self) -> None:
        """Raises BindFault."""
        await self._listener.start()

    def take_telemetry(self, services: Services, around: Surroundings) -> ClientTelemetry:
        """Where clients may push their metrics to."""
        telemetry = ClientTelemetry(
            services.config.telemetry_max_bytes,
            services.image,
            services.clock,
            around.random_bytes,
        )
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
        self._pages.sources = sources = MetricSources(
            node_id=services.node_id,
            image=services.image,
            server=server,
            logs=logs,
            replicas=services.replicas,
            cleaner=cleaner,
            fetch_sessions=services.fetch_sessions,
            group_coordinator=services.groups,
            isr_sender=None if cluster is None else cluster.isr_sender,
            is_controller=lambda: cluster is None or cluster.member.election.active is not None,
        )
        telemetry = self._pages.telemetry
        if telemetry is not None:
            sources.telemetry = telemetry
            background.every("client-metrics-reaper", FORGET_MS, telemetry.forget_silent)
        background.every("metrics-meters", METERS_MS, self._pages.note_meters)
        background.every("metrics-idle-share", NOTE_MS, sources.idleness.note)
        background.every("metrics-quantiles", TURN_MS, server.times.turn)

    async def stop(self) -> None:
        await self._listener.stop()
        if self._pages.telemetry is not None:
            self._pages.telemetry.close()
