"""A decision about one group while it is being made.

Rules of the classic protocol follow from one another: a member leaves, so the others have to
rejoin, so the join may be complete. A draft collects facts, answers and timers step by step and
shows the group as it will be when they are applied; the real group is not touched.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.engine.machine import NO_TOKEN, Decision, Reply, Timer, Token, Volatile
from moldau.groups import group_facts
from moldau.groups.classic.classic_group import ClassicGroup
from moldau.groups.classic.classic_members import Member
from moldau.groups.classic.group_timers import TimerKey, session_key
from moldau.groups.group_commands import ExpireSession
from moldau.groups.group_results import JoinResult, SyncResult
from moldau.groups.group_settings import GroupSettings
from moldau.model.clock import Now
from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis


class GroupDraft:
    __slots__ = (
        "_facts",
        "_is_copy",
        "_is_first",
        "_replies",
        "_timers",
        "group",
        "now",
        "settings",
    )

    def __init__(self, group: ClassicGroup | str, settings: GroupSettings, now: Now) -> None:
        """A name instead of a group starts a new one, stored as soon as anything happens."""
        self._is_first = isinstance(group, str)
        self._is_copy = self._is_first
        self.group = ClassicGroup(group, now.wall_ms) if isinstance(group, str) else group
        self.settings = settings
        self.now = now
        self._facts: list[object] = []
        self._timers: dict[TimerKey, Timer] = {}
        self._replies: list[Reply] = []

    def decision(self, instead: Callable[[ApiError], object] | None = None) -> Decision:
        return Decision(
            tuple(self._facts),
            tuple(self._timers.values()),
            tuple(self._replies),
            instead=instead,
        )

    def store(self, fact: group_facts.Durable) -> None:
        self._change(fact)
        self._facts.append(fact)

    def note(self, fact: object) -> None:
        """A fact that a restart may forget."""
        self._change(fact)
        self._facts.append(Volatile(fact))

    def _change(self, fact: object) -> None:
        if self._is_first:
            self._is_first = False
            # Known from its first moment, so that a restart remembers that the group exists.
            self._facts.append(
                group_facts.GroupStored(self.group.group_id, None, 0, None, None, self.now.wall_ms)
            )
        if not self._is_copy:
            self._is_copy = True
            self.group = self.group.copy()
        self.group.apply(fact)

    def answer(self, token: Token, outcome: object) -> None:
        if token != NO_TOKEN:
            self._replies.append(Reply(token, outcome))

    def refuse(self, token: Token, error: Error, message: str = "") -> None:
        self.answer(token, ApiError(error, message))

    def refuse_waiting(self, member: Member, error: Error, member_id: str = "") -> None:
        """Whatever the member waits for, it will not come."""
        self.answer(member.join_token, JoinResult(error, member_id))
        self.answer(member.sync_token, SyncResult(error))

    def wake(self, key: TimerKey, delay_ms: Millis, command: object) -> None:
        self._timers[key] = Timer(key, self.now.monotonic_ms + delay_ms, command)

    def cancel(self, key: TimerKey) -> None:
        self._timers[key] = Timer(key, None)

    def watch(self, member_id: str, timeout_ms: Millis) -> None:
        """The member is alive now; without a sign of life it is given up after that time."""
        group_id = self.group.group_id
        command = ExpireSession(group_id, member_id)
        self.wake(session_key(group_id, member_id), timeout_ms, command)

    def watch_member(self, member: Member) -> None:
        self.watch(member.member_id, member.session_timeout_ms)

    def unwatch(self, member_id: str) -> None:
        self.cancel(session_key(self.group.group_id, member_id))
