"""What an admin asks with and gets back: plain data, in Kafka's words.

Calls on many things give their user `Results`: what worked, and the errors of what did not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Self, TypeVar

from moldau.client.network.network_client import Node
from moldau.client.shared.client_errors import KafkaError
from moldau.config.config_changes import ResourceType as ResourceType
from moldau.model.names import NO_TOPIC_ID, TopicPartition, uuid_text

K = TypeVar("K")
V = TypeVar("V")


Outcomes = dict[K, V | KafkaError]
"""Each thing that was asked for, with its value or its error."""


class Results(dict[K, V]):
    """Each thing that was asked for and worked, with its value; `errors` has the others."""

    def __init__(self, outcomes: Mapping[K, V | KafkaError] | None = None) -> None:
        self.outcomes: Outcomes[K, V] = dict(outcomes or {})
        """Everything, with its value or its error, in the order of the question."""
        self.errors: dict[K, KafkaError] = {}
        for key, outcome in self.outcomes.items():
            if isinstance(outcome, KafkaError):
                self.errors[key] = outcome
            else:
                self[key] = outcome

    def check(self) -> Self:
        """These results; what failed first is raised, with the other errors as notes."""
        for first in self.errors.values():
            for key, error in self.errors.items():
                if error is first:
                    continue  # or the same refusal of everything
                first.add_note(f"{key}: {type(error).__name__}: {error.message}")
            raise first
        return self


async def of_each(keys: Iterable[K], asked: Awaitable[Outcomes[K, V]]) -> Outcomes[K, V]:
    """What was refused as a whole is refused for each."""
    try:
        return await asked
    except KafkaError as error:
        return dict.fromkeys(keys, error)


def checked(outcomes: Outcomes[K, V]) -> Results[K, V]:
    """All values, or the first error."""
    return results(outcomes, raise_errors=True)


def results(outcomes: Outcomes[K, V], raise_errors: bool) -> Results[K, V]:
    """For the user, who gets an exception unless results were asked for."""
    found = Results(outcomes)
    return found.check() if raise_errors else found


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 partitions or replicas means the broker's default; `assignments`
    says for each partition which brokers hold it, in place of both numbers."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """Let a topic have `total` partitions; `assignments` has the brokers of each new one."""

    total: int
    assignments: Sequence[Sequence[int]] | None = None


class CreatedTopic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int
    configs: dict[str, str | None]


class TopicListing(NamedTuple):
    name: str
    topic_id: bytes
    is_internal: bool


class TopicPartitionInfo(NamedTuple):
    """`leader` is -1 while there is none. The last two are None where the broker keeps no list."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None


class TopicDescription(NamedTuple):
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: list[TopicPartitionInfo]
    authorized_operations: frozenset[int] | None = None

    @property
    def topic_id_text(self) -> str:
        return "" if self.topic_id == NO_TOPIC_ID else uuid_text(self.topic_id)


class OffsetSpec(IntEnum):
    """Which offset `list_offsets` looks for; a timestamp in its place asks for the first record
    that is not older."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class ListedOffset(NamedTuple):
    """`offset` is -1 if no record is as young as was asked for."""

    offset: int
    timestamp: int
    leader_epoch: int


class ConfigResource(NamedTuple):
    """`ConfigResource(ResourceType.TOPIC, "orders")`; a broker's name is its id, "" all brokers."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int | str = "") -> ConfigResource:
        return cls(ResourceType.BROKER, str(node_id))


class ConfigSource(IntEnum):
    """Where the value of a setting comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """`value` is None if it is secret. `type` is numbered as `config.definition.Kind`."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    synonyms: list[ConfigSynonym]
    type: int = 0
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


class AlterOperation(IntEnum):
    """What `AlterConfig` does to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterConfig(NamedTuple):
    """One change; APPEND and SUBTRACT are for settings that are lists."""

    name: str
    value: str | None = None
    operation: AlterOperation = AlterOperation.SET


class ClusterDescription(NamedTuple):
    cluster_id: str
    controller: Node | None
    nodes: list[Node]
    authorized_operations: frozenset[int] | None = None


class ReplicaInfo(NamedTuple):
    """`is_future`: the copy is on its way into this directory."""

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    path: str
    replicas: dict[TopicPartition, ReplicaInfo]
    total_bytes: int = -1
    usable_bytes: int = -1
    error: KafkaError | None = None
    is_cordoned: bool = False


class TopicPartitionReplica(NamedTuple):
    topic: str
    partition: int
    broker_id: int


class ElectionType(IntEnum):
    """Which replica shall lead: the preferred one, or any that lives."""

    PREFERRED = 0
    UNCLEAN = 1


class PartitionReassignment(NamedTuple):
    replicas: list[int]
    adding_replicas: list[int]
    removing_replicas: list[int]


class ApiVersionRange(NamedTuple):
    api_key: int
    min_version: int
    max_version: int


class FeatureRange(NamedTuple):
    min_version: int
    max_version: int


class FeatureMetadata(NamedTuple):
    """`finalized` is in force in the cluster, `supported` is what this broker could do."""

    finalized: dict[str, FeatureRange]
    supported: dict[str, FeatureRange]
    finalized_epoch: int


class UpgradeType(IntEnum):
    """What `update_features` may do to a level; a safe downgrade loses no metadata."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class QuorumReplica(NamedTuple):
    replica_id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


class QuorumInfo(NamedTuple):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumReplica]
    observers: list[QuorumReplica]
