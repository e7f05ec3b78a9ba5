"""The parts of a broker that metrics are read from, and the one look at all replicas they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moldau.broker.monitoring.client_telemetry import ClientTelemetry
from moldau.broker.monitoring.loop_idleness import LoopIdleness
from moldau.coordinators.group_coordinator import GroupCoordinator
from moldau.model.cluster import ClusterImage
from moldau.model.names import BrokerId
from moldau.net.server import Server
from moldau.replication.fetch_sessions import FetchSessions
from moldau.replication.isr_sender import IsrSender
from moldau.replication.replica import Replica
from moldau.replication.replicas import Replicas
from moldau.storage.compaction.compaction_scheduler import Cleaner
from moldau.storage.directories.log_store import LogStore

if TYPE_CHECKING:
    from moldau.groups.group_machine import GroupMachine

REPLICAS_PER_LOOK = 100
"""Then the loop may rest."""


@dataclass(slots=True)
class ReplicaSurvey:
    """What a look at all replicas of a broker has counted."""

    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    producers: int = 0
    lag_max: int = 0

    def look(self, replica: Replica) -> None:
        partition = replica.partition
        producers = replica.producers
        if producers is not None:
            self.producers += len(producers)
        if not partition.is_leader:
            self.lag_max = max(self.lag_max, replica.lag)
            return
        self.leaders += 1
        in_sync, needed = len(partition.isr), partition.insync_replicas_needed
        self.under_replicated += in_sync < len(partition.replicas)
        self.under_min_isr += in_sync < needed
        self.at_min_isr += in_sync == needed


@dataclass(slots=True)
class MetricSources:
    node_id: BrokerId
    image: Callable[[], ClusterImage]
    server: Server
    logs: LogStore
    replicas: Replicas
    cleaner: Cleaner
    fetch_sessions: FetchSessions
    group_coordinator: GroupCoordinator
    isr_sender: IsrSender | None
    """None while the broker stands alone; so for the next."""
    is_controller: Callable[[], bool]
    telemetry: ClientTelemetry | None = None
    """None where clients are not asked for metrics."""
    idleness: LoopIdleness = field(default_factory=LoopIdleness)
    state: int = 0
    """As Apache Kafka numbers the states of a broker."""
    survey: ReplicaSurvey = field(default_factory=ReplicaSurvey)

    def look_at_replicas(self) -> Iterator[None]:
        """Makes the survey anew; each step is a place to rest at."""
        survey = ReplicaSurvey()
        for number, replica in enumerate(list(self.replicas), 1):
            survey.look(replica)
            if number % REPLICAS_PER_LOOK == 0:
                yield
        self.survey = survey

    def group_machines(self) -> list[GroupMachine]:
        return self.group_coordinator.machines()  # type: ignore[return-value]
