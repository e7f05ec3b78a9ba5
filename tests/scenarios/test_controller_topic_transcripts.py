"""The controller of several brokers as transcripts: topics, deletions, moves, wished elections."""

from __future__ import annotations

import pytest

from moldau.controller import cluster_commands as commands
from moldau.controller.cluster_facts import (
    AdminNodeRemoved,
    DeletionsDropped,
    DeletionsQueued,
    PreferredElected,
)
from moldau.controller.controller_facts import (
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
)
from moldau.controller.controller_machine import (
    AlterPartitionReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
)
from moldau.controller.rules.leader_elections import Election
from moldau.controller.rules.reassignment_rules import Move
from moldau.controller.rules.replica_placement import Start
from moldau.controller.rules.topic_rules import Draw, NewPartitions, NewTopic, TopicDefaults
from moldau.engine.machine import Volatile
from moldau.metadata import paths
from moldau.metadata.paths import PartitionState
from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.wire.messages.replication import LeaderAndIsrRequest
from tests.support.controlled_cluster import (
    T0,
    alter,
    cluster,
    errors,
    live,
    partition,
    state_of,
    told,
    with_topic,
)

# Topics


def create(name: str, partitions: int, factor: int) -> CreateTopics:
    draw = Draw(name.encode() * 16, Start())
    return CreateTopics((NewTopic(name, partitions, factor),), (draw,), TopicDefaults())


def test_a_new_topic_is_told_to_its_replicas_first_and_then_to_all() -> None:
    story = cluster(1, 2, 3).when(create("t", 1, 2))
    assert told(story) == {
        1: ["lead t-0 1 new", "brokers 1,2,3", "meta t-0 1"],
        2: ["lead t-0 1 new", "brokers 1,2,3", "meta t-0 1"],
        3: ["brokers 1,2,3", "meta t-0 1"],
    }


def test_new_partitions_are_told_and_the_old_ones_left_alone() -> None:
    story = with_topic(1, 2, 3).when(CreatePartitions((NewPartitions("t", 2),)))
    assert told(story)[1] == ["lead t-1 2 new", "brokers 1,2,3", "meta t-1 2"]


def test_a_topic_grows_while_one_of_its_brokers_is_away() -> None:
    story = with_topic(1, 2, 3, replicas=(1, 2, 3)).when(commands.ChangeBrokers(live(1, 3)))
    story.when(CreatePartitions((NewPartitions("t", 4),)))
    grown = [partition(story, number) for number in (1, 2, 3)]
    assert [each.replicas for each in grown] == [(1, 3, 2), (3, 1, 2), (1, 3, 2)]
    assert [each.isr for each in grown] == [(1, 3), (3, 1), (1, 3)]
    assert [each.leader for each in grown] == [1, 3, 1]


def test_a_topic_with_more_replicas_than_known_brokers_does_not_grow() -> None:
    story = with_topic(1, 2, 3, replicas=(1, 2, 3)).when(commands.ChangeBrokers(live()))
    story.when(CreatePartitions((NewPartitions("t", 2),)))
    (refusal,) = story.answer
    assert refusal.error is Error.INVALID_REPLICATION_FACTOR


def test_a_topic_that_a_tool_wrote_into_the_tree_gets_leaders_and_an_id() -> None:
    found = commands.FoundTopic("t", b"t" * 16, ((2, 1), (3, 1)), {"retention.ms": "5"}, True)
    story = cluster(1, 2).when(commands.AddFoundTopics((found,)))
    assert [partition(story, n).leader for n in (0, 1)] == [2, 1]
    changed = next(fact for fact in story.facts if isinstance(fact, PartitionsChanged))
    assert changed.is_reassigned, "the id has to be written"
    assert state_of(story).cluster.topic_configs == {"t": {"retention.ms": "5"}}
    assert told(story)[1][0] == "lead t-0 2 new"
    assert story.when(commands.AddFoundTopics((found,))).facts == ()


def test_partitions_that_a_tool_wrote_into_the_tree_get_leaders() -> None:
    story = with_topic(1, 2, 3).when(commands.GrowFoundTopic("t", ((1, 2, 3), (3, 2))))
    after = partition(story, 1)
    assert (after.leader, after.isr, after.partition_epoch) == (3, (3, 2), 0)
    assert told(story)[3] == ["lead t-1 3 new", "brokers 1,2,3", "meta t-1 3"]
    assert story.when(commands.GrowFoundTopic("t", ((1, 2, 3),))).facts == ()


