"""Moving replicas: what a move makes of a partition, and what Kafka refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.controller.controller_facts import BrokerRegistered, PartitionsChanged, TopicCreated
from moldau.controller.controller_state import ControllerState
from moldau.controller.rules.changed_partitions import ChangedPartitions
from moldau.controller.rules.reassignment_rules import (
    Move,
    cancelled,
    done_if_in_sync,
    moving,
    reassign,
)
from moldau.model.cluster import NO_LEADER, BrokerNode, ClusterImage, PartitionImage
from moldau.model.errors import ApiError, Error

ALIVE = (0, 1, 2, 3)
SETTLED = PartitionImage(0, 5, (0, 1), (0, 1))


@pytest.fixture
def state() -> ControllerState:
    made = ControllerState(ClusterImage("c", 0))
    for broker in ALIVE:
        made.apply(BrokerRegistered(BrokerNode(broker, ())))
    made.apply(TopicCreated("t", b"t" * 16, (SETTLED, SETTLED), {}))
    return made


def moved(
    state: ControllerState, *moves: Move, may_change: bool = True
) -> tuple[PartitionsChanged, ...]:
    partitions = ChangedPartitions(state)
    for move in moves:
        reassign(state, partitions, move, may_change)
    return partitions.facts()


def refused(state: ControllerState, move: Move, **options: bool) -> tuple[Error, str]:
    with pytest.raises(ApiError) as caught:
        moved(state, move, **options)
    return caught.value.error, caught.value.message


def test_a_move_keeps_the_old_replicas_until_the_new_ones_are_in_sync(
    state: ControllerState,
) -> None:
    (fact,) = moved(state, Move("t", 1, (2, 1)))
    assert fact.changed == (1,)
    assert fact.is_reassigned
    assert fact.all_partitions[0] == SETTLED
    under_way = fact.all_partitions[1]
    assert under_way == PartitionImage(0, 5, (2, 1, 0), (0, 1), 1, (2,), (0,))
    caught_up = replace(under_way, isr=(0, 1, 2))
    assert done_if_in_sync(caught_up, ALIVE) == PartitionImage(2, 6, (2, 1), (1, 2), 1)


def test_a_move_with_nothing_to_copy_is_done_at_once(state: ControllerState) -> None:
    (fact,) = moved(state, Move("t", 0, (1,)))
    assert fact.all_partitions[0] == PartitionImage(1, 6, (1,), (1,), 1)


def test_another_order_of_the_same_replicas_changes_the_preferred_leader_only(
    state: ControllerState,
) -> None:
    (fact,) = moved(state, Move("t", 0, (1, 0)))
    assert fact.all_partitions[0] == PartitionImage(0, 5, (1, 0), (0, 1), 1)


def test_a_move_to_where_the_replicas_are_changes_nothing(state: ControllerState) -> None:
    assert moved(state, Move("t", 0, (0, 1)), Move("t", 1, (0, 1))) == ()


def test_a_move_waits_while_nobody_in_sync_would_be_left() -> None:
    lagging = replace(SETTLED, isr=(0,))
    assert done_if_in_sync(moving(lagging, (1,), ALIVE), ALIVE).removing == (0,)


def test_a_move_can_be_replaced_by_another_and_by_none() -> None:
    first = moving(SETTLED, (2, 3), ALIVE)
    assert first.replicas == (2, 3, 0, 1)
    second = moving(first, (0, 3), ALIVE)
    assert (second.replicas, second.adding, second.removing) == ((0, 3, 1), (3,), (1,))
    back = cancelled(second, "t:0", ALIVE)
    assert (back.replicas, back.adding, back.removing) == ((0, 1), (), ())
    assert second.leader_epoch == SETTLED.leader_epoch + 1, "what 2 knew must count no more"
    assert back.leader_epoch == second.leader_epoch + 1, "nor what 3 knew"


def test_no_move_is_cancelled_where_only_new_replicas_are_in_sync() -> None:
    under_way = replace(moving(SETTLED, (2,), ALIVE), leader=2, isr=(2,))
    with pytest.raises(ApiError) as caught:
        cancelled(under_way, "t:0", ALIVE)
    assert caught.value.error is Error.INVALID_REPLICA_ASSIGNMENT
    assert "for t:0 because it would require an unclean leader election" in caught.value.message


def test_a_partition_whose_replicas_are_all_down_has_no_leader_after_a_move() -> None:
    assert done_if_in_sync(moving(SETTLED, (1,), ALIVE), ()).leader == NO_LEADER


def test_the_replication_factor_changes_only_where_that_is_allowed(state: ControllerState) -> None:
    error, message = refused(state, Move("t", 0, (2,)), may_change=False)
    assert (error, message) == (
        Error.INVALID_REPLICATION_FACTOR,
        "The replication factor is changed from 2 to 1",
    )
    assert moved(state, Move("t", 0, (2, 3)), may_change=False)


MISSING = "The manual partition assignment includes broker 7, but no such broker is registered."


@pytest.mark.parametrize(
    ("move", "error", "message"),
    [
        (
            Move("no", 0, (0,)),
            Error.UNKNOWN_TOPIC_OR_PARTITION,
            "Unable to find a topic named no.",
        ),
        (Move("t", 9, (0,)), Error.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:9."),
        (Move("t", -1, None), Error.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:-1."),
        (Move("t", 0, (0, 7)), Error.INVALID_REPLICA_ASSIGNMENT, MISSING),
        (
            Move("t", 0, ()),
            Error.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            Move("t", 0, (0, 0)),
            Error.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 0 more than once.",
        ),
        (Move("t", 0, None), Error.NO_REASSIGNMENT_IN_PROGRESS, ""),
    ],
)
def test_an_impossible_move_is_refused_as_kafka_does(
    state: ControllerState, move: Move, error: Error, message: str
) -> None:
    assert refused(state, move) == (error, message)


def test_a_partition_named_twice_in_a_request_is_written_once(state: ControllerState) -> None:
    (fact,) = moved(state, Move("t", 0, (1, 0)), Move("t", 0, (1, 2)))
    assert fact.changed == (0,)
    assert fact.all_partitions[0].partition_epoch == 1
    assert fact.all_partitions[0].replicas == (1, 2, 0)


def test_a_replaced_move_keeps_the_only_replica_in_sync_until_the_new_ones_have_its_records() -> (
    None
):
    under_way = replace(moving(SETTLED, (2, 3), ALIVE), leader=NO_LEADER, isr=(2,))
    second = moving(under_way, (3, 1), ALIVE)
    assert set(second.replicas) == {0, 1, 2, 3}
    assert second.isr == (2,)
    assert set(second.removing) == {0, 2}
    done = done_if_in_sync(replace(second, leader=2, isr=(2, 3, 1)), ALIVE)
    assert (done.replicas, done.isr) == ((3, 1), (3, 1))
    assert done.leader == 3


def test_a_replica_that_a_replaced_move_gives_up_is_no_longer_in_sync_nor_leads() -> None:
    under_way = replace(moving(SETTLED, (2, 3), ALIVE), leader=2, isr=(0, 2))
    second = moving(under_way, (3, 1), ALIVE)
    assert 2 not in (*second.replicas, *second.isr)
    assert (second.leader, second.isr) == (0, (0,))
    assert second.leader_epoch > under_way.leader_epoch
