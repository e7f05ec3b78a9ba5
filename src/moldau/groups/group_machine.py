"""The group coordinator of one partition of `__consumer_offsets`: all groups that hash there.

Pure. Commands are routed to the rules of the classic protocol and of offsets; facts to the group or
to the offsets. Groups of several kinds are kept side by side (`group.py` says what each can be
asked): a command finds its rules in `_DECIDED_BY`, a fact its group by its id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.engine.machine import NOTHING, Decision, Reply, Timer, Token
from moldau.groups import group_commands, group_facts, offset_expiry, offset_rules
from moldau.groups.classic import (
    after_loading,
    joining,
    leaving,
    rebalancing,
    session_timeout,
    syncing,
)
from moldau.groups.classic.classic_group import GROUP_BYTES, ClassicGroup
from moldau.groups.classic.group_decision import GroupDraft
from moldau.groups.committed_offsets import Offsets
from moldau.groups.group import Group
from moldau.groups.group_descriptions import described, listed
from moldau.groups.group_results import JoinResult, LeaveResult, SyncResult
from moldau.groups.group_settings import GroupSettings
from moldau.model.clock import Now
from moldau.model.errors import ApiError, Error

NO_ROOM = "the groups here take group.state.max.bytes"


class GroupMachine:
    __slots__ = ("groups", "kept_bytes", "offsets", "settings")

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.kept_bytes = 0
        """About what all groups here take in memory, their offsets apart."""
        self.groups: dict[str, Group] = {}
        """Of all kinds, by group id."""
        self.offsets = Offsets()

    def decide(self, command: object, token: Token, now: Now) -> Decision:
        return _DECIDED_BY[type(command)](self, command, token, now)

    def apply(self, fact: Any) -> None:
        group_id = getattr(fact, "group_id", None)
        before = self._kept_by(group_id)
        self._apply(fact)
        self.kept_bytes += self._kept_by(group_id) - before

    def _kept_by(self, group_id: str | None) -> int:
        group = None if group_id is None else self.groups.get(group_id)
        return 0 if group is None else group.kept_bytes

    def _apply(self, fact: Any) -> None:
        match fact:
            case group_facts.GroupDeleted(group_id):
                self.groups.pop(group_id, None)
            case group_facts.GroupStored(group_id):
                if group_id not in self.groups:
                    self.groups[group_id] = ClassicGroup(group_id)
                self.groups[group_id].apply(fact)
            case group_facts.OffsetsCommitted() | group_facts.TransactionalOffsetsCommitted():
                self._keep_group_of(fact)
                self.offsets.apply(fact)
            case group_facts.OffsetsRemoved() | group_facts.TransactionEnded():
                self.offsets.apply(fact)
            case _:
                self.groups[fact.group_id].apply(fact)

    def _keep_group_of(
        self, fact: group_facts.OffsetsCommitted | group_facts.TransactionalOffsetsCommitted
    ) -> None:
        """Committing without joining makes a group too, which has only offsets."""
        if fact.group_id not in self.groups:
            committed_ms = fact.offsets[0][1].commit_timestamp_ms
            self.groups[fact.group_id] = ClassicGroup(fact.group_id, committed_ms)

    def _classic(self, group_id: str) -> ClassicGroup | None:
        """None also for a group of another kind: its members do not speak the classic protocol."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _draft(self, group: ClassicGroup | str, now: Now) -> GroupDraft:
        return GroupDraft(group, self.settings, now)

    def _join(self, command: group_commands.JoinGroup, token: Token, now: Now) -> Decision:
        settings, member_id = self.settings, command.member_id
        shortest, longest = settings.session_timeout_min_ms, settings.session_timeout_max_ms
        if not shortest <= command.session_timeout_ms <= longest:
            return Decision.reply(token, JoinResult(Error.INVALID_SESSION_TIMEOUT, member_id))
        group = self._classic(command.group_id)
        if group is None and command.group_id in self.groups:
            return Decision.reply(token, JoinResult(Error.INCONSISTENT_GROUP_PROTOCOL, member_id))
        if group is None and member_id != group_commands.NO_MEMBER_ID:
            return Decision.reply(token, JoinResult(Error.UNKNOWN_MEMBER_ID, member_id))
        draft = self._draft(group or command.group_id, now)
        joining.join(draft, command, token)
        if self._is_too_much(draft, now):
            return Decision.reply(token, JoinResult(Error.COORDINATOR_NOT_AVAILABLE, member_id))
        return draft.decision()

    def _is_too_much(self, draft: GroupDraft, now: Now) -> bool:
        """Whether the group would take more than the memory that is left for all groups. One that
        does not grow goes on as before."""
        group_id = draft.group.group_id
        grows_bytes = draft.group.kept_bytes - self._kept_by(group_id)
        return grows_bytes > 0 and grows_bytes > now.room_bytes

    def _sync(self, command: group_commands.SyncGroup, token: Token, now: Now) -> Decision:
        group = self._classic(command.group_id)
        if group is None:
            return Decision.reply(token, SyncResult(Error.UNKNOWN_MEMBER_ID))
        draft = self._draft(group, now)
        syncing.sync(draft, command, token)

        def refuse(refusal: ApiError) -> group_commands.RefuseAssignment:
            return group_commands.RefuseAssignment(
                command.group_id, command.member_id, refusal.error
            )

        if self._is_too_much(draft, now):
            refused = refuse(ApiError(Error.COORDINATOR_NOT_AVAILABLE))
            return self._refuse_assignment(refused, token, now)
        return draft.decision(refuse)

    def _refuse_assignment(
        self, command: group_commands.RefuseAssignment, token: Token, now: Now
    ) -> Decision:
        group = self._classic(command.group_id)
        assert group is not None, f"{command.group_id} was there a moment ago"
        draft = self._draft(group, now)
        syncing.refuse_assignment(draft, command, token)
        return draft.decision()

    def _heartbeat(self, command: group_commands.Heartbeat, token: Token, now: Now) -> Decision:
        group = self._classic(command.group_id)
        if group is None:
            return Decision.refuse(
                token, Error.UNKNOWN_MEMBER_ID, f"Group {command.group_id} not found."
            )
        draft = self._draft(group, now)
        syncing.heartbeat(draft, command, token)
        return draft.decision()

    def _leave(self, command: group_commands.LeaveGroup, token: Token, now: Now) -> Decision:
        group = self._classic(command.group_id)
        if group is None:
            unknown = Error.UNKNOWN_MEMBER_ID
            rows = (LeaveResult(each[0], each[1], unknown) for each in command.members)
            return Decision.reply(token, tuple(rows))
        draft = self._draft(group, now)
        leaving.leave(draft, command, token)
        return draft.decision()

    def _commit(self, command: group_commands.CommitOffsets, token: Token, now: Now) -> Decision:
        group = self.groups.get(command.group_id)
        if group is None and now.room_bytes < GROUP_BYTES + len(command.group_id):
            return Decision.refuse(token, Error.COORDINATOR_NOT_AVAILABLE, NO_ROOM)
        return offset_rules.commit(group, command, self.settings, token, now)

    def _commit_in_transaction(
        self, command: group_commands.CommitTransactionalOffsets, token: Token, now: Now
    ) -> Decision:
        group = self.groups.get(command.group_id)
        return offset_rules.commit_in_transaction(group, command, self.settings, token, now)

    def _end_transaction(
        self, command: group_commands.EndTransaction, token: Token, now: Now
    ) -> Decision:
        return offset_rules.end_transaction(command, token)

    def _fetch(self, command: group_commands.FetchOffsets, token: Token, now: Now) -> Decision:
        return offset_rules.fetch(self.offsets, command, token)

    def _delete_offsets(
        self, command: group_commands.DeleteOffsets, token: Token, now: Now
    ) -> Decision:
        group = self.groups.get(command.group_id)
        return offset_rules.delete(group, self.offsets, command, token)

    def _describe(self, command: group_commands.DescribeGroup, token: Token, now: Now) -> Decision:
        group = self._classic(command.group_id)
        if group is None:
            return _no_such_group(command.group_id, token)
        return Decision.reply(token, described(group))

    def _list(self, command: group_commands.ListGroups, token: Token, now: Now) -> Decision:
        return Decision.reply(token, listed(self.groups.values(), command))

    def _delete(self, command: group_commands.DeleteGroup, token: Token, now: Now) -> Decision:
        group = self.groups.get(command.group_id)
        if group is None:
            return _no_such_group(command.group_id, token)
        error = group.deletion_error()
        if error is not Error.NONE:
            return Decision.refuse(token, error)
        return offset_expiry.delete_group(group, self.offsets, token)

    def _forget(self, command: group_commands.ForgetTopics, token: Token, now: Now) -> Decision:
        return offset_expiry.forget_topics(self.offsets, command, token, now)

    def _expire_offsets(
        self, command: group_commands.ExpireOffsets, token: Token, now: Now
    ) -> Decision:
        return offset_expiry.expire(self.groups, self.offsets, command, self.settings, token, now)

    def _loaded(self, command: group_commands.Loaded, token: Token, now: Now) -> Decision:
        found: list[object] = []
        timers: list[Timer] = []
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                draft = self._draft(group, now)
                after_loading.loaded(draft)
                decision = draft.decision()
                found.extend(decision.facts)
                timers.extend(decision.timers)
        return Decision(tuple(found), tuple(timers), (Reply(token, None),))

    def _expire_session(
        self, command: group_commands.ExpireSession, token: Token, now: Now
    ) -> Decision:
        return self._timed(
            command, now, lambda draft: session_timeout.expire(draft, command.member_id)
        )

    def _complete_join(
        self, command: group_commands.CompleteJoin, token: Token, now: Now
    ) -> Decision:
        return self._timed(command, now, rebalancing.time_is_up)

    def _complete_initial_join(
        self, command: group_commands.CompleteInitialJoin, token: Token, now: Now
    ) -> Decision:
        return self._timed(
            command, now, lambda draft: rebalancing.initial_time_is_up(draft, command)
        )

    def _expire_sync(self, command: group_commands.ExpireSync, token: Token, now: Now) -> Decision:
        return self._timed(command, now, lambda draft: syncing.sync_time_is_up(draft, command))

    def _timed(self, command: Any, now: Now, rule: Callable[[GroupDraft], None]) -> Decision:
        """Nobody waits for a timer; the group may be gone by now."""
        group = self._classic(command.group_id)
        if group is None:
            return NOTHING
        draft = self._draft(group, now)
        rule(draft)
        return draft.decision()


