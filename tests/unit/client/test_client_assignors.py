"""Assignors: the known examples, evenness and stickiness for any group, and Java's bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.consumer.assignment.assignor_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from moldau.client.consumer.assignment.partition_assignors import (
    Assignment,
    Assignor,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    Subscription,
    assignors_of,
    common_protocol,
)
from moldau.client.consumer.assignment.sticky_assignors import (
    CooperativeStickyAssignor,
    StickyAssignor,
)
from moldau.model.names import TopicPartition
from moldau.wire.primitives import DecodeError

T0_T1 = {"t0": 3, "t1": 3}
UNEQUAL = {"t0": 1, "t1": 2, "t2": 3}


def members(**topics: str) -> dict[str, Subscription]:
    """`c0="t0 t1"` is a member who subscribes to two topics."""
    return {name: Subscription(tuple(text.split())) for name, text in topics.items()}


def dealt(assignor: Assignor, counts: dict[str, int], **topics: str) -> dict[str, str]:
    return told(assignor.assign(counts, members(**topics)))


def told(shares: dict[str, Assignment]) -> dict[str, str]:
    return {
        member: " ".join(f"{tp.topic}p{tp.partition}" for tp in sorted(share.partitions))
        for member, share in shares.items()
    }


def parts(text: str) -> tuple[TopicPartition, ...]:
    pairs = (word.split("p") for word in text.split())
    return tuple(TopicPartition(topic, int(partition)) for topic, partition in pairs)


def test_range_gives_the_first_members_of_each_topic_one_more() -> None:
    assert dealt(RangeAssignor(), T0_T1, c0="t0 t1", c1="t0 t1") == {
        "c0": "t0p0 t0p1 t1p0 t1p1",
        "c1": "t0p2 t1p2",
    }


def test_range_leaves_members_idle_where_there_are_more_than_partitions() -> None:
    assert dealt(RangeAssignor(), {"t0": 2}, c0="t0", c1="t0", c2="t0") == {
        "c0": "t0p0",
        "c1": "t0p1",
        "c2": "",
    }


def test_round_robin_deals_all_partitions_in_turn() -> None:
    assert dealt(RoundRobinAssignor(), T0_T1, c0="t0 t1", c1="t0 t1") == {
        "c0": "t0p0 t0p2 t1p1",
        "c1": "t0p1 t1p0 t1p2",
    }


def test_round_robin_is_uneven_where_subscriptions_differ() -> None:
    assert dealt(RoundRobinAssignor(), UNEQUAL, c0="t0", c1="t0 t1", c2="t0 t1 t2") == {
        "c0": "t0p0",
        "c1": "t1p0",
        "c2": "t1p1 t2p0 t2p1 t2p2",
    }


def test_sticky_finds_the_best_share_that_round_robin_misses() -> None:
    assert dealt(StickyAssignor(), UNEQUAL, c0="t0", c1="t0 t1", c2="t0 t1 t2") == {
        "c0": "t0p0",
        "c1": "t1p0 t1p1",
        "c2": "t2p0 t2p1 t2p2",
    }


def test_static_members_are_ordered_by_their_instance_id() -> None:
    group = {
        "a": Subscription(("t0",)),
        "z": Subscription(("t0",), group_instance_id="i2"),
        "y": Subscription(("t0",), group_instance_id="i3"),
    }
    shares = RangeAssignor().assign({"t0": 3}, group)
    assert told(shares) == {"z": "t0p0", "y": "t0p1", "a": "t0p2"}


def test_topics_that_do_not_exist_are_left_out() -> None:
    for assignor in assignors_of(["range", "roundrobin", "sticky", "cooperative-sticky"]):
        assert dealt(assignor, {"t0": 1}, c0="t0 missing") == {"c0": "t0p0"}


def rejoined(owned: dict[str, tuple[str, int]], topics: str = "t0") -> dict[str, Subscription]:
    """Members who tell what they had, as the sticky assignor of each would."""
    group = {}
    for member, (text, generation) in owned.items():
        assignor = StickyAssignor()
        assignor.on_assignment(Assignment(parts(text)), generation)
        names = tuple(topics.split())
        group[member] = Subscription(names, user_data=assignor.user_data(names))
    return group


def test_sticky_moves_only_the_partitions_of_a_member_that_is_gone() -> None:
    group = rejoined({"c0": ("t0p0 t0p3", 1), "c2": ("t0p2 t0p5", 1)})
    assert told(StickyAssignor().assign({"t0": 6}, group)) == {
        "c0": "t0p0 t0p1 t0p3",
        "c2": "t0p2 t0p4 t0p5",
    }


def test_sticky_gives_a_new_member_its_share_and_leaves_the_rest_in_place() -> None:
    group = rejoined({"c0": ("t0p0 t0p1 t0p2", 1), "c1": ("t0p3 t0p4 t0p5", 1)})
    group["c2"] = Subscription(("t0",))
    assert told(StickyAssignor().assign({"t0": 6}, group)) == {
        "c0": "t0p0 t0p1",
        "c1": "t0p3 t0p4",
        "c2": "t0p2 t0p5",
    }


def test_a_claim_of_an_old_generation_loses_to_a_newer_one() -> None:
    group = rejoined({"c0": ("t0p0 t0p1", 1), "c1": ("t0p0 t0p1", 2)}, topics="t0 t1")
    shares = StickyAssignor().assign({"t0": 2, "t1": 2}, group)
    assert told(shares) == {"c0": "t1p0 t1p1", "c1": "t0p0 t0p1"}


def test_sticky_user_data_has_the_layout_of_java() -> None:
    assignor = StickyAssignor()
    assert assignor.user_data(["t0"]) is None
    assignor.on_assignment(Assignment(parts("t0p1 t0p0")), 7)
    assert assignor.user_data(["t0"]) == (
        b"\0\0\0\1" + b"\0\2t0" + b"\0\0\0\2" + b"\0\0\0\0" + b"\0\0\0\1" + b"\0\0\0\7"
    )


def test_sticky_user_data_of_the_first_version_is_understood() -> None:
    user_data = b"\0\0\0\1\0\2t0\0\0\0\1\0\0\0\1"
    group = {
        "c0": Subscription(("t0",)),
        "c1": Subscription(("t0",), user_data=b"garbage"),
        "c2": Subscription(("t0",), user_data=user_data),
    }
    assert told(StickyAssignor().assign({"t0": 3}, group))["c2"] == "t0p1"


def cooperating(**owned: str) -> dict[str, Subscription]:
    return {
        member: Subscription(("t0",), owned_partitions=parts(text), generation_id=1)
        for member, text in owned.items()
    }


def test_cooperative_sticky_gives_nothing_away_before_its_owner_lets_go() -> None:
    assignor = CooperativeStickyAssignor()
    first = assignor.assign({"t0": 4}, cooperating(c0="t0p0 t0p1 t0p2 t0p3", c1=""))
    assert told(first) == {"c0": "t0p0 t0p1", "c1": ""}
    second = assignor.assign({"t0": 4}, cooperating(c0="t0p0 t0p1", c1=""))
    assert told(second) == {"c0": "t0p0 t0p1", "c1": "t0p2 t0p3"}


def test_cooperative_sticky_reads_an_old_members_generation_from_its_user_data() -> None:
    both = parts("t0p0 t0p1")
    group = {
        "c0": Subscription(("t0",), b"\0\0\0\5", both),
        "c1": Subscription(("t0",), b"\0\0\0\4", both),
    }
    shares = CooperativeStickyAssignor().assign({"t0": 1}, group)
    assert told(shares) == {"c0": "t0p0", "c1": ""}


def test_a_group_is_cooperative_only_if_every_assignor_is() -> None:
    both = assignors_of(["range", "cooperative-sticky"])
    assert common_protocol(both) is RebalanceProtocol.EAGER
    assert common_protocol(both[1:]) is RebalanceProtocol.COOPERATIVE


def test_assignors_are_named_shortly_or_as_in_java_or_given() -> None:
    given = assignors_of(
        [
            "org.apache.kafka.clients.consumer.RangeAssignor",
            "RoundRobinAssignor",
            StickyAssignor,
            CooperativeStickyAssignor(),
        ]
    )
    names = [assignor.name for assignor in given]
    assert names == ["range", "roundrobin", "sticky", "cooperative-sticky"]
    path = "moldau.client.consumer.assignment.partition_assignors.RoundRobinAssignor"
    assert [assignor.name for assignor in assignors_of([path])] == ["roundrobin"]


def test_a_dotted_path_to_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="lacks a method"):
        assignors_of(["string.Formatter"])


@pytest.mark.parametrize(
    ("strategies", "words"),
    [(["rang"], "knows no assignor 'rang'"), (["range", "range"], "distinct"), ([], "distinct")],
)
def test_a_wrong_strategy_is_refused_in_one_sentence(strategies: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        assignors_of(strategies)


def test_an_object_that_is_no_assignor_is_refused() -> None:
    with pytest.raises(TypeError, match="lacks a method"):
        assignors_of([object()])


TOPICS = ["t0", "t1", "t2"]


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, Subscription]]:
    counts = {topic: draw(st.integers(0, 6)) for topic in TOPICS}
    alike = draw(st.booleans())
    topics = st.lists(st.sampled_from(TOPICS), min_size=1, unique=True)
    same = draw(topics)
    everything = [TopicPartition(t, p) for t in TOPICS for p in range(7)]
    group = {}
    for index in range(draw(st.integers(1, 5))):
        owned = draw(st.lists(st.sampled_from(everything), unique=True, max_size=8))
        group[f"c{index}"] = Subscription(
            tuple(same if alike else draw(topics)),
            owned_partitions=tuple(owned),
            generation_id=draw(st.integers(0, 2)),
        )
    return counts, group


@given(groups())
def test_every_assignor_gives_each_partition_to_one_subscriber(
    case: tuple[dict[str, int], dict[str, Subscription]],
) -> None:
    counts, group = case
    for assignor in assignors_of(["range", "roundrobin", "sticky"]):
        shares = assignor.assign(counts, group)
        assert shares.keys() == group.keys()
        dealt_out = [tp for share in shares.values() for tp in share.partitions]
        wanted = {t for row in group.values() for t in row.topics}
        expected = {TopicPartition(t, p) for t in wanted for p in range(counts[t])}
        assert sorted(dealt_out) == sorted(expected)
        for member, share in shares.items():
            assert {tp.topic for tp in share.partitions} <= set(group[member].topics)


@given(groups())
def test_cooperative_rounds_settle_evenly_and_never_share_a_partition(
    case: tuple[dict[str, int], dict[str, Subscription]],
) -> None:
    counts, group = case
    assignor = CooperativeStickyAssignor()
    for generation in range(3, 7):
        shares = assignor.assign(counts, group)
        for member, share in shares.items():
            others = [set(row.owned_partitions) for m, row in group.items() if m != member]
            mine = set(group[member].owned_partitions)
            for tp in set(share.partitions) - mine:
                # A new partition is one that nobody still holds and must give up.
                assert not any(tp in theirs for theirs in others) or generation == 3
        group = {
            member: Subscription(
                row.topics, owned_partitions=shares[member].partitions, generation_id=generation
            )
            for member, row in group.items()
        }
    settled = assignor.assign(counts, group)
    assert told(settled) == told(assignor.assign(counts, group))
    loads = {member: len(share.partitions) for member, share in settled.items()}
    for member, share in settled.items():
        for tp in share.partitions:
            for other, row in group.items():
                if tp.topic in row.topics:
                    assert loads[member] <= loads[other] + 1


def test_a_subscription_survives_its_bytes() -> None:
    data = encode_subscription(["b", "a"], b"x", parts("t0p1 t0p0"), 4, "rack")
    assert data[:2] == b"\0\3"
    assert decode_subscription(data, "i") == Subscription(
        ("a", "b"), b"x", parts("t0p0 t0p1"), 4, "rack", "i"
    )


def test_an_assignment_survives_its_bytes_and_none_is_empty() -> None:
    share = Assignment(parts("t0p0 t0p1 t1p0"), b"x")
    assert decode_assignment(encode_assignment(share)) == share
    assert decode_assignment(b"") == Assignment(())


def test_bytes_of_a_newer_version_are_read_as_far_as_they_are_known() -> None:
    data = b"\0\x09" + encode_assignment(Assignment(parts("t0p0")))[2:] + b"more"
    assert decode_assignment(data).partitions == parts("t0p0")


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff", b"\0\3\0\0", b"\0\3\x7f\xff\xff\xff"])
def test_broken_bytes_of_other_members_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_subscription(data)
