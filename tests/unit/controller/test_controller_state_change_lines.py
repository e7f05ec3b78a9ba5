"""What state-change.log says of a step of the controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.controller.broker_requests.state_change_lines import liveness_changes, state_changes
from moldau.controller.cluster_facts import Liveness, LivenessChanged
from moldau.controller.controller_facts import (
    PartitionsAdded,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
)
from moldau.model.cluster import PartitionImage, TopicImage

ID = b"t" * 16
LED = PartitionImage(1, 0, (1, 2), (1, 2))


def lines(
    fact: object, *, before: Sequence[PartitionImage] = (), with_details: bool = False
) -> list[str]:
    changes = state_changes([fact], lambda topic: before, with_details=with_details)
    return [change.kind % change.values for change in changes]


def leadership(leader: int, epoch: int, isr: str) -> str:
    return (
        f"LeaderAndIsr(leader={leader}, leaderEpoch={epoch}, isr=List({isr}), "
        "leaderRecoveryState=RECOVERED, partitionEpoch=0)"
    )


def test_a_new_partition_becomes_new_and_then_online() -> None:
    new = "Changed partition t-0 state from NonExistentPartition to NewPartition"
    expected = [
        f"{new} with assigned replicas 1,2",
        "Changed partition t-0 from NewPartition to OnlinePartition with state "
        + leadership(1, 0, "1, 2"),
    ]
    assert lines(TopicCreated("t", ID, (LED,), {})) == expected
    grown = lines(PartitionsAdded("t", ID, (LED, LED), 1), before=(LED,))
    assert grown == [line.replace("t-0", "t-1") for line in expected]


def test_the_replicas_of_a_new_partition_are_details() -> None:
    told = lines(TopicCreated("t", ID, (LED,), {}), with_details=True)
    steps = [line for line in told if "replica " in line]
    assert steps == [
        "Changed state of replica 1 for partition t-0 from NonExistentReplica to NewReplica",
        "Changed state of replica 2 for partition t-0 from NonExistentReplica to NewReplica",
        "Changed state of replica 1 for partition t-0 from NewReplica to OnlineReplica",
        "Changed state of replica 2 for partition t-0 from NewReplica to OnlineReplica",
    ]


def test_another_leader_is_told_and_the_loss_of_the_last_one() -> None:
    moved = PartitionImage(2, 1, (1, 2), (2,))
    gone = PartitionImage(-1, 2, (1, 2), (2,))
    back = PartitionImage(2, 3, (1, 2), (2,))
    steps = [
        lines(PartitionsChanged("t", ID, (after,), (0,), False), before=(before,))
        for before, after in ((LED, moved), (moved, gone), (gone, back))
    ]
    assert steps == [
        [
            "Changed partition t-0 from OnlinePartition to OnlinePartition with state "
            + leadership(2, 1, "2")
        ],
        ["Changed partition t-0 state from OnlinePartition to OfflinePartition"],
        [
            "Changed partition t-0 from OfflinePartition to OnlinePartition with state "
            + leadership(2, 3, "2")
        ],
    ]


def test_a_follower_that_is_lost_is_told_and_one_that_lags_is_not() -> None:
    lost = PartitionImage(1, 1, (1, 2), (1,))
    (line,) = lines(PartitionsChanged("t", ID, (lost,), (0,), False), before=(LED,))
    described = leadership(1, 1, "1")
    assert line == (
        f"Partition t-0 state changed to {described} after removing replica 2 from the ISR as "
        "part of transition to OfflineReplica"
    )
    lags = PartitionImage(1, 0, (1, 2), (1,))
    assert lines(PartitionsChanged("t", ID, (lags,), (0,), False), before=(LED,)) == []


def test_a_deleted_topic_is_a_detail() -> None:
    fact = TopicDeleted("t", ID, 1)
    assert lines(fact, before=(LED,)) == []
    told = lines(fact, before=(LED,), with_details=True)
    assert told[-1] == "Changed partition t-0 state from OfflinePartition to NonExistentPartition"
    assert sum("to ReplicaDeletionSuccessful" in line for line in told) == 2


def test_the_replicas_of_a_broker_go_offline_and_come_back_with_it() -> None:
    topics: Mapping[str, TopicImage] = {"t": TopicImage("t", ID, (LED, LED))}
    fact = LivenessChanged(Liveness(), joined=(1,), gone=(2,))
    told = [change.kind % change.values for change in liveness_changes(fact, topics)]
    assert told == [
        "Changed state of replica 2 for partition t-0 from OnlineReplica to OfflineReplica",
        "Changed state of replica 2 for partition t-1 from OnlineReplica to OfflineReplica",
        "Changed state of replica 1 for partition t-0 from OfflineReplica to OnlineReplica",
        "Changed state of replica 1 for partition t-1 from OfflineReplica to OnlineReplica",
    ]
