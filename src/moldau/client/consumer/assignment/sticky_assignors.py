"""Sticky assignors: as even as possible, and as little moved as evenness allows.

`StickyAssignor` is eager and remembers what a member had in its user data, in Java's layout, so
that Java and Moldau members understand each other. `CooperativeStickyAssignor` reads it from the
subscription, and never gives a partition to a new owner before the old one has let go (KIP-429).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence

from moldau.client.consumer.assignment.partition_assignors import (
    Assignment,
    PartitionCounts,
    RebalanceProtocol,
    Subscriptions,
    members_in_order,
    subscribers,
)
from moldau.model.names import TopicPartition
from moldau.wire.messages.consumer_protocol import TopicPartitions
from moldau.wire.primitives import DecodeError
from moldau.wire.schema import Message, array, int32

_GENERATION = struct.Struct(">i")

Owned = tuple[tuple[TopicPartition, ...], int]
"""What a member had, and in which generation of the group."""
Shares = dict[str, list[TopicPartition]]


class StickyUserData(Message, versions="0-1"):
    """Java's: version 0 has no generation, and nothing says which version it is."""

    previous_assignment: list[TopicPartitions] = array(TopicPartitions)
    generation: int = int32("1+", default=-1)


def grouped(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic=topic, partitions=some) for topic, some in by_topic.items()]


def ungrouped(rows: Iterable[TopicPartitions]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(row.topic, p) for row in rows for p in row.partitions)


class StickyAssignor:
    """Even shares that move as little as possible; members let go of everything first."""

    name = "sticky"
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def __init__(self) -> None:
        self._owned: tuple[TopicPartition, ...] | None = None
        self._generation = -1

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        if self._owned is None:
            return None
        return StickyUserData(
            previous_assignment=grouped(self._owned), generation=self._generation
        ).encode(1)

    def assign(
        self, counts: PartitionCounts, subscriptions: Subscriptions
    ) -> dict[str, Assignment]:
        owned = {member: _told(row.user_data) for member, row in subscriptions.items()}
        shares = balanced(counts, subscriptions, owned)
        return {member: Assignment(tuple(share)) for member, share in shares.items()}

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        self._owned = assignment.partitions
        self._generation = generation_id


class CooperativeStickyAssignor:
    """Even shares, moved partition by partition: nobody stops reading what it keeps (KIP-429)."""

    name = "cooperative-sticky"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation = -1

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        # For members that speak versions of the subscription without a generation.
        return _GENERATION.pack(self._generation)

    def assign(
        self, counts: PartitionCounts, subscriptions: Subscriptions
    ) -> dict[str, Assignment]:
        owned: dict[str, Owned] = {}
        for member, row in subscriptions.items():
            generation = row.generation_id
            if generation < 0 and row.user_data is not None and len(row.user_data) >= 4:
                # Alone in Java's user data, last in that of librdkafka.
                generation = _GENERATION.unpack_from(row.user_data, len(row.user_data) - 4)[0]
            owned[member] = row.owned_partitions, generation
        shares = balanced(counts, subscriptions, owned)
        withhold_moving(shares, subscriptions)
        return {member: Assignment(tuple(share)) for member, share in shares.items()}

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        self._generation = generation_id


def _told(user_data: bytes | None) -> Owned:
    if not user_data:
        return (), -1
    for version in (1, 0):
        try:
            told = StickyUserData.decode(user_data, version)
        except DecodeError:
            continue
        return ungrouped(told.previous_assignment), told.generation
    return (), -1


def withhold_moving(shares: Shares, subscriptions: Subscriptions) -> None:
    """Leave out what its present owner must revoke first: the next rebalance gives it away."""
    revoked: set[TopicPartition] = set()
    for member, row in subscriptions.items():
        revoked |= set(row.owned_partitions).difference(shares[member])
    for member, row in subscriptions.items():
        mine = set(row.owned_partitions)
        shares[member] = [tp for tp in shares[member] if tp in mine or tp not in revoked]


def balanced(
    counts: PartitionCounts, subscriptions: Subscriptions, owned: dict[str, Owned]
) -> Shares:
    """Keep what is owned rightly, deal out the rest to the least loaded, then even out."""
    by_topic = subscribers(subscriptions)
    order = members_in_order(subscriptions, subscriptions)
    shares = _kept(counts, subscriptions, owned, order)
    if len({frozenset(row.topics) for row in subscriptions.values()}) == 1:
        _trim_to_quota(shares, sum(counts.get(topic, 0) for topic in by_topic))
    taken = {tp for share in shares.values() for tp in share}
    free = [
        TopicPartition(topic, partition)
        # Those that few can take go first, while the few are still free.
        for topic in sorted(by_topic, key=lambda t: (len(by_topic[t]), t))
        for partition in range(counts.get(topic, 0))
        if (topic, partition) not in taken
    ]
    for tp in free:
        member = min(by_topic[tp.topic], key=lambda m: len(shares[m]))
        shares[member].append(tp)
    while _move_one(shares, by_topic):
        pass
    return shares


def _kept(
    counts: PartitionCounts,
    subscriptions: Subscriptions,
    owned: dict[str, Owned],
    order: list[str],
) -> Shares:
    """What each member still rightly has: a later generation beats an earlier one, and what two
    members claim of the same generation belongs to neither."""
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in order:
        partitions, generation = owned[member]
        for tp in partitions:
            best = claims.get(tp)
            if best is None or generation > best[0]:
                claims[tp] = generation, member
            elif generation == best[0] and best[1] != member:
                claims[tp] = generation, None
    shares: Shares = {member: [] for member in order}
    topics = {member: set(subscriptions[member].topics) for member in order}
    for tp, (_, owner) in sorted(claims.items(), key=lambda claim: claim[0]):
        exists = 0 <= tp.partition < counts.get(tp.topic, 0)
        if owner is not None and exists and tp.topic in topics[owner]:
            shares[owner].append(tp)
    return shares


def _trim_to_quota(shares: Shares, total: int) -> None:
    """Where all subscribe alike, nobody keeps more than a fair share; no search is needed."""
    each, extra = divmod(total, len(shares))
    for share in shares.values():
        if len(share) > each and extra:
            extra -= 1
            del share[each + 1 :]
        else:
            del share[each:]


def _move_one(shares: Shares, by_topic: dict[str, list[str]]) -> bool:
    """One partition from a fuller member to one with two less, through others if need be.

    Where subscriptions differ the way may lead through members who pass on one of their own; the
    shortest way moves the fewest. False when nothing can get more even.
    """
    lightest = min(map(len, shares.values()))
    for giver in sorted(shares, key=lambda m: -len(shares[m])):
        if len(shares[giver]) - lightest < 2:
            return False
        came_by: dict[str, tuple[str, TopicPartition]] = {}
        queue = deque([giver])
        while queue:
            member = queue.popleft()
            for tp in shares[member]:
                for taker in by_topic[tp.topic]:
                    if taker == giver or taker in came_by:
                        continue
                    came_by[taker] = member, tp
                    if len(shares[taker]) + 2 <= len(shares[giver]):
                        _pass_along(shares, came_by, giver, taker)
                        return True
                    queue.append(taker)
    return False


def _pass_along(
    shares: Shares, came_by: dict[str, tuple[str, TopicPartition]], giver: str, taker: str
) -> None:
    while taker != giver:
        member, tp = came_by[taker]
        shares[member].remove(tp)
        shares[taker].append(tp)
        taker = member
