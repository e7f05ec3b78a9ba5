"""The parts of a broker that metrics are read from, and the looks at all replicas and groups that
they share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moldau.broker.access.quota_keeper import ClientQuotaKeeper
from moldau.broker.monitoring.client_telemetry import ClientTelemetry
from moldau.broker.monitoring.group_lag import GroupLag
from moldau.broker.monitoring.loop_idleness import LoopIdleness
from moldau.broker.monitoring.recent_rates import RecentRates
from moldau.coordinators.group_coordinator import GroupCoordinator
from moldau.coordinators.transaction_coordinator import TransactionCoordinator
from moldau.metrics.answer_cells import AnswerCells
from moldau.metrics.zookeeper_cells import ZooKeeperCells
from moldau.model.cluster import ClusterImage
from moldau.model.names import BrokerId
from moldau.net.server import Server
from moldau.replication.fetch_sessions import FetchSessions
from moldau.replication.replica import Replica
from moldau.replication.replicas import Replicas
from moldau.storage.compaction.compaction_scheduler import Cleaner
from moldau.storage.directories.log_store import LogStore

if TYPE_CHECKING:
    from moldau.broker.cluster_parts import ClusterParts
    from moldau.broker.monitoring.reporting.reporter_thread import ReporterThread
    from moldau.groups.group_machine import GroupMachine
    from moldau.transactions.transaction_machine import TransactionMachine

REPLICAS_PER_LOOK = 100
"""Then the loop may rest."""
GROUPS_PER_LOOK = 500
LATE_MS = 300_000
"""As Apache Kafka, which lets a coordinator five minutes to end what is over."""


@dataclass(slots=True)
class ReplicaSurvey:
    """What a look at all replicas of a broker has counted."""

    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    moving: int = 0
    late: int = 0
    """With a transaction that should have ended before `late_before_ms`."""
    late_before_ms: int = 0
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
        self.moving += partition.is_moving
        if producers is not None and producers.has_transactions:
            self.late += producers.has_late_transaction(self.late_before_ms)


@dataclass(slots=True)
class GroupSurvey:
    """What a look at all groups that are coordinated here has counted."""

    states: Counter[str] = field(default_factory=Counter)
    offsets: int = 0
    members: int = 0


@dataclass(slots=True)
class MetricSources:
    node_id: BrokerId
    image: Callable[[], ClusterImage]
    server: Server
    logs: LogStore
    replicas: Replicas
    cleaner: Cleaner
    fetch_sessions: FetchSessions
    answers: AnswerCells
    group_coordinator: GroupCoordinator
    transaction_coordinator: TransactionCoordinator
    group_lag: GroupLag
    quotas: Callable[[], ClientQuotaKeeper | None]
    """None as long as nobody has had a quota."""
    cluster: ClusterParts | None
    """None while the broker stands alone; so for the next."""
    zookeeper: ZooKeeperCells | None
    is_controller: Callable[[], bool]
    now_ms: Callable[[], int]
    wall_ms: Callable[[], int]
    gc_pauses: Callable[[], float]
    transaction_ms_max: Callable[[], int]
    """How long a transaction may be open."""
    reporters: Sequence[ReporterThread] = ()
    telemetry: ClientTelemetry | None = None
    """None where clients are not asked for metrics."""
    idleness: LoopIdleness = field(default_factory=LoopIdleness)
    state: int = 0
    """As Apache Kafka numbers the states of a broker."""
    survey: ReplicaSurvey = field(default_factory=ReplicaSurvey)
    groups: GroupSurvey = field(default_factory=GroupSurvey)
    rates: RecentRates = field(init=False)
    """Of listeners' cells, fetchers and old versions."""

    def __post_init__(self) -> None:
        self.rates = RecentRates(self._totals, self.now_ms)

    def look(self) -> Iterator[None]:
        """Makes the surveys anew; each step is a place to rest at."""
        late_ms = self.transaction_ms_max() + LATE_MS
        survey = ReplicaSurvey(late_before_ms=self.wall_ms() - late_ms)
        for number, replica in enumerate(list(self.replicas), 1):
            survey.look(replica)
            if number % REPLICAS_PER_LOOK == 0:
                yield
        self.survey = survey
        groups = GroupSurvey()
        for machine in self.group_machines():
            for number, group in enumerate(list(machine.groups.values()), 1):
                groups.states[group.state_name] += 1
                groups.members += len(group.members)  # type: ignore[attr-defined]
                if number % GROUPS_PER_LOOK == 0:
                    yield
            groups.offsets += sum(map(len, machine.offsets.committed.values()))
            yield
        self.groups = groups

    def group_machines(self) -> list[GroupMachine]:
        return self.group_coordinator.machines()  # type: ignore[return-value]

    def transaction_machines(self) -> list[TransactionMachine]:
        return self.transaction_coordinator.machines()  # type: ignore[return-value]

    def _totals(self) -> dict[Hashable, int]:
        old: Mapping[Any, int] = self.answers.old_versions
        totals: dict[Hashable, int] = dict(old)
        for acceptor in self.server.acceptors:
            cells = acceptor.cells
            for name in cells.__slots__:
                totals[acceptor.listener.name, name] = getattr(cells, name)
        if self.cluster is not None and self.cluster.fetchers is not None:
            for leader, number, fetcher in self.cluster.fetchers.each():
                totals["fetcher", leader, number] = fetcher.requests
        return totals
