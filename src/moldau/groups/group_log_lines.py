"""What an operator reads about groups, in the words that Kafka's logs have had for years.

Pure: facts in, lines out; the wiring logs them once the facts are committed. The partition is that
of `__consumer_offsets` which holds the group.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.groups import group_facts
from moldau.groups.group_facts import Removal

COORDINATOR_LOGGER = "kafka.coordinator.group.GroupCoordinator"
STORE_LOGGER = "kafka.coordinator.group.GroupMetadataManager"
INFO = "INFO"


class LogLine(NamedTuple):
    level: str
    logger: str
    text: str


def log_line(fact: object, node_id: int, partition: int) -> LogLine | None:
    """None for facts that nobody needs to be told."""
    if isinstance(fact, group_facts.GroupDeleted):
        text = f"Group {fact.group_id} transitioned to Dead in generation {fact.generation}"
        prefix = f"[GroupMetadataManager brokerId={node_id}]"
        return LogLine(INFO, STORE_LOGGER, f"{prefix} {_on_one_line(text)}")
    said = _said(fact, f"(__consumer_offsets-{partition})")
    if said is None:
        return None
    return LogLine(INFO, COORDINATOR_LOGGER, f"[GroupCoordinator {node_id}]: {_on_one_line(said)}")


def _on_one_line(text: str) -> str:
    """Names and reasons are what clients sent: none of them may forge a line of its own."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def _said(fact: object, place: str) -> str | None:
    match fact:
        case group_facts.RebalancePrepared(group_id, generation, reason):
            return (
                f"Preparing to rebalance group {group_id} in state PreparingRebalance "
                f"with old generation {generation} {place} (reason: {reason})"
            )
        case group_facts.GenerationStarted(group_id, generation, member_count=0):
            return f"Group {group_id} with generation {generation} is now empty {place}"
        case group_facts.GenerationStarted(group_id, generation):
            return f"Stabilized group {group_id} generation {generation} {place}"
        case group_facts.AssignmentReceived(group_id, generation):
            return (
                f"Assignment received from leader for group {group_id} for generation {generation}"
            )
        case group_facts.MemberPending(group_id, member_id):
            return (
                f"Dynamic Member with unknown member id joins group {group_id}. Created a new "
                f"member id {member_id} and request the member to rejoin with this id."
            )
        case group_facts.StaticMemberReplaced(group_id, instance_id, member_id_old):
            return (
                f"Static member with groupInstanceId={instance_id} and unknown member id joins "
                f"group {group_id}. Replacing previously mapped member {member_id_old} with this "
                "groupInstanceId."
            )
        case group_facts.LeaderElected(group_id, member_id, member_id_old):
            return (
                f"Group leader {member_id_old} of group {group_id} failed to join before rebalance "
                f"timeout, and new leader {member_id} was elected."
            )
        case group_facts.MemberRemoved():
            return _removed(fact)
        case _:
            return None


def _removed(fact: group_facts.MemberRemoved) -> str:
    group_id, member_id = fact.group_id, fact.member_id
    match fact.why:
        case Removal.EXPIRED:
            return f"Member {member_id} in group {group_id} has failed, removing it from the group"
        case Removal.LEFT:
            reason = fact.client_reason or "not provided"
            return (
                f"Member {member_id} has left group {group_id} through explicit `LeaveGroup` "
                f"request; client reason: {reason}"
            )
        case _:
            return f"Group {group_id} removed member {member_id}: {fact.why.value}"
