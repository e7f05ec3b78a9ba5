"""Groups as outsiders see them."""

from __future__ import annotations

from moldau.groups import group_commands
from moldau.groups.group_results import DescribedGroup, DescribedMember, ListedGroup
from moldau.model.errors import Error
from tests.support.group_coordinator import GROUP, Coordinator, error_of, subscription


def test_a_stable_group_is_described_with_metadata_and_assignments() -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable()
    metadata, assignment = subscription("orders"), f"for {member_id}".encode()
    assert coordinator.ask(group_commands.DescribeGroup(GROUP)) == DescribedGroup(
        GROUP,
        "Stable",
        "consumer",
        "range",
        (DescribedMember(member_id, None, "consumer", "/127.0.0.1", metadata, assignment),),
    )


def test_between_generations_nobody_can_tell_which_metadata_counts() -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable()
    coordinator.join()
    described = coordinator.ask(group_commands.DescribeGroup(GROUP))
    assert (described.state, described.protocol) == ("PreparingRebalance", "")
    assert [member.metadata for member in described.members] == [b"", b""]
    assert described.members[0].assignment == f"for {member_id}".encode()
    coordinator.join(member_id)
    assert coordinator.ask(group_commands.DescribeGroup(GROUP)).state == "CompletingRebalance"


def test_an_unknown_group_cannot_be_described() -> None:
    answer = Coordinator().ask(group_commands.DescribeGroup(GROUP))
    assert error_of(answer) is Error.GROUP_ID_NOT_FOUND
    assert answer.message == f"Group {GROUP} not found."


def test_groups_are_listed_by_state_and_type() -> None:
    coordinator = Coordinator()
    coordinator.stable()
    coordinator.commit(1, group_id="simple")
    readers = ListedGroup(GROUP, "consumer", "Stable", "classic")
    simple = ListedGroup("simple", "", "Empty", "classic")

    def listed(*states: str, types: frozenset[str] = frozenset()) -> object:
        return coordinator.ask(group_commands.ListGroups(frozenset(states), types))

    assert listed() == (readers, simple)
    assert listed("stable") == (readers,)
    assert listed("empty", "dead") == (simple,)
    assert listed("nonsense") == ()
    assert listed(types=frozenset({"classic"})) == (readers, simple)
    assert listed(types=frozenset({"consumer"})) == ()
