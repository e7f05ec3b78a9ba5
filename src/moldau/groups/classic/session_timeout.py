"""Members of whom nothing was heard for their session timeout are removed from their group."""

from __future__ import annotations

from moldau.groups import group_facts
from moldau.groups.classic.classic_group import State
from moldau.groups.classic.group_decision import GroupDraft
from moldau.groups.classic.leaving import remove
from moldau.groups.classic.rebalancing import complete, rebalance_or_complete
from moldau.groups.group_facts import Removal


def expire(draft: GroupDraft, member_id: str) -> None:
    """The session timer has run out."""
    group = draft.group
    if member_id in group.pending:
        draft.note(group_facts.PendingMemberRemoved(group.group_id, member_id))
        _complete_if_last(draft)
        return
    member = group.members.get(member_id)
    if member is None or member.is_known_to_live:
        return
    remove(draft, member_id, Removal.EXPIRED)
    if group.state is State.PREPARING_REBALANCE:
        _complete_if_last(draft)
    else:
        reason = f"removing member {member_id} on heartbeat expiration"
        rebalance_or_complete(draft, reason)


def _complete_if_last(draft: GroupDraft) -> None:
    """The one that is gone may have been the last to be waited for."""
    group = draft.group
    if group.state is State.PREPARING_REBALANCE and group.has_everybody_joined:
        complete(draft)
