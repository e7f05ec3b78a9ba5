"""The group coordinator of one partition of `__consumer_offsets`: all groups that hash there.

Pure. Commands are routed to the rules of the classic protocol and of offsets; facts to the group or
to the offsets. Other kinds of groups (KIP-848's consumer groups, share groups) have their place
beside the classic ones: a command finds its rules in `_DECIDED_BY`, a fact its group by its id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.engine.machine import NOTHING, Decision, Reply, Timer, Token
from moldau.groups import (
    commands,
    expiry,
    facts,
    joining,
    leaving,
    offset_rules,
    rebalancing,
    syncing,
)
from moldau.groups.classic import ClassicGroup, State
from moldau.groups.describing import described, listed
from moldau.groups.draft import Draft
from moldau.groups.offsets import Offsets
from moldau.groups.results import JoinResult, LeaveResult, SyncResult
from moldau.groups.settings import GroupSettings
from moldau.model.errors import Error
from moldau.model.names import Millis


class GroupMachine:
    __slots__ = ("groups", "offsets", "settings")

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()

    def decide(self, command: object, token: Token, now_ms: Millis) -> Decision:
        return _DECIDED_BY[type(command)](self, command, token, now_ms)

    def apply(self, fact: Any) -> None:
        match fact:
            case facts.GroupDeleted(group_id):
                self.groups.pop(group_id, None)
            case facts.GroupStored(group_id):
                if group_id not in self.groups:
                    self.groups[group_id] = ClassicGroup(group_id)
                self.groups[group_id].apply(fact)
            case facts.OffsetsCommitted() | facts.TransactionalOffsetsCommitted():
                self._keep_group_of(fact)
                self.offsets.apply(fact)
            case facts.OffsetsRemoved() | facts.TransactionEnded():
                self.offsets.apply(fact)
            case _:
                self.groups[fact.group_id].apply(fact)

    def _keep_group_of(
        self, fact: facts.OffsetsCommitted | facts.TransactionalOffsetsCommitted
    ) -> None:
        """Committing without joining makes a group too, which has only offsets."""
        if fact.group_id not in self.groups:
            committed_ms = fact.offsets[0][1].commit_timestamp_ms
            self.groups[fact.group_id] = ClassicGroup(fact.group_id, committed_ms)

    def _draft(self, group: ClassicGroup | str, now_ms: Millis, wall_ms: Millis) -> Draft:
        return Draft(group, self.settings, now_ms, wall_ms)

    def _join(self, command: commands.JoinGroup, token: Token, now_ms: Millis) -> Decision:
        settings, member_id = self.settings, command.member_id
        shortest, longest = settings.session_timeout_min_ms, settings.session_timeout_max_ms
        if not shortest <= command.session_timeout_ms <= longest:
            return Decision.reply(token, JoinResult(Error.INVALID_SESSION_TIMEOUT, member_id))
        group = self.groups.get(command.group_id)
        if group is None and member_id != commands.NO_MEMBER_ID:
            return Decision.reply(token, JoinResult(Error.UNKNOWN_MEMBER_ID, member_id))
        draft = self._draft(group or command.group_id, now_ms, command.wall_ms)
        joining.join(draft, command, token)
        return draft.decision()

    def _sync(self, command: commands.SyncGroup, token: Token, now_ms: Millis) -> Decision:
        group = self.groups.get(command.group_id)
        if group is None:
            return Decision.reply(token, SyncResult(Error.UNKNOWN_MEMBER_ID))
        draft = self._draft(group, now_ms, command.wall_ms)
        syncing.sync(draft, command, token)
        return draft.decision()

    def _heartbeat(self, command: commands.Heartbeat, token: Token, now_ms: Millis) -> Decision:
        group = self.groups.get(command.group_id)
        if group is None:
            return Decision.refuse(
                token, Error.UNKNOWN_MEMBER_ID, f"Group {command.group_id} not found."
            )
        draft = self._draft(group, now_ms, command.wall_ms)
        syncing.heartbeat(draft, command, token)
        return draft.decision()

    def _leave(self, command: commands.LeaveGroup, token: Token, now_ms: Millis) -> Decision:
        group = self.groups.get(command.group_id)
        if group is None:
            unknown = Error.UNKNOWN_MEMBER_ID
            rows = (LeaveResult(each[0], each[1], unknown) for each in command.members)
            return Decision.reply(token, tuple(rows))
        draft = self._draft(group, now_ms, command.wall_ms)
        leaving.leave(draft, command, token)
        return draft.decision()

    def _commit(self, command: commands.CommitOffsets, token: Token, now_ms: Millis) -> Decision:
        group = self.groups.get(command.group_id)
        return offset_rules.commit(group, command, self.settings, token, now_ms)

    def _commit_in_transaction(
        self, command: commands.CommitTransactionalOffsets, token: Token, now_ms: Millis
    ) -> Decision:
        group = self.groups.get(command.group_id)
        return offset_rules.commit_in_transaction(group, command, self.settings, token)

    def _end_transaction(
        self, command: commands.EndTransaction, token: Token, now_ms: Millis
    ) -> Decision:
        return offset_rules.end_transaction(command, token)

    def _fetch(self, command: commands.FetchOffsets, token: Token, now_ms: Millis) -> Decision:
        return offset_rules.fetch(self.offsets, command, token)

    def _delete_offsets(
        self, command: commands.DeleteOffsets, token: Token, now_ms: Millis
    ) -> Decision:
        group = self.groups.get(command.group_id)
        return offset_rules.delete(group, self.offsets, command, token)

    def _describe(self, command: commands.DescribeGroup, token: Token, now_ms: Millis) -> Decision:
        group = self.groups.get(command.group_id)
        if group is None:
            return _no_such_group(command.group_id, token)
        return Decision.reply(token, described(group))

    def _list(self, command: commands.ListGroups, token: Token, now_ms: Millis) -> Decision:
        return Decision.reply(token, listed(self.groups.values(), command))

    def _delete(self, command: commands.DeleteGroup, token: Token, now_ms: Millis) -> Decision:
        group = self.groups.get(command.group_id)
        if group is None:
            return _no_such_group(command.group_id, token)
        if group.state is not State.EMPTY:
            return Decision.refuse(token, Error.NON_EMPTY_GROUP)
        return expiry.delete_group(group, self.offsets, token)

    def _forget(self, command: commands.ForgetTopics, token: Token, now_ms: Millis) -> Decision:
        return expiry.forget_topics(self.offsets, command, token)

    def _expire_offsets(
        self, command: commands.ExpireOffsets, token: Token, now_ms: Millis
    ) -> Decision:
        return expiry.expire(self.groups, self.offsets, command, self.settings, token, now_ms)

    def _loaded(self, command: commands.Loaded, token: Token, now_ms: Millis) -> Decision:
        """Every member has a whole session to be heard of, as if it had spoken just now."""
        found: list[object] = []
        timers: list[Timer] = []
        for group in self.groups.values():
            draft = self._draft(group, now_ms, command.wall_ms)
            for member in group.members.values():
                draft.watch_member(member)
            if len(group.members) > self.settings.members_max:
                rebalancing.prepare(draft, _over_capacity(group, self.settings.members_max))
            decision = draft.decision()
            found.extend(decision.facts)
            timers.extend(decision.timers)
        return Decision(tuple(found), tuple(timers), (Reply(token, None),))

    def _expire_session(
        self, command: commands.ExpireSession, token: Token, now_ms: Millis
    ) -> Decision:
        return self._timed(command, now_ms, lambda draft: leaving.expire(draft, command.member_id))

    def _complete_join(
        self, command: commands.CompleteJoin, token: Token, now_ms: Millis
    ) -> Decision:
        return self._timed(command, now_ms, rebalancing.time_is_up)

    def _complete_initial_join(
        self, command: commands.CompleteInitialJoin, token: Token, now_ms: Millis
    ) -> Decision:
        return self._timed(
            command, now_ms, lambda draft: rebalancing.initial_time_is_up(draft, command)
        )

    def _expire_sync(self, command: commands.ExpireSync, token: Token, now_ms: Millis) -> Decision:
        return self._timed(command, now_ms, lambda draft: syncing.sync_time_is_up(draft, command))

    def _timed(self, command: Any, now_ms: Millis, rule: Callable[[Draft], None]) -> Decision:
        """Nobody waits for a timer; the group may be gone by now."""
        group = self.groups.get(command.group_id)
        if group is None:
            return NOTHING
        draft = self._draft(group, now_ms, command.wall_ms)
        rule(draft)
        return draft.decision()


def _no_such_group(group_id: str, token: Token) -> Decision:
    return Decision.refuse(token, Error.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def _over_capacity(group: ClassicGroup, members_max: int) -> str:
    return (
        f"Freshly-loaded group {group.group_id} (size {len(group.members)}) is over capacity "
        f"{members_max}. Rebalancing in order to give a chance for consumers to commit offsets"
    )


_DECIDED_BY: dict[type, Callable[[GroupMachine, Any, Token, Millis], Decision]] = {
    commands.JoinGroup: GroupMachine._join,
    commands.SyncGroup: GroupMachine._sync,
    commands.Heartbeat: GroupMachine._heartbeat,
    commands.LeaveGroup: GroupMachine._leave,
    commands.CommitOffsets: GroupMachine._commit,
    commands.CommitTransactionalOffsets: GroupMachine._commit_in_transaction,
    commands.EndTransaction: GroupMachine._end_transaction,
    commands.FetchOffsets: GroupMachine._fetch,
    commands.DeleteOffsets: GroupMachine._delete_offsets,
    commands.DescribeGroup: GroupMachine._describe,
    commands.ListGroups: GroupMachine._list,
    commands.DeleteGroup: GroupMachine._delete,
    commands.ForgetTopics: GroupMachine._forget,
    commands.ExpireOffsets: GroupMachine._expire_offsets,
    commands.Loaded: GroupMachine._loaded,
    commands.ExpireSession: GroupMachine._expire_session,
    commands.CompleteJoin: GroupMachine._complete_join,
    commands.CompleteInitialJoin: GroupMachine._complete_initial_join,
    commands.ExpireSync: GroupMachine._expire_sync,
}
