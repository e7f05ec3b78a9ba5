"""How a group's leader shares partitions out: the port of an assignor, range and round-robin.

An assignor is pure: subscriptions of all members and the partitions of their topics in, one
assignment per member out. Sticky ones are in `sticky_assignors.py`; a user's own needs only the
methods of `Assignor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import cycle
from typing import NamedTuple, Protocol, runtime_checkable

from moldau.client.shared.configured_classes import instance_of
from moldau.model.names import TopicPartition


class RebalanceProtocol(Enum):
    """Whether members give up everything before they rejoin, or only what moves (KIP-429)."""

    EAGER = "eager"
    COOPERATIVE = "cooperative"


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member told the others when it joined."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None
    group_instance_id: str | None = None


class Assignment(NamedTuple):
    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


Subscriptions = Mapping[str, Subscription]
"""By member id."""
PartitionCounts = Mapping[str, int]
"""How many partitions a topic has; topics that do not exist are not in it."""


@runtime_checkable
class Assignor(Protocol):
    """What a group's members must agree on: they choose an assignor by its `name`.

    >>> class Everything:                                   # all to the first member
    ...     name = "everything"
    ...     protocols = (RebalanceProtocol.EAGER,)
    ...     def user_data(self, topics): return None
    ...     def assign(self, counts, subscriptions):
    ...         first = min(subscriptions)
    ...         rows = [TopicPartition(t, p) for t in counts for p in range(counts[t])]
    ...         return {m: Assignment(tuple(rows) if m == first else ()) for m in subscriptions}
    ...     def on_assignment(self, assignment, generation_id): pass
    """

    @property
    def name(self) -> str: ...
    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]: ...
    def user_data(self, topics: Sequence[str]) -> bytes | None:
        """Bytes for the leader's assignor, sent along with each join."""

    def assign(
        self, counts: PartitionCounts, subscriptions: Subscriptions
    ) -> dict[str, Assignment]:
        """Called on the leader alone."""
        raise NotImplementedError

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Called on every member when it has its share."""


def members_in_order(subscriptions: Subscriptions, members: Iterable[str]) -> list[str]:
    """Static members first, by their instance id, which survives a restart; then by member id."""

    def place(member: str) -> tuple[bool, str]:
        instance = subscriptions[member].group_instance_id
        return instance is None, instance if instance is not None else member

    return sorted(members, key=place)


def subscribers(subscriptions: Subscriptions) -> dict[str, list[str]]:
    """The members of every topic, in order."""
    by_topic: dict[str, list[str]] = {}
    for member in members_in_order(subscriptions, subscriptions):
        for topic in subscriptions[member].topics:
            by_topic.setdefault(topic, []).append(member)
    return by_topic


@dataclass(slots=True)
class Shares:
    """Assignments in the making."""

    subscriptions: Subscriptions
    by_member: dict[str, list[TopicPartition]] = field(init=False)

    def __post_init__(self) -> None:
        self.by_member = {member: [] for member in self.subscriptions}

    def done(self) -> dict[str, Assignment]:
        return {member: Assignment(tuple(share)) for member, share in self.by_member.items()}


class RangeAssignor:
    """Topic by topic, neighbouring partitions to each member; the first ones get one more."""

    name = "range"
    protocols = (RebalanceProtocol.EAGER,)

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        return None

    def assign(
        self, counts: PartitionCounts, subscriptions: Subscriptions
    ) -> dict[str, Assignment]:
        shares = Shares(subscriptions)
        for topic, members in sorted(subscribers(subscriptions).items()):
            each, extra = divmod(counts.get(topic, 0), len(members))
            start = 0
            for index, member in enumerate(members):
                end = start + each + (index < extra)
                shares.by_member[member] += [TopicPartition(topic, p) for p in range(start, end)]
                start = end
        return shares.done()

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        pass


class RoundRobinAssignor:
    """All partitions of all topics in a row, dealt out one by one to those who subscribe."""

    name = "roundrobin"
    protocols = (RebalanceProtocol.EAGER,)

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        return None

    def assign(
        self, counts: PartitionCounts, subscriptions: Subscriptions
    ) -> dict[str, Assignment]:
        shares = Shares(subscriptions)
        by_topic = subscribers(subscriptions)
        turn = cycle(members_in_order(subscriptions, subscriptions))
        for topic in sorted(by_topic):
            for partition in range(counts.get(topic, 0)):
                member = next(m for m in turn if topic in subscriptions[m].topics)
                shares.by_member[member].append(TopicPartition(topic, partition))
        return shares.done()

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        pass


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """Cooperative only if every assignor that the group might choose allows it."""
    if all(RebalanceProtocol.COOPERATIVE in assignor.protocols for assignor in assignors):
        return RebalanceProtocol.COOPERATIVE
    return RebalanceProtocol.EAGER


def assignors_of(strategies: Iterable[object]) -> list[Assignor]:
    """From names, Java class names, classes and objects, as partition.assignment.strategy has."""
    from moldau.client.consumer.assignment.sticky_assignors import (
        CooperativeStickyAssignor,
        StickyAssignor,
    )

    known: dict[str, type[Assignor]] = {}
    for kind in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor):
        known[kind.name] = known[kind.__name__.lower()] = kind
    names = "range, roundrobin, sticky, cooperative-sticky"
    made: list[Assignor] = []
    for strategy in strategies:
        candidate = strategy
        if isinstance(candidate, str):
            short = candidate.strip().rpartition(".")[2].lower()
            if short not in known and "." in candidate and "kafka" not in candidate:
                candidate = instance_of(candidate)
            elif short not in known:
                raise ValueError(
                    f"partition.assignment.strategy knows no assignor {candidate!r}: "
                    f"give one of {names}, "
                    "a dotted path, or an object with the methods of moldau.Assignor"
                )
            else:
                candidate = known[short]
        assignor = candidate() if isinstance(candidate, type) else candidate
        if not isinstance(assignor, Assignor):
            raise TypeError(f"{assignor!r} lacks a method of moldau.Assignor")
        made.append(assignor)
    given = [assignor.name for assignor in made]
    if not given or len(set(given)) < len(given):
        raise ValueError(f"partition.assignment.strategy must name distinct assignors, not {given}")
    return made