def test_a_topic_whose_nodes_somebody_removed_is_not_served_and_its_logs_stay() -> None:
    story = with_topic(1, 2, 3).when(commands.ForgetTopics(("t", "nope")))
    assert state_of(story).cluster.topics == {}
    assert told(story)[1] == ["brokers 1,2,3", "meta t-0 -2", "stop t-0 -2"]
    assert all(isinstance(fact, Volatile) for fact in story.facts), "the tree has nothing left"


def test_what_changes_while_the_tree_is_read_is_not_compared_with_what_was_read() -> None:
    story = with_topic(1, 2, 3).when(commands.BeginReading())
    assert story.answer == commands.Known(frozenset({"t"}), frozenset())
    # The topic is deleted and made anew; what was read of it may be from any time between.
    story.when(DeleteTopics(("t",)))
    for broker in (1, 2, 3):
        story.when(commands.ConfirmDeleted(broker, answers()))
    anew = TopicCreated("t", b"u" * 16, (PartitionImage(1, 0, (1,), (1,), 0),), {})
    story.given(anew)
    for command in (
        commands.ForgetTopics(("t",)),
        commands.QueueFoundDeletions(("t",)),
        commands.GrowFoundTopic("t", ((1,), (2,), (3,))),
        commands.SeeStates(((T0, PartitionState(2, 9, (2,), 6), 12),)),
    ):
        assert story.when(command).facts == ()
    assert story.when(commands.AddFoundTopics(())).facts == ()
    assert state_of(story).cluster.topics["t"].id == b"u" * 16
    story.when(commands.BeginReading()).when(commands.ForgetTopics(("t",)))
    assert state_of(story).cluster.topics == {}, "this was read when nothing was under way"


# Deletion


def answers(error: Error = Error.NONE) -> dict[TopicPartition, Error]:
    return {T0: error}


@pytest.mark.parametrize("election", Election)
def test_a_topic_that_is_going_gets_no_new_leader(election: Election) -> None:
    story = with_topic(1, 2, 3).when(commands.ChangeBrokers(live(2, 3)))
    story.when(commands.ChangeBrokers(live(1, 2, 3))).when(DeleteTopics(("t",)))
    story.when(ElectLeaders(election, (T0,)))
    assert story.facts == ()
    (refusal,) = story.answer
    assert refusal.error is Error.INVALID_TOPIC_EXCEPTION


def test_a_topic_is_gone_when_every_replica_has_answered() -> None:
    story = with_topic(1, 2, 3).when(DeleteTopics(("t",)))
    assert story.facts == (DeletionsQueued(("t",)),)
    assert told(story)[2] == ["brokers 1,2,3", "meta t-0 -2", "delete t-0 -2"]
    story.when(commands.ConfirmDeleted(1, answers())).when(commands.ConfirmDeleted(2, answers()))
    assert "t" in state_of(story).cluster.topics
    story.when(commands.ConfirmDeleted(3, answers()))
    deleted: list[object] = [fact for fact in story.decision.facts if type(fact) is TopicDeleted]
    assert deleted == [TopicDeleted("t", b"t" * 16, 1, True)]
    assert state_of(story).cluster.topics == {}
    assert state_of(story).deleting == {}


def test_a_replica_on_a_broker_that_is_down_holds_the_deletion_up_until_it_is_back() -> None:
    story = with_topic(1, 2, 3).when(commands.ChangeBrokers(live(1, 2))).when(DeleteTopics(("t",)))
    assert 3 not in told(story)
    for broker in (1, 2):
        story.when(commands.ConfirmDeleted(broker, answers()))
    assert "t" in state_of(story).cluster.topics
    story.when(commands.ChangeBrokers(live(1, 2, 3, epochs={3: 300})))
    assert told(story)[3] == ["brokers 1,2,3", "delete t-0 -2"]
    story.when(commands.ConfirmDeleted(3, answers()))
    assert state_of(story).cluster.topics == {}


