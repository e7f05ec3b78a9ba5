"""Replicas are spread evenly, leaders and followers alike."""

from __future__ import annotations

from collections import Counter

from moldau.controller.rules.replica_placement import Start, place, place_by_rack, start_for_growth


def test_the_example_of_kafkas_documentation() -> None:
    """Five brokers, ten partitions, three replicas, started at broker 0 with shift 0."""
    assert place([0, 1, 2, 3, 4], 10, 3, Start(0, 0)) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_one_broker_gets_everything() -> None:
    assert place([7], 3, 1, Start(12345, 678)) == [(7,), (7,), (7,)]


def test_no_broker_holds_a_partition_twice_wherever_it_starts() -> None:
    for start in range(20):
        for replicas in place([1, 5, 9, 11], 50, 3, Start(start, start * 7)):
            assert len(set(replicas)) == 3


def test_leaders_and_replicas_are_spread_evenly() -> None:
    rows = place([0, 1, 2, 3], 48, 2, Start(3, 1))
    assert set(Counter(row[0] for row in rows).values()) == {12}
    assert set(Counter(broker for row in rows for broker in row).values()) == {24}
    assert set(Counter(rows).values()) == {4}, "every pair of leader and follower as often"


def test_growth_goes_on_where_the_topic_left_off() -> None:
    brokers = [0, 1, 2]
    whole = place(brokers, 9, 2, Start(1, 1))
    grown = place(brokers, 5, 2, start_for_growth(brokers, whole[0][0]), first_partition=4)
    assert [row[0] for row in grown] == [row[0] for row in whole[4:]]


def test_growth_after_the_first_leader_is_gone_starts_at_the_next_broker() -> None:
    assert start_for_growth([1, 4, 6], 3) == Start(1, 1)
    assert start_for_growth([1, 4, 6], 9) == Start(0, 0)


def test_racks_take_turns_as_in_kafka() -> None:
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert place_by_rack(racks, 12, 3, Start()) == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
        (0, 4, 2),
        (3, 2, 0),
        (1, 0, 3),
        (5, 3, 1),
        (4, 1, 5),
        (2, 5, 4),
    ]


def test_a_rack_gets_a_second_replica_only_when_all_racks_have_one() -> None:
    racks = {0: "a", 1: "a", 2: "a", 3: "b"}
    for row in place_by_rack(racks, 20, 2, Start(2, 3)):
        assert {racks[broker] for broker in row} == {"a", "b"}
    for row in place_by_rack(racks, 20, 4, Start(1, 1)):
        assert sorted(row) == [0, 1, 2, 3]
