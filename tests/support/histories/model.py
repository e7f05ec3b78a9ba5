"""What clients did and what they were told: the words of a history.

A partition is a list that grows. An operation appends to several of them, reads several, and may
move the offsets of a group, all in one transaction or on its own. Every value is written once in a
history, so a value names the append that wrote it. Times are of one clock for all clients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

Place = tuple[str, int]
"""Topic and partition."""


class Outcome(Enum):
    OK = "ok"
    """The client was told that it is done; a transaction: that it is committed."""
    FAIL = "fail"
    """It must never be seen; a transaction: it was aborted, or nobody asked for its commit."""
    UNKNOWN = "unknown"
    """It may have happened or not, but not in part."""


class Append(NamedTuple):
    place: Place
    value: str
    offset: int | None = None
    """Where the client was told it is."""
    key: str | None = None
    source: tuple[Place, int] | None = None
    """The record that it was made from."""


class Read(NamedTuple):
    """Everything that a reader of committed records found from `start` to before `end`."""

    place: Place
    start: int
    end: int
    records: tuple[tuple[int, str], ...]


class Consumed(NamedTuple):
    """A group's offset goes to `end`, in the transaction or on its own."""

    group: str
    place: Place
    end: int


class Look(NamedTuple):
    """Somebody asked where a group is."""

    group: str
    place: Place
    offset: int
    invoked: float
    completed: float


@dataclass
class Operation:
    process: str
    """One session of one client: what it does is done one after the other."""
    outcome: Outcome
    invoked: float
    completed: float
    identity: str | None = None
    """The transactional id; without it each append stands alone."""
    ending: float | None = None
    """When the commit of the transaction was asked for."""
    appends: list[Append] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    consumed: list[Consumed] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.process} at {self.invoked:.3f} ({self.outcome.value})"


@dataclass
class History:
    operations: list[Operation]
    logs: dict[Place, tuple[tuple[int, str], ...]]
    """What a reader of committed records finds when all is over: offset and value."""
    looks: list[Look] = field(default_factory=list)
    ends: dict[Place, int] = field(default_factory=dict)
    """Behind the last offset of each log."""
    compacted: frozenset[str] = frozenset()
    """Topics in which a record may go when a later one has its key."""


class Anomaly(NamedTuple):
    kind: str
    detail: str
