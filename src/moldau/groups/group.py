"""What every kind of group can be asked, whatever its protocol (Kafka's Group).

Pure. Offsets are committed, fetched, deleted and expired alike for all kinds; who may do so, and
whether the group is still needed, the group itself says. The classic kind is in `classic/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from moldau.engine.machine import Timer
    from moldau.groups.group_commands import CommitOffsets, CommitTransactionalOffsets
    from moldau.model.clock import Now
    from moldau.model.errors import Error
    from moldau.model.names import Millis


class Group(Protocol):
    @property
    def group_id(self) -> str: ...

    @property
    def type_name(self) -> str:
        """As ListGroups tells it."""

    @property
    def state_name(self) -> str:
        """As ListGroups tells it."""

    @property
    def protocol_type(self) -> str | None: ...

    @property
    def generation(self) -> int: ...

    @property
    def kept_bytes(self) -> int:
        """About what it takes in memory, its offsets apart."""

    @property
    def is_unused(self) -> bool:
        """Nobody is a member and nobody is about to become one."""

    @property
    def offsets_unused_since_ms(self) -> Millis | None:
        """Since when all its offsets are unused; None if that depends on their commits."""

    def apply(self, fact: object) -> None: ...

    def commit_error(self, command: CommitOffsets | CommitTransactionalOffsets) -> Error:
        """Why the sender may not commit."""

    def heard_from(self, member_id: str, now: Now) -> tuple[Timer, ...]:
        """The member lives: the timer of its session."""

    def topics_in_use(self) -> frozenset[str] | None:
        """Topics whose offsets may not expire; None if that holds for all."""

    def is_subscribed_to(self, topic: str) -> bool: ...

    def deletion_error(self) -> Error:
        """Why it may not be deleted."""

    def offset_deletion_error(self) -> Error:
        """Why none of its offsets may be deleted."""

    def timers_of_deletion(self) -> tuple[Timer, ...]:
        """To be cancelled when it goes."""
