"""Elections that somebody asks for: who leads then, and what Kafka refuses."""

from __future__ import annotations

import pytest

from moldau.controller.controller_facts import BrokerRegistered, TopicCreated
from moldau.controller.controller_state import ControllerState
from moldau.controller.rules.changed_partitions import ChangedPartitions
from moldau.controller.rules.leader_elections import Election, elect, preferred, unclean
from moldau.model.cluster import NO_LEADER, BrokerNode, ClusterImage, PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition

ALIVE = (0, 1, 2)


def error_of(election: Election, partition: PartitionImage) -> Error:
    with pytest.raises(ApiError) as caught:
        (preferred if election is Election.PREFERRED else unclean)(partition, ALIVE)
    return caught.value.error


def test_the_first_replica_gets_its_partition_back_if_it_is_in_sync() -> None:
    after = preferred(PartitionImage(1, 4, (0, 1), (1, 0)), ALIVE)
    assert after == PartitionImage(0, 5, (0, 1), (1, 0))


@pytest.mark.parametrize(
    ("partition", "error"),
    [
        (PartitionImage(0, 4, (0, 1), (0,)), Error.ELECTION_NOT_NEEDED),
        (PartitionImage(1, 4, (0, 1), (1,)), Error.PREFERRED_LEADER_NOT_AVAILABLE),
        (PartitionImage(1, 4, (9, 1), (9, 1)), Error.PREFERRED_LEADER_NOT_AVAILABLE),
    ],
)
def test_a_preferred_election_that_cannot_be_says_why(
    partition: PartitionImage, error: Error
) -> None:
    assert error_of(Election.PREFERRED, partition) is error


def test_an_unclean_election_prefers_a_replica_that_is_in_sync() -> None:
    after = unclean(PartitionImage(NO_LEADER, 4, (9, 2, 1), (9, 1)), ALIVE)
    assert after == PartitionImage(1, 5, (9, 2, 1), (9, 1))


def test_an_unclean_election_leaves_only_the_new_leader_in_sync() -> None:
    after = unclean(PartitionImage(NO_LEADER, 4, (9, 2, 1), (9,)), ALIVE)
    assert after == PartitionImage(2, 5, (9, 2, 1), (2,))


@pytest.mark.parametrize(
    ("partition", "error"),
    [
        (PartitionImage(1, 4, (0, 1), (1,)), Error.ELECTION_NOT_NEEDED),
        (PartitionImage(NO_LEADER, 4, (8, 9), (9,)), Error.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
def test_an_unclean_election_that_cannot_be_says_why(
    partition: PartitionImage, error: Error
) -> None:
    assert error_of(Election.UNCLEAN, partition) is error


def test_only_the_state_of_the_partition_is_written() -> None:
    state = ControllerState(ClusterImage("c", 0))
    state.apply(BrokerRegistered(BrokerNode(0, ())))
    away = PartitionImage(1, 4, (0, 1), (1, 0), 3)
    state.apply(TopicCreated("t", b"t" * 16, (away, away), {}))
    partitions = ChangedPartitions(state)
    elect(partitions, TopicPartition("t", 1), Election.PREFERRED, state.cluster.brokers)
    (fact,) = partitions.facts()
    assert (fact.changed, fact.is_reassigned) == ((1,), False)
    assert fact.all_partitions == (away, PartitionImage(0, 5, (0, 1), (1, 0), 4))
    for asked, words in (("t", "No such partition as t-2"), ("no", "No such topic as no")):
        with pytest.raises(ApiError, match=words):
            elect(partitions, TopicPartition(asked, 2), Election.PREFERRED, (0,))