def _no_such_group(group_id: str, token: Token) -> Decision:
    return Decision.refuse(token, Error.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


_DECIDED_BY: dict[type, Callable[[GroupMachine, Any, Token, Now], Decision]] = {
    group_commands.JoinGroup: GroupMachine._join,
    group_commands.SyncGroup: GroupMachine._sync,
    group_commands.RefuseAssignment: GroupMachine._refuse_assignment,
    group_commands.Heartbeat: GroupMachine._heartbeat,
    group_commands.LeaveGroup: GroupMachine._leave,
    group_commands.CommitOffsets: GroupMachine._commit,
    group_commands.CommitTransactionalOffsets: GroupMachine._commit_in_transaction,
    group_commands.EndTransaction: GroupMachine._end_transaction,
    group_commands.FetchOffsets: GroupMachine._fetch,
    group_commands.DeleteOffsets: GroupMachine._delete_offsets,
    group_commands.DescribeGroup: GroupMachine._describe,
    group_commands.ListGroups: GroupMachine._list,
    group_commands.DeleteGroup: GroupMachine._delete,
    group_commands.ForgetTopics: GroupMachine._forget,
    group_commands.ExpireOffsets: GroupMachine._expire_offsets,
    group_commands.Loaded: GroupMachine._loaded,
    group_commands.ExpireSession: GroupMachine._expire_session,
    group_commands.CompleteJoin: GroupMachine._complete_join,
    group_commands.CompleteInitialJoin: GroupMachine._complete_initial_join,
    group_commands.ExpireSync: GroupMachine._expire_sync,
}
