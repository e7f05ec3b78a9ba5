"""The controller as the rest of the broker sees it, whether the broker stands alone or not.

Handlers call the methods; each returns one row per thing asked for, a fact or the refusal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from moldau.config.config_changes import ConfigChange
    from moldau.controller.controller_facts import (
        ConfigsChanged,
        PartitionsAdded,
        TopicCreated,
        TopicDeleted,
    )
    from moldau.controller.rules.feature_rules import FeatureUpdate
    from moldau.controller.rules.leader_elections import Election
    from moldau.controller.rules.reassignment_rules import Move
    from moldau.controller.rules.topic_rules import NewPartitions, NewTopic
    from moldau.model.cluster import TopicImage
    from moldau.model.errors import ApiError
    from moldau.model.names import BrokerId, TopicPartition


class Quorum(NamedTuple):
    """Who keeps the cluster's metadata: one node, until there are several."""

    leader: BrokerId
    epoch: int
    offset_end: int
    """All changes of the metadata so far are before it, and all of them are durable."""


class Controller(Protocol):
    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> list[TopicCreated | ApiError]: ...

    async def create_missing(self, topics: Sequence[NewTopic]) -> list[ApiError]:
        """Topics that somebody asked for by name; the refusals."""

    async def delete_topics(
        self, names: Sequence[str]
    ) -> Sequence[TopicDeleted | ApiError | None]: ...

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[PartitionsAdded | ApiError]: ...

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> list[ConfigsChanged | ApiError]: ...

    async def alter_partition_reassignments(
        self, moves: Sequence[Move], *, allow_replication_factor_change: bool = True
    ) -> list[ApiError | None]: ...

    def topics_with_moves(self) -> Mapping[str, TopicImage]: ...

    async def elect_leaders(
        self, election: Election, partitions: Sequence[TopicPartition]
    ) -> list[ApiError | None]: ...

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> None:
        """Raises the refusal: features change together or not at all."""

    async def quorum(self) -> Quorum: ...

    async def allocate_producer_ids(self) -> range:
        """A block of ids that nobody was given before, and nobody will be given again."""
