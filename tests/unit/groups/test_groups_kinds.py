"""Groups of another kind beside the classic ones: the machine asks them what `Group` promises, and
nobody who speaks the classic protocol gets into them."""

from __future__ import annotations

from moldau.engine.machine import Timer
from moldau.groups import group_commands
from moldau.groups.group import Group
from moldau.groups.group_commands import CommitOffsets, CommitTransactionalOffsets
from moldau.groups.group_results import ListedGroup
from moldau.model.clock import Now
from moldau.model.errors import Error
from tests.support.group_coordinator import GROUP, Coordinator, error_of

OTHER = "others"
DAYS_MS = 24 * 3_600_000


class OtherGroup:
    """A kind of its own: one member, which is subscribed to everything."""

    group_id = OTHER
    type_name = "other"
    state_name = "Stable"
    protocol_type = "other"
    generation = 7
    kept_bytes = 0
    offsets_unused_since_ms = None
    is_unused = False

    def __init__(self) -> None:
        self.facts: list[object] = []

    def apply(self, fact: object) -> None:
        self.facts.append(fact)

    def commit_error(self, command: CommitOffsets | CommitTransactionalOffsets) -> Error:
        return Error.NONE if command.member_id == "m" else Error.UNKNOWN_MEMBER_ID

    def heard_from(self, member_id: str, now: Now) -> tuple[Timer, ...]:
        return (Timer(("heard", member_id), now.monotonic_ms + 1, None),)

    def topics_in_use(self) -> frozenset[str] | None:
        return None

    def is_subscribed_to(self, topic: str) -> bool:
        return True

    def deletion_error(self) -> Error:
        return Error.NON_EMPTY_GROUP

    def offset_deletion_error(self) -> Error:
        return Error.NONE

    def timers_of_deletion(self) -> tuple[Timer, ...]:
        return ()


def with_both() -> Coordinator:
    coordinator = Coordinator()
    coordinator.stable()
    other: Group = OtherGroup()
    coordinator.machine.groups[OTHER] = other
    return coordinator


def test_all_kinds_are_listed_and_may_be_asked_for_by_type() -> None:
    coordinator = with_both()
    rows = coordinator.ask(group_commands.ListGroups())
    assert [(row.group_id, row.type) for row in rows] == [(GROUP, "classic"), (OTHER, "other")]
    (row,) = coordinator.ask(group_commands.ListGroups(types=frozenset({"other"})))
    assert row == ListedGroup(OTHER, "other", "Stable", "other")


def test_the_group_itself_says_who_may_commit_and_what_may_go() -> None:
    coordinator = with_both()
    assert error_of(coordinator.commit(1, group_id=OTHER)) is Error.UNKNOWN_MEMBER_ID
    coordinator.commit(5, "m", group_id=OTHER)
    assert ("heard", "m") in coordinator.timers
    assert coordinator.committed(group_id=OTHER).offset == 5
    coordinator.wall_step_ms = 365 * DAYS_MS
    coordinator.ask(group_commands.ExpireOffsets())
    assert coordinator.committed(group_id=OTHER).offset == 5, "in use"
    assert error_of(coordinator.ask(group_commands.DeleteGroup(OTHER))) is Error.NON_EMPTY_GROUP


def test_nobody_of_the_classic_protocol_gets_into_another_kind() -> None:
    coordinator = with_both()
    join = coordinator.join(group_id=OTHER)
    assert coordinator.answers[join].error is Error.INCONSISTENT_GROUP_PROTOCOL
    heartbeat = group_commands.Heartbeat(OTHER, 7, "m")
    assert error_of(coordinator.ask(heartbeat)) is Error.UNKNOWN_MEMBER_ID
    sync = group_commands.SyncGroup(OTHER, 7, "m")
    assert error_of(coordinator.ask(sync)) is Error.UNKNOWN_MEMBER_ID
    described = coordinator.ask(group_commands.DescribeGroup(OTHER))
    assert error_of(described) is Error.GROUP_ID_NOT_FOUND


def test_a_partition_with_several_kinds_can_be_loaded() -> None:
    coordinator = with_both()
    coordinator.ask(group_commands.Loaded())
    assert not coordinator.waiting
