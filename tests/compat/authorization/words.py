"""One comparison: a request, who sends it, and what the sender is allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from moldau.security.acl.acl_model import CLUSTER_NAME, Operation, ResourceType
from moldau.wire.schema import Message

HERE, MINE, GONE = "here", "mine", "gone"
"""Two topics that exist and one that does not."""
TARGET = "TARGET"
"""In a right: `here` and `gone` alike."""
GROUP = "readers"
DEAL = "deal"
TOPIC_IDS: Mapping[str, bytes] = {GONE: b"\x07" * 16}


class Right(NamedTuple):
    kind: ResourceType
    name: str
    """With a star at its end it is a prefix."""
    operation: Operation


class World(NamedTuple):
    """What one of the two brokers calls the things that both have."""

    topic_ids: Mapping[str, bytes]
    producer_id: int
    producer_epoch: int
    token: bytes


class Ask(NamedTuple):
    """What a request is built for."""

    version: int
    topic: str
    """`here` or `gone`."""
    world: World
    own: str
    """A name that nobody else uses: of this scenario and version."""

    def topic_id(self, name: str) -> bytes:
        return self.world.topic_ids[name]


Grants = tuple[Right, ...]
NOTHING: Grants = ()


class Request(NamedTuple):
    api_key: int
    label: str
    build: Callable[[Ask], Message]
    grants: tuple[Grants, ...] = ()
    """Each is tried by somebody of their own, and so is nothing at all."""
    first: int = 0
    last: int = 99
    makes: str = ""
    """A topic of its own that is there before: named `own`, this in front."""
    names_a_topic: bool = True
    settles: bool = False
    """What was made a moment ago may be told of a moment later."""


class Scenario(NamedTuple):
    user: str
    request: Request
    grants: Grants


def topic(operation: Operation, name: str = TARGET) -> Right:
    return Right(ResourceType.TOPIC, name, operation)


def group(operation: Operation, name: str = GROUP) -> Right:
    return Right(ResourceType.GROUP, name, operation)


def deal(operation: Operation, name: str = DEAL) -> Right:
    return Right(ResourceType.TRANSACTIONAL_ID, name, operation)


def cluster(operation: Operation) -> Right:
    return Right(ResourceType.CLUSTER, CLUSTER_NAME, operation)


def on_topics(operation: Operation, *more: Right) -> tuple[Grants, ...]:
    """On one of two topics, on the other, on both; and what else is needed."""
    target, mine = topic(operation), topic(operation, MINE)
    return ((target, *more), (mine, *more), (target, mine, *more))


def each(*rights: Right) -> tuple[Grants, ...]:
    """Each right alone, and all of them."""
    alone: tuple[Grants, ...] = tuple((right,) for right in rights)
    return alone if len(rights) < 2 else (*alone, rights)
