"""The controller's decisions: a command and the state in, facts and replies out.

Pure. One command is one decision is one conditional write, so a request of many topics takes one
round trip to the store. Refusals of single topics are values in the reply's rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.config.broker_config import BrokerConfig
from moldau.config.config_changes import ConfigChange
from moldau.controller.controller_facts import (
    BrokerRegistered,
    ConfigsChanged,
    Fact,
    PartitionsAdded,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)
from moldau.controller.controller_state import ControllerState
from moldau.controller.rules import topic_rules as rules
from moldau.controller.rules.config_rules import altered
from moldau.controller.rules.producer_ids import next_block
from moldau.controller.rules.topic_rules import Draw, NewPartitions, NewTopic, TopicDefaults
from moldau.engine.machine import Command, Decision, Reply, Token, Volatile
from moldau.model.clock import Now
from moldau.model.cluster import BrokerNode
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, TopicPartition

if TYPE_CHECKING:
    # Rules that are rarely asked for are read when they are: a start is short.
    from moldau.controller.rules.feature_rules import FeatureUpdate
    from moldau.controller.rules.leader_elections import Election
    from moldau.controller.rules.mirror_rules import MirrorChange
    from moldau.controller.rules.reassignment_rules import Move


class CreateTopics(Command[list[TopicCreated | ApiError]]):
    topics: tuple[NewTopic, ...]
    draws: tuple[Draw, ...]
    """One per topic."""
    defaults: TopicDefaults
    validate_only: bool = False
    all_or_none: bool = False


class DeleteTopics(Command[Sequence[TopicDeleted | ApiError | None]]):
    names: tuple[str, ...]
    is_enabled: bool = True
    """delete.topic.enable"""


class CreatePartitions(Command[list[PartitionsAdded | ApiError]]):
    topics: tuple[NewPartitions, ...]
    validate_only: bool = False


class AlterConfigs(Command[list[ConfigsChanged | ApiError]]):
    changes: tuple[ConfigChange, ...]
    validate_only: bool = False
    broker: BrokerConfig | None = None
    """What changes of broker settings are tried on."""


class AlterPartitionReassignments(Command[list[ApiError | None]]):
    moves: tuple[Move, ...]
    allow_replication_factor_change: bool = True


class ElectLeaders(Command[list[ApiError | None]]):
    election: Election
    partitions: tuple[TopicPartition, ...]


class ChangeMirrors(Command[None]):
    """All or none of them."""

    changes: tuple[MirrorChange, ...]


class UpdateFeatures(Command[None]):
    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False


class RegisterBroker(Command[None]):
    node: BrokerNode


class AllocateProducerIds(Command[range]):
    broker: BrokerId
    above: int = -1
    """Only ids behind this one."""


Row = Fact | ApiError | None


class ControllerMachine:
    def __init__(self, state: ControllerState) -> None:
        self.state = state

    def decide(self, command: object, token: Token, now: Now) -> Decision:
        match command:
            case CreateTopics():
                return _decision(token, self._create(command), command.validate_only)
            case DeleteTopics():
                return _decision(token, self._delete(command))
            case CreatePartitions():
                return _decision(token, self._grow(command), command.validate_only)
            case AlterConfigs():
                return _decision(token, self._alter(command), command.validate_only)
            case AlterPartitionReassignments():
                return self._reassign(command, token)
            case ElectLeaders():
                return self._elect(command, token)
            case ChangeMirrors(changes):
                return self._change_mirrors(changes, token)
            case UpdateFeatures(updates, validate_only):
                return self._update_features(updates, validate_only, token)
            case RegisterBroker(node):
                return Decision((Volatile(BrokerRegistered(node)),), replies=(Reply(token, None),))
            case AllocateProducerIds(broker, above):
                return self._allocate_producer_ids(broker, above, token)
            case _:
                raise AssertionError(f"unknown command {command!r}")

    def apply(self, fact: object) -> None:
        self.state.apply(fact)

    def _create(self, command: CreateTopics) -> Sequence[TopicCreated | ApiError]:
        rows: list[TopicCreated | ApiError] = []
        named = Counter(topic.name for topic in command.topics)
        for topic, draw in zip(command.topics, command.draws, strict=True):
            try:
                if named[topic.name] > 1:
                    raise duplicate_topic_name()
                rows.append(rules.create(self.state, topic, draw, command.defaults))
            except ApiError as refusal:
                rows.append(refusal.kept())
        size = sum(1 + len(row.partitions) for row in rows if isinstance(row, TopicCreated))
        if size > rules.PARTITIONS_PER_REQUEST_MAX:
            return [rules.too_many_partitions() for _ in rows]
        if command.all_or_none:
            return next(([row for _ in rows] for row in rows if isinstance(row, ApiError)), rows)
        return rows

    def _delete(self, command: DeleteTopics) -> Sequence[TopicDeleted | ApiError]:
        if not command.is_enabled:
            disabled = ApiError(Error.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            return [disabled for _ in command.names]
        rows: list[TopicDeleted | ApiError] = []
        named = Counter(command.names)
        for name in command.names:
            try:
                if named[name] > 1:
                    raise duplicate_topic_name()
                rows.append(rules.delete(self.state, name))
            except ApiError as refusal:
                rows.append(refusal.kept())
        return rows

    def _grow(self, command: CreatePartitions) -> Sequence[PartitionsAdded | ApiError]:
        rows: list[PartitionsAdded | ApiError] = []
        named = Counter(wanted.topic for wanted in command.topics)
        for wanted in command.topics:
            try:
                if named[wanted.topic] > 1:
                    raise duplicate_topic_name()
                rows.append(rules.grow(self.state, wanted))
            except ApiError as refusal:
                rows.append(refusal.kept())
        size = sum(len(row.added) for row in rows if isinstance(row, PartitionsAdded))
        if size > rules.PARTITIONS_PER_REQUEST_MAX:
            return [rules.too_many_partitions() for _ in rows]
        return rows

    def _alter(self, command: AlterConfigs) -> Sequence[ConfigsChanged | ApiError]:
        rows: list[ConfigsChanged | ApiError] = []
        for change in command.changes:
            try:
                rows.append(altered(self.state, change, command.broker))
            except ApiError as refusal:
                rows.append(refusal.kept())
        return rows

    def _reassign(self, command: AlterPartitionReassignments, token: Token) -> Decision:
        from moldau.controller.rules.changed_partitions import ChangedPartitions
        from moldau.controller.rules.reassignment_rules import reassign

        partitions = ChangedPartitions(self.state)
        rows: list[ApiError | None] = []
        for move in command.moves:
            try:
                self._check_movable(move)
                may_change = command.allow_replication_factor_change
                reassign(self.state, partitions, move, may_change)
                rows.append(None)
            except ApiError as refusal:
                rows.append(refusal.kept())
        return Decision(partitions.facts(), replies=(Reply(token, rows),))

    def _check_movable(self, move: Move) -> None:
        """Raises the refusal of a partition that nobody may move now."""

    def _check_electable(self, place: TopicPartition) -> None:
        """Raises the refusal of a partition that gets no new leader."""

    def _elect(self, command: ElectLeaders, token: Token) -> Decision:
        from moldau.controller.rules.changed_partitions import ChangedPartitions
        from moldau.controller.rules.leader_elections import elect

        partitions = ChangedPartitions(self.state)
        rows: list[ApiError | None] = []
        for asked in command.partitions:
            try:
                self._check_electable(asked)
                elect(partitions, asked, command.election, self.state.brokers_online)
                rows.append(None)
            except ApiError as refusal:
                rows.append(refusal.kept())
        return Decision(partitions.facts(), replies=(Reply(token, rows),))

    def _change_mirrors(self, changes: Sequence[MirrorChange], token: Token) -> Decision:
        from moldau.controller.rules.mirror_rules import changed

        return changed(self.state, changes, token)

    def _update_features(
        self, updates: Sequence[FeatureUpdate], validate_only: bool, token: Token
    ) -> Decision:
        from moldau.controller.rules.feature_rules import updated

        try:
            fact = updated(self.state, updates)
        except ApiError as refusal:
            return Decision.reply(token, refusal)
        facts = () if fact is None or validate_only else (fact,)
        return Decision(facts, replies=(Reply(token, None),))

    def _allocate_producer_ids(self, broker: BrokerId, above: int, token: Token) -> Decision:
        try:
            ids = next_block(max(self.state.producer_id_next, above + 1))
        except ApiError as refusal:
            return Decision.reply(token, refusal)
        return Decision((ProducerIdsAllocated(broker, ids),), replies=(Reply(token, ids),))


def duplicate_topic_name() -> ApiError:
    return ApiError(Error.INVALID_REQUEST, "Duplicate topic name.")


def _decision(token: Token, rows: Sequence[Row], validate_only: bool = False) -> Decision:
    facts: tuple[object, ...] = ()
    if not validate_only:
        facts = tuple(row for row in rows if not isinstance(row, ApiError))
    return Decision(facts, replies=(Reply(token, list(rows)),))
