"""Everything that handlers may use, wired once by the broker.

Handlers hold no state: what lasts longer than a request lives behind one of these names. `config`
is replaced whole when a dynamic setting changes, so read it at the time of use and keep no copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from moldau.handlers.authorization import OPEN_AUTHORIZER, Authorizer
from moldau.handlers.quota_keeping import OPEN_QUOTAS, QuotaKeeper
from moldau.handlers.request_context import RequestContext
from moldau.metrics.answer_cells import AnswerCells

if TYPE_CHECKING:
    from moldau.cluster.cluster_controller import ClusterController
    from moldau.cluster.controller_port import Controller
    from moldau.cluster.mirrors import Mirrors
    from moldau.cluster.snapshots.cluster_snapshots import ClusterSnapshots
    from moldau.cluster.tree.access_control_lists import AccessLists
    from moldau.cluster.tree.stored_client_quotas import ClientQuotas
    from moldau.cluster.tree.stored_delegation_tokens import DelegationTokens
    from moldau.cluster.tree.stored_scram_credentials import UserCredentials
    from moldau.config.broker_config import BrokerConfig
    from moldau.coordinators.coordinator import Coordinator
    from moldau.coordinators.group_coordinator import GroupCoordinator
    from moldau.coordinators.local_markers import MarkerWriter
    from moldau.coordinators.producer_id_source import ProducerIdSource
    from moldau.coordinators.transaction_coordinator import TransactionCoordinator
    from moldau.coordinators.transactional_writes import TransactionalWrites
    from moldau.engine.timers import Timers
    from moldau.metrics.pushed.client_instances import ClientInstance
    from moldau.model.clock import Clock
    from moldau.model.cluster import ClusterImage
    from moldau.model.names import BrokerId
    from moldau.net.peers import PeerCalls
    from moldau.replication.fetch_sessions import FetchSessions
    from moldau.replication.metadata_cache import ClusterView
    from moldau.replication.replicas import Replicas
    from moldau.storage.restores.restoring import Restores
    from moldau.storage.snapshots.snapshot_taking import Snapshots


class LogLevels(Protocol):
    """The broker's loggers as configuration resources of type BROKER_LOGGER."""

    def levels(self) -> Mapping[str, str]:
        """Every known logger and its effective level; the root logger is called "root"."""

    def has(self, logger: str) -> bool:
        """Whether there is such a logger, by this or by another name of Apache Kafka's."""

    def set_level(self, logger: str, level: str | None) -> None:
        """None returns the logger to the level of its parent."""


class PasswordKeeper(Protocol):
    """What becomes of passwords that are set while the broker runs."""

    def encoded(self, broker: str, overrides: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """As they may be stored. Raises ApiError if they may not."""


class Telemetry(Protocol):
    """Takes the metrics that clients push (`broker/monitoring/client_telemetry.py`)."""

    @property
    def bytes_max(self) -> int:
        """Of what is pushed at once."""

    def ask(self, instance_id: bytes, ctx: RequestContext) -> ClientInstance:
        """What is wanted of the client. ApiError if it asks too often."""

    async def push(
        self,
        instance_id: bytes,
        ctx: RequestContext,
        metrics: bytes,
        *,
        subscription: int,
        is_terminating: bool,
        compression: int,
    ) -> None:
        """ApiError if the client must not, or not this."""


class PlainPasswords:
    """Stored as they are, where nobody else can read them."""

    def encoded(self, broker: str, overrides: Mapping[str, str | None]) -> Mapping[str, str | None]:
        return overrides


PLAIN_PASSWORDS = PlainPasswords()


class ClusterMember(Protocol):
    """This broker as one of several (`cluster/membership.py`)."""

    @property
    def broker_epoch(self) -> int:
        """Of this registration; requests of a controller that name another one are stale."""

    @property
    def controller(self) -> ClusterController:
        """Answers what only brokers of a cluster ask."""

    @property
    def view(self) -> ClusterView:
        """What UpdateMetadata has told so far; knows the epoch of the newest controller."""

    @property
    def peers(self) -> PeerCalls: ...

    @property
    def turn(self) -> asyncio.Lock:
        """Held by the one request of the controller that is being handled."""

    async def registered(self) -> None:
        """Until this broker has an epoch of its own. Before that it could not tell a request that
        is meant for it from one to an earlier life of it."""

    def publish(self, image: ClusterImage) -> None:
        """From now on this is what the broker knows: replicas, coordinators and settings follow.
        Called after every change of the view or of this broker's roles."""

    async def ready(self) -> None:
        """Until the controller has told this broker of the cluster, or too long: before that every
        topic would seem unknown."""

    async def learn_topics(self, names: Collection[str]) -> None:
        """Read the settings of topics that get their first replica here."""

    async def learn_late_topics(self) -> None:
        """Read the settings of topics that were made between this broker's reading of all and its
        first news from the controller."""


@dataclass(slots=True, eq=False, repr=False)
class Services:
    node_id: BrokerId
    config: BrokerConfig
    image: Callable[[], ClusterImage]
    replicas: Replicas
    controller: Controller
    fetch_sessions: FetchSessions
    producer_ids: ProducerIdSource
    coordinators: Mapping[int, Coordinator]
    """All of them, by the type of their keys in FindCoordinator."""
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    markers: MarkerWriter
    transactional_writes: TransactionalWrites
    timers: Timers
    clock: Clock
    log_levels: LogLevels
    user_credentials: Callable[[], UserCredentials]
    client_quotas: Callable[[], ClientQuotas]
    delegation_tokens: DelegationTokens | None = None
    """None where they are switched off."""
    access_lists: AccessLists | None = None
    """None where no authorizer is configured."""
    authorizer: Authorizer = OPEN_AUTHORIZER
    quotas: QuotaKeeper = OPEN_QUOTAS
    passwords: PasswordKeeper = PLAIN_PASSWORDS
    check_stores: Callable[[Mapping[str, str]], Awaitable[None]] | None = None
    """Given all dynamic settings of this broker as they are stored. Raises ApiError if a listener
    could not speak TLS with them."""
    read_stores_anew: Callable[[], None] = lambda: None
    """They may have changed where they are."""
    telemetry: Telemetry | None = None
    """None where nobody looks at the metrics of clients."""
    answers: AnswerCells = field(default_factory=AnswerCells)
    """What became of requests, for the metrics."""
    snapshots: Callable[[], Snapshots] | None = None
    """None where the broker is one of several."""
    cluster_snapshots: ClusterSnapshots | None = None
    """None where the broker stands alone."""
    restores: Callable[[], Restores] | None = None
    """None where the broker is one of several."""
    mirrors: Callable[[], Mirrors] | None = None
    """None where the broker is one of several."""
    member: ClusterMember | None = None
    """None where the broker stands alone."""
