"""What has been seen of a cluster, and what is said about it: plain data, no I/O.

`gathering` fills an `Evidence`; the modules of diagnosis read it and give `Finding`s. So
every diagnosis can be tested without a cluster that is ill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from moldau.model.names import TopicPartition

SHOWN_MAX = 5


class Severity(Enum):
    ERROR = "error"
    """Something does not work."""
    WARNING = "warning"
    """It works, and will not for long, or not for everybody."""
    NOTE = "note"
    """Good to know; does not count as ill."""


class Finding(NamedTuple):
    severity: Severity
    code: str
    """A short name that never changes, for scripts."""
    what: str
    cause: str
    fix: str
    """What to do, as a sentence."""
    command: str = ""
    """The command that does it, or shows more."""


class Reach(Enum):
    """What became of an attempt to talk Kafka to an address."""

    KAFKA = "answers"
    UNRESOLVED = "its name cannot be resolved"
    REFUSED = "connection refused"
    TIMED_OUT = "no answer to a connection attempt"
    UNREACHABLE = "no way there"
    SILENT = "accepts connections and says nothing"
    CLOSED = "closes the connection"
    TLS = "speaks TLS"
    PLAINTEXT = "speaks plaintext"
    HTTP = "is a web server"
    ZOOKEEPER = "is a ZooKeeper"
    FOREIGN = "speaks another protocol"
    LOGIN = "wants a log-in"
    AUTHORITY = "shows a certificate that is not trusted"
    HOST_NAME = "shows a certificate for another host"
    EXPIRED = "shows a certificate that is not valid now"
    HANDSHAKE = "breaks the TLS handshake off"
    MECHANISM = "does not offer the mechanism"
    CREDENTIALS = "refuses the log-in"


class Probe(NamedTuple):
    host: str
    port: int
    reach: Reach
    detail: str = ""
    addresses: tuple[str, ...] = ()
    """What the name resolves to."""

    @property
    def is_kafka(self) -> bool:
        return self.reach is Reach.KAFKA

    def __str__(self) -> str:
        return address(self.host, self.port)


class BrokerSight(NamedTuple):
    id: int
    host: str
    port: int

    def __str__(self) -> str:
        return address(self.host, self.port)


class PartitionSight(NamedTuple):
    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class TopicSight(NamedTuple):
    name: str
    is_internal: bool
    partitions: tuple[PartitionSight, ...]


class ClusterSight(NamedTuple):
    """The cluster as one of its brokers tells it."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerSight, ...]
    topics: tuple[TopicSight, ...] = ()


class LogSight(NamedTuple):
    """A partition's records: `offset_end` and `offset_stable` are exclusive."""

    offset_start: int
    offset_end: int
    offset_stable: int
    timestamp_max: int = -1


class GroupSight(NamedTuple):
    name: str
    state: str
    members_count: int
    partitions_assigned: tuple[int, ...] = ()
    """How many each member has."""
    is_stuck: bool = False
    """In a rebalance at the first look and still at the second."""
    committed: Mapping[TopicPartition, int] = {}


class TransactionSight(NamedTuple):
    """A transaction that keeps the last stable offset of a partition from moving."""

    partition: TopicPartition
    producer_id: int
    offset_start: int
    open_ms: int
    transactional_id: str = ""
    """Empty if no coordinator knows it: it hangs."""
    timeout_ms: int = 0


class LogDirSight(NamedTuple):
    broker_id: int
    path: str
    error: str
    total_bytes: int = -1
    usable_bytes: int = -1


class ClockSight(NamedTuple):
    """The clock of the node that leads the metadata, beside this machine's."""

    node_id: int
    ahead_ms: int
    uncertain_ms: int
    """Half of the time the question took."""


@dataclass(frozen=True, slots=True)
class Limits:
    lag: int = 1_000
    skew_ms: int = 60_000
    transaction_ms: int = 15 * 60_000
    disk_free: float = 0.05


@dataclass(slots=True)
class Evidence:
    bootstrap: str
    now_ms: int = 0
    probes: list[Probe] = field(default_factory=list)
    """The bootstrap addresses."""
    cluster: ClusterSight | None = None
    cluster_ids: dict[str, str] = field(default_factory=dict)
    """What each bootstrap address says."""
    broker_probes: dict[int, Probe] = field(default_factory=dict)
    """The advertised addresses, by broker."""
    broker_cluster_ids: dict[int, str] = field(default_factory=dict)
    min_isr: dict[str, int] = field(default_factory=dict)
    timestamp_types: dict[str, str] = field(default_factory=dict)
    broker_settings: dict[str, str] = field(default_factory=dict)
    topic_settings: dict[str, dict[str, str]] = field(default_factory=dict)
    """Those that a profile has rules for, of every topic, if a profile is asked for."""
    settings_by_broker: dict[int, dict[str, str]] = field(default_factory=dict)
    logs: dict[TopicPartition, LogSight] = field(default_factory=dict)
    groups: list[GroupSight] = field(default_factory=list)
    transactions: list[TransactionSight] = field(default_factory=list)
    log_dirs: list[LogDirSight] = field(default_factory=list)
    clock: ClockSight | None = None
    unchecked: list[str] = field(default_factory=list)
    """What could not be looked at, and why: sentences without their full stop."""

    @property
    def topics(self) -> tuple[TopicSight, ...]:
        return () if self.cluster is None else self.cluster.topics

    @property
    def is_reached(self) -> bool:
        return self.cluster is not None

    def not_checked(self, subject: str, why: object) -> None:
        self.unchecked.append(f"{subject}: {str(why).removesuffix('.')}")

    def command(self, words: str) -> str:
        """`moldau <tool> --bootstrap-server ... <words>`."""
        tool, _, rest = words.partition(" ")
        return f"moldau {tool} --bootstrap-server {self.bootstrap} {rest}".rstrip()


def address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def few(items: Iterable[object]) -> str:
    """The first ones, and how many more there are."""
    texts = [str(item) for item in items]
    more = len(texts) - SHOWN_MAX
    return ", ".join(texts[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def duration(ms: int) -> str:
    seconds = abs(ms) / 1000
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:.0f} days"
