"""What a classic group needs when its partition was loaded."""

from __future__ import annotations

from moldau.groups.classic import rebalancing
from moldau.groups.classic.group_decision import GroupDraft


def loaded(draft: GroupDraft) -> None:
    """Every member has a whole session to be heard of, as if it had spoken just now."""
    group, members_max = draft.group, draft.settings.members_max
    for member in group.members.values():
        draft.watch_member(member)
    if len(group.members) > members_max:
        rebalancing.prepare(
            draft,
            f"Freshly-loaded group {group.group_id} (size {len(group.members)}) is over capacity "
            f"{members_max}. Rebalancing in order to give a chance for consumers to commit offsets",
        )