def test_a_replica_that_could_not_be_deleted_is_asked_again_when_its_broker_is_back() -> None:
    story = with_topic(1, 2, replicas=(1,)).when(DeleteTopics(("t",)))
    story.when(commands.ConfirmDeleted(1, answers(Error.KAFKA_STORAGE_ERROR)))
    assert story.facts == ()
    story.when(commands.ChangeBrokers(live(1, 2, epochs={1: 300})))
    assert told(story)[1] == ["brokers 1,2", "delete t-0 -2"]


def test_a_topic_that_is_going_can_neither_grow_nor_move_nor_be_made_anew() -> None:
    story = with_topic(1, 2, 3).when(DeleteTopics(("t",)))
    story.when(CreatePartitions((NewPartitions("t", 2),)))
    assert errors(story.answer) == [Error.INVALID_TOPIC_EXCEPTION]
    story.when(AlterPartitionReassignments((Move("t", 0, (1,)),)))
    assert errors(story.answer) == [Error.UNKNOWN_TOPIC_OR_PARTITION]
    assert errors(story.when(create("t", 1, 1)).answer) == [Error.TOPIC_ALREADY_EXISTS]
    story.when(DeleteTopics(("t",)))
    assert errors(story.answer) == [None]
    assert story.facts == (), "it is already queued"


def test_deletions_asked_for_in_the_tree_are_done_or_crossed_out() -> None:
    story = with_topic(1, 2, 3).when(commands.QueueFoundDeletions(("t", "nope")))
    assert story.facts == (Volatile(DeletionsQueued(("t",))), DeletionsDropped(("nope",)))
    assert story.when(commands.QueueFoundDeletions(("t",))).facts == ()
    story = with_topic(1, 2, 3).when(commands.QueueFoundDeletions(("t",), is_enabled=False))
    assert story.facts == (DeletionsDropped(("t",)),)
    story.when(DeleteTopics(("t",), is_enabled=False))
    assert errors(story.answer) == [Error.TOPIC_DELETION_DISABLED]


# Moves


def test_a_broker_that_was_away_during_a_move_is_told_what_it_no_longer_has() -> None:
    story = with_topic(1, 2, 3, replicas=(1, 2))
    story.when(commands.ChangeBrokers(live(2, 3)))
    story.when(AlterPartitionReassignments((Move("t", 0, (2, 3)),)))
    now = partition(story)
    isr = alter(2, 3, broker=2, leader_epoch=now.leader_epoch, partition_epoch=now.partition_epoch)
    story.when(isr).when(story.decision.timers[0].command)
    assert partition(story).replicas == (2, 3)
    epoch = partition(story).leader_epoch
    for _ in range(2):
        # Also a second time, while it has not answered.
        story.when(commands.ChangeBrokers(live(1, 2, 3)))
        assert told(story)[1][-1] == f"delete t-0 {epoch}"
        (roles,) = (r for b, r in story.decision.sends if b == 1 and type(r) is LeaderAndIsrRequest)
        assert (roles.type, roles.topic_states) == (2, []), "it has nothing, and is told so"
        story.when(commands.ConfirmDeleted(1, answers(Error.KAFKA_STORAGE_ERROR)))
        story.when(commands.ChangeBrokers(live(2, 3)))
    story.when(commands.ChangeBrokers(live(1, 2, 3))).when(commands.ConfirmDeleted(1, answers()))
    assert state_of(story).leftovers == {}
    story.when(commands.TellAgain(1))
    assert "delete" not in " ".join(told(story)[1])


def test_a_replica_that_comes_back_to_a_broker_is_not_deleted_there() -> None:
    story = with_topic(1, 2, 3, replicas=(1, 2))
    story.when(commands.ChangeBrokers(live(1, 2)))
    story.when(AlterPartitionReassignments((Move("t", 0, (1,)),)))
    story.when(AlterPartitionReassignments((Move("t", 0, (1, 2)),)))
    assert state_of(story).leftovers == {}


