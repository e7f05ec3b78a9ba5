"""One member of a classic group: immutable, replaced when anything about it changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from moldau.engine.machine import NO_TOKEN, Token
from moldau.groups.group_facts import Protocol, StoredMember
from moldau.model.names import Millis

MEMBER_BYTES = 1_000
"""What a member takes apart from what it says."""


def told_bytes(protocols: Iterable[Protocol]) -> int:
    return sum(len(known.name) + len(known.metadata) for known in protocols)


class Member(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: Millis
    rebalance_timeout_ms: Millis
    protocols: tuple[Protocol, ...]
    """In the order of the member's preference."""
    assignment: bytes = b""
    join_token: Token = NO_TOKEN
    sync_token: Token = NO_TOKEN
    is_new: bool = False
    """It has never been answered: it does not know its id and cannot heartbeat."""

    @property
    def is_joining(self) -> bool:
        return self.join_token != NO_TOKEN

    @property
    def is_syncing(self) -> bool:
        return self.sync_token != NO_TOKEN

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_known_to_live(self) -> bool:
        """Who waits for an answer cannot heartbeat and is not asked to; a new member may have gone
        away unnoticed, so its wait is bounded."""
        return not self.is_new and (self.is_joining or self.is_syncing)

    @property
    def kept_bytes(self) -> int:
        """About what it takes in memory."""
        texts = len(self.member_id) + len(self.instance_id or "") + len(self.client_id)
        return MEMBER_BYTES + texts + told_bytes(self.protocols) + len(self.assignment)

    def metadata(self, protocol: str | None) -> bytes | None:
        return next((known.metadata for known in self.protocols if known.name == protocol), None)

    def vote(self, candidates: set[str]) -> str:
        """The protocol that the member likes best among those that everybody knows."""
        return next(known.name for known in self.protocols if known.name in candidates)


def stored_member(member: Member, protocol: str, assignment: bytes) -> StoredMember:
    subscription = member.metadata(protocol)
    assert subscription is not None, f"{member.member_id} does not know {protocol}"
    return StoredMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        subscription,
        assignment,
    )


def loaded_member(stored: StoredMember, protocol: str) -> Member:
    return Member(
        stored.member_id,
        stored.instance_id,
        stored.client_id,
        stored.client_host,
        stored.session_timeout_ms,
        stored.rebalance_timeout_ms,
        (Protocol(protocol, stored.subscription),),
        stored.assignment,
    )
