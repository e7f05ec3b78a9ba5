"""What a test asks of a foreign client's consumer groups, the same words for all of them.

A member polls on its own, in a thread (`polling.py`) or inside its program (`program_groups.py`),
and keeps what it saw: which partitions came and went, and when, by the clock of this machine; and
every record. Whatever a library cannot do is said by a flag, and its tests are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from tests.compat.clients.port import Client

SESSION_TIMEOUT_MS = 6000
HEARTBEAT_MS = 200
METADATA_AGE_MS = 300
"""Short, so that a member soon learns of a rebalance or a new topic."""
RANGE = "range"
COOPERATIVE = "cooperative-sticky"

Place = tuple[str, int]
"""Topic and partition."""


class Change(NamedTuple):
    """Partitions that a member was given ("assigned") or had to give back ("revoked")."""

    at_us: int
    kind: str
    places: frozenset[Place]


class Read(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: bytes


class Subscription(NamedTuple):
    """Topics, or a pattern; `commits` makes a member commit after every poll."""

    group: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignor: str = RANGE
    instance: str | None = None
    commits: bool = False


class GroupMember(NamedTuple):
    client_id: str
    places: frozenset[Place]


class Group(NamedTuple):
    """`state` as Kafka spells it, in small letters: "stable", "empty", ..."""

    state: str
    members: tuple[GroupMember, ...]


class Member(Protocol):
    def changes(self) -> list[Change]: ...

    def reads(self) -> list[Read]: ...

    def commit(self, *, wait: bool) -> None:
        """Commit what was read so far; without `wait` the library's way that does not block."""

    def seek(self, topic: str, partition: int, offset: int) -> None: ...

    def stop(self) -> None:
        """Close the consumer: a static member stays in its group, any other leaves it."""


class GroupClient(Protocol):
    client: Client
    has_static_members: bool
    is_cooperative: bool
    notices_new_topics: bool
    """False where the library resolves a pattern only once."""
    deletes_groups: bool

    def join(self, subscription: Subscription) -> Member: ...

    def groups(self) -> set[str]: ...

    def describe(self, group: str) -> Group: ...

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Partition to committed offset, for partitions that have one."""

    def reset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Commit for a group that has no members."""

    def delete(self, group: str) -> None: ...


def owned(member: Member) -> set[Place]:
    """The partitions that a member has now."""
    places: set[Place] = set()
    for change in member.changes():
        if change.kind == "assigned":
            places |= change.places
        else:
            places -= change.places
    return places


def shares(members: Iterable[Member]) -> list[int]:
    """How many partitions each has, the smallest number first."""
    return sorted(len(owned(member)) for member in members)


def values(members: Iterable[Member]) -> list[bytes]:
    return [read.value for member in members for read in member.reads()]


def assert_one_owner_at_a_time(members: Sequence[Member]) -> None:
    """No two members held one partition at the same moment.

    A member gives back before it joins again, and nobody is given anything before all have
    joined, so the times of one machine's clock must tell the same story.
    """
    spans: dict[Place, list[tuple[int, float, int]]] = {}
    for number, member in enumerate(members):
        since: dict[Place, int] = {}
        for change in member.changes():
            for place in change.places:
                if change.kind == "assigned":
                    since.setdefault(place, change.at_us)
                elif place in since:
                    spans.setdefault(place, []).append((since.pop(place), change.at_us, number))
        for place, at_us in since.items():
            spans.setdefault(place, []).append((at_us, float("inf"), number))
    for place, rows in spans.items():
        rows.sort()
        for (_, until_us, one), (from_us, _, other) in pairwise(rows):
            assert one == other or until_us <= from_us, (
                f"{place} belonged to members {one} and {other} at once: {rows}"
            )
