"""What the controller of several brokers is told beside what clients ask: by brokers, by the tree,
by brokers' answers and by time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from moldau.controller.cluster_facts import LiveBroker
from moldau.controller.controller_facts import ConfigKind
from moldau.controller.rules.reassignment_rules import Move
from moldau.controller.rules.replica_placement import Replicas
from moldau.engine.machine import Command
from moldau.metadata.paths import PartitionState
from moldau.model.cluster import PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, TopicId, TopicPartition


class TakeOver(NamedTuple):
    """The state was just loaded: bring order into it and tell everybody."""

    deletions: tuple[str, ...] = ()
    """As the tree has them."""
    deletion_is_enabled: bool = True


class ChangeBrokers(NamedTuple):
    """These live, and no others."""

    brokers: Mapping[BrokerId, LiveBroker]


class TellAgain(NamedTuple):
    """The broker has missed what it was told: everything, as to one that has just joined."""

    broker: BrokerId


class IsrChange(NamedTuple):
    place: TopicPartition
    leader_epoch: int
    partition_epoch: int
    isr: Replicas
    isr_epochs: tuple[int, ...] = ()
    """Broker epochs in the order of the ISR; -1 or nothing if the leader does not know them."""
    is_recovering: bool = False


@dataclass(frozen=True, slots=True)
class AlterPartition(Command[list[PartitionImage | ApiError]]):
    """A leader wants another ISR (KIP-497)."""

    broker: BrokerId
    broker_epoch: int
    changes: tuple[IsrChange, ...]
    knows_ineligible: bool = True
    """Whether the sender's version has a word for a replica that may not be in sync."""


@dataclass(frozen=True, slots=True)
class ControlledShutdown(Command[list[TopicPartition]]):
    broker: BrokerId
    broker_epoch: int


class AddFoundTopics(NamedTuple):
    """Topics that somebody wrote into the tree."""

    topics: tuple[FoundTopic, ...]
    unreadable: frozenset[str] = frozenset()
    """All those whose nodes are there and cannot be read."""


class FoundTopic(NamedTuple):
    name: str
    id: TopicId
    replicas: tuple[Replicas, ...]
    configs: Mapping[str, str]
    is_id_new: bool = False
    """The tool that made the topic gave it no id."""


class Known(NamedTuple):
    topics: frozenset[str]
    deleting: frozenset[str]


@dataclass(frozen=True, slots=True)
class BeginReading(Command[Known]):
    """Somebody is about to read the tree and to compare it with the state. Answered with `Known`
    when all of it is in the tree: a read that begins after the answer sees everything of it."""


class ForgetTopics(NamedTuple):
    """Somebody removed their nodes."""

    names: tuple[str, ...]


class GrowFoundTopic(NamedTuple):
    """Somebody wrote more partitions into the topic's node."""

    name: str
    replicas: tuple[Replicas, ...]
    """Of all partitions."""


class QueueFoundDeletions(NamedTuple):
    names: tuple[str, ...]
    is_enabled: bool = True


class ConfirmDeleted(NamedTuple):
    """A broker's answer to StopReplica."""

    broker: BrokerId
    outcomes: Mapping[TopicPartition, Error]


class SeeReplicas(NamedTuple):
    """A broker's answer to LeaderAndIsr: which of its replicas have lost their disk."""

    broker: BrokerId
    offline: tuple[TopicPartition, ...]
    online: tuple[TopicPartition, ...] = ()
    """They had lost it, and were made anew on another one."""


class AskForReplicas(NamedTuple):
    """A log directory of the brokers has failed: their answers will tell what was in it."""

    brokers: tuple[BrokerId, ...]


class SeeStates(NamedTuple):
    """A leader of an older release wrote these itself."""

    states: tuple[tuple[TopicPartition, PartitionState, int], ...]
    """With the version of the node."""


class SeeConfigs(NamedTuple):
    kind: ConfigKind
    name: str
    overrides: Mapping[str, str]


class SeeUncleanDefault(NamedTuple):
    is_allowed: bool


class ElectOffline(NamedTuple):
    """Unclean elections have become allowed for these topics, or for all."""

    topics: tuple[str, ...] | None = None


class FollowMoves(NamedTuple):
    """From /admin/reassign_partitions."""

    moves: tuple[Move, ...]


class ContinueMoves(NamedTuple):
    """Replicas have come into sync: a move may be done."""

    places: tuple[TopicPartition, ...]


class FollowElections(NamedTuple):
    """From /admin/preferred_replica_election."""

    places: tuple[TopicPartition, ...]


class RebalanceLeaders(NamedTuple):
    threshold_percent: int
