"""The lines that operators know, from a group's first member to its end."""

from __future__ import annotations

from moldau.groups import group_commands, group_facts
from moldau.groups.group_commands import Leaver
from moldau.groups.group_log_lines import COORDINATOR_LOGGER, STORE_LOGGER, log_line
from tests.support.group_coordinator import GROUP, SESSION_MS, Coordinator

DAYS_MS = 24 * 3_600_000


def lines(coordinator: Coordinator) -> list[tuple[str, str]]:
    found = (log_line(fact, 3, 49) for fact in coordinator.facts)
    return [(line.logger, line.text) for line in found if line is not None]


def test_the_life_of_a_group_is_told_in_kafkas_words() -> None:
    coordinator = Coordinator()
    join = coordinator.join(new_member_id="consumer-1-416c9379")
    coordinator.pass_ms(3_000)
    coordinator.sync(coordinator.answers[join].member_id, 1, {})
    coordinator.pass_ms(SESSION_MS)
    coordinator.wall_step_ms = 8 * DAYS_MS
    coordinator.ask(group_commands.ExpireOffsets())
    said = [
        f"Preparing to rebalance group {GROUP} in state PreparingRebalance with old generation 0 "
        "(__consumer_offsets-49) (reason: Adding new member consumer-1-416c9379)",
        f"Stabilized group {GROUP} generation 1 (__consumer_offsets-49)",
        f"Assignment received from leader for group {GROUP} for generation 1",
        f"Member consumer-1-416c9379 in group {GROUP} has failed, removing it from the group",
        f"Preparing to rebalance group {GROUP} in state PreparingRebalance with old generation 1 "
        "(__consumer_offsets-49) "
        "(reason: removing member consumer-1-416c9379 on heartbeat expiration)",
        f"Group {GROUP} with generation 2 is now empty (__consumer_offsets-49)",
    ]
    assert lines(coordinator) == [
        *((COORDINATOR_LOGGER, f"[GroupCoordinator 3]: {text}") for text in said),
        (
            STORE_LOGGER,
            f"[GroupMetadataManager brokerId=3] Group {GROUP} transitioned to Dead in generation 2",
        ),
    ]


def test_other_events_have_a_line_too() -> None:
    coordinator = Coordinator()
    coordinator.join(new_member_id="c-1", member_id_required=True)
    coordinator.join(instance_id="i", new_member_id="c-2")
    coordinator.join(instance_id="i", new_member_id="c-3")
    coordinator.ask(group_commands.LeaveGroup(GROUP, (Leaver("c-3", reason="tired"),)))
    texts = " / ".join(text for _, text in lines(coordinator))
    assert "Created a new member id c-1" in texts
    assert "with group instance id i)" in texts
    assert "Replacing previously mapped member c-2" in texts
    assert "Member c-3 has left" in texts
    assert "client reason: tired" in texts


def test_who_was_left_out_of_a_rebalance_is_named_and_so_is_a_new_leader() -> None:
    gone = group_facts.MemberRemoved(GROUP, "c-1", group_facts.Removal.NOT_REJOINED)
    line = log_line(gone, 3, 49)
    assert line is not None
    assert line.text.endswith("removed member c-1: it did not rejoin in time")
    line = log_line(group_facts.LeaderElected(GROUP, "c-2", "c-1"), 3, 49)
    assert line is not None
    assert "new leader c-2 was elected" in line.text


def test_everyday_facts_are_not_told() -> None:
    assert log_line(group_facts.OffsetsCommitted(GROUP, ()), 3, 49) is None
    assert log_line(group_facts.MemberSynced(GROUP, "c-1"), 3, 49) is None


def test_a_client_cannot_forge_a_line() -> None:
    left = group_facts.MemberRemoved(
        GROUP, "c-1", group_facts.Removal.LEFT, "bye\n[2026-01-01] INFO forged"
    )
    line = log_line(left, 3, 49)
    assert line is not None
    assert line.text.endswith("client reason: bye\\n[2026-01-01] INFO forged")