def test_a_move_adds_replicas_waits_for_them_and_then_removes_the_old_ones() -> None:
    story = with_topic(1, 2, 3, 4, replicas=(1, 2))
    story.when(AlterPartitionReassignments((Move("t", 0, (3, 4)),)))
    moving = partition(story)
    assert (moving.replicas, moving.adding, moving.removing) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert (moving.leader, moving.leader_epoch) == (1, 6)
    assert told(story)[3] == ["lead t-0 1 new", "brokers 1,2,3,4", "meta t-0 1"]
    assert told(story)[1][0] == "lead t-0 1"
    story.when(alter(1, 2, 3, leader_epoch=6, partition_epoch=10))
    assert not story.decision.timers, "one of them is still missing"
    story.when(alter(1, 2, 3, 4, leader_epoch=6, partition_epoch=11))
    story.when(story.decision.timers[0].command)
    after = partition(story)
    assert (after.replicas, after.isr, after.leader) == ((3, 4), (3, 4), 3)
    assert (after.leader_epoch, after.partition_epoch) == (7, 13)
    assert told(story)[1] == ["brokers 1,2,3,4", "meta t-0 3", "delete t-0 7"]
    assert told(story)[3][0] == "lead t-0 3"


def test_a_move_is_cancelled_and_the_new_replicas_go() -> None:
    story = with_topic(1, 2, 3, replicas=(1, 2))
    story.when(AlterPartitionReassignments((Move("t", 0, (3, 2)),)))
    story.when(AlterPartitionReassignments((Move("t", 0, None),)))
    after = partition(story)
    assert (after.replicas, after.adding, after.leader, after.leader_epoch) == ((2, 1), (), 1, 7)
    assert told(story)[3] == ["brokers 1,2,3", "meta t-0 1", "delete t-0 7"]


def test_moves_asked_for_in_the_tree_are_followed_until_done() -> None:
    story = with_topic(1, 2, 3, replicas=(1,))
    story.when(commands.FollowMoves((Move("t", 0, (2,)), Move("nope", 0, (2,)))))
    assert partition(story).adding == (2,)
    assert not any(isinstance(fact, AdminNodeRemoved) for fact in story.facts)
    story.when(alter(1, 2, leader_epoch=6, partition_epoch=10))
    story.when(story.decision.timers[0].command)
    assert story.facts[-1] == AdminNodeRemoved(paths.REASSIGN_PARTITIONS)
    assert partition(story).replicas == (2,)


def test_moves_in_the_tree_that_ask_for_nothing_possible_are_crossed_out() -> None:
    story = with_topic(1, 2, 3).when(commands.FollowMoves((Move("nope", 0, (2,)),)))
    assert story.facts == (AdminNodeRemoved(paths.REASSIGN_PARTITIONS),)


# Elections somebody asks for


def test_preferred_leaders_come_back_when_a_tool_asks() -> None:
    story = with_topic(1, 2, 3, leader=2)
    story.when(ElectLeaders(Election.PREFERRED, (T0,)))
    assert errors(story.answer) == [None]
    assert (partition(story).leader, partition(story).leader_epoch) == (1, 6)
    assert Volatile(PreferredElected({T0: 1})) in story.facts, "which operators read"
    story = with_topic(1, 2, 3, leader=2).when(commands.FollowElections((T0,)))
    assert partition(story).leader == 1
    assert story.facts[-1] == AdminNodeRemoved(paths.PREFERRED_REPLICA_ELECTION)


def test_an_unclean_election_that_a_tool_asks_for_needs_no_setting() -> None:
    story = with_topic(1, 2, isr=(1,), replicas=(1, 2)).when(commands.ChangeBrokers(live(2)))
    story.when(ElectLeaders(Election.UNCLEAN, (T0,)))
    assert errors(story.answer) == [None]
    assert (partition(story).leader, partition(story).isr) == (2, (2,))


def test_leaders_are_balanced_when_too_many_of_a_broker_are_led_elsewhere() -> None:
    story = with_topic(1, 2, 3, leader=2, partitions=4)
    assert story.when(commands.RebalanceLeaders(100)).answer == 0
    assert story.when(commands.RebalanceLeaders(10)).answer == 4
    assert {partition(story, n).leader for n in range(4)} == {1}
    assert story.when(commands.RebalanceLeaders(10)).answer == 0


def test_a_preferred_replica_that_lags_or_stops_gets_nothing_back() -> None:
    lagging = with_topic(1, 2, 3, leader=2, isr=(2, 3)).when(commands.RebalanceLeaders(10))
    assert lagging.answer == 0
    stopping = with_topic(1, 2, 3).when(commands.ControlledShutdown(1, 101))
    assert partition(stopping).leader == 2
    assert stopping.when(commands.RebalanceLeaders(0)).answer == 0
