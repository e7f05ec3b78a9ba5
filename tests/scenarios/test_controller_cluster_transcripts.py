"""The controller of several brokers as transcripts: who lives, who leads, who is in sync."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from moldau.config.config_changes import DEFAULT_BROKER
from moldau.controller import cluster_commands as commands
from moldau.controller.cluster_facts import (
    DeletionsDropped,
    DeletionsQueued,
)
from moldau.controller.cluster_state import ClusterState, places_of
from moldau.controller.controller_facts import (
    ConfigKind,
    PartitionsChanged,
    TopicCreated,
)
from moldau.controller.controller_machine import (
    AlterPartitionReassignments,
    CreateTopics,
    DeleteTopics,
)
from moldau.controller.rules.outside_changes import without_state
from moldau.controller.rules.reassignment_rules import Move
from moldau.controller.rules.replica_placement import Start
from moldau.controller.rules.topic_rules import Draw, NewTopic, TopicDefaults
from moldau.engine.machine import Volatile
from moldau.metadata.paths import PartitionState
from moldau.model.cluster import NO_LEADER, PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from tests.support import seeds
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

# Brokers leave


def test_when_a_leader_dies_the_next_in_sync_replica_leads_and_all_are_told() -> None:
    story = with_topic(1, 2, 3).when(commands.ChangeBrokers(live(2, 3)))
    after = partition(story)
    assert (after.leader, after.leader_epoch, after.isr, after.partition_epoch) == (
        2,
        6,
        (2, 3),
        10,
    )
    assert told(story) == {
        2: ["lead t-0 2", "brokers 2,3", "meta t-0 2"],
        3: ["lead t-0 2", "brokers 2,3", "meta t-0 2"],
    }


def test_a_dead_follower_leaves_the_isr_with_a_new_epoch() -> None:
    story = with_topic(1, 2, 3).when(commands.ChangeBrokers(live(1, 3)))
    after = partition(story)
    assert (after.leader, after.leader_epoch, after.isr) == (1, 6, (1, 3))
    assert told(story)[1] == ["lead t-0 1", "brokers 1,3", "meta t-0 1"]


def test_a_dead_broker_out_of_sync_changes_nothing_but_who_lives() -> None:
    story = with_topic(1, 2, 3, isr=(1, 2)).when(commands.ChangeBrokers(live(1, 2)))
    assert [fact for fact in story.facts if not isinstance(fact, Volatile)] == []
    assert told(story) == {1: ["brokers 1,2"], 2: ["brokers 1,2"]}


def test_a_partition_goes_offline_when_nobody_in_sync_is_left() -> None:
    story = with_topic(1, 2, isr=(1,), replicas=(1, 2)).when(commands.ChangeBrokers(live(2)))
    after = partition(story)
    assert (after.leader, after.isr, after.leader_epoch) == (NO_LEADER, (1,), 6)
    assert told(story)[2] == ["lead t-0 -1", "brokers 2", "meta t-0 -1"]


def test_an_unclean_election_takes_who_lives_where_it_is_allowed() -> None:
    story = with_topic(1, 2, isr=(1,), replicas=(1, 2), unclean=True)
    after = partition(story.when(commands.ChangeBrokers(live(2))))
    assert (after.leader, after.isr) == (2, (2,))


def test_a_topics_own_setting_decides_about_unclean_elections() -> None:
    story = with_topic(1, 2, isr=(1,), replicas=(1, 2), unclean=True)
    setting = {"unclean.leader.election.enable": "false"}
    story.when(commands.SeeConfigs(ConfigKind.TOPIC, "t", setting))
    story.when(commands.ChangeBrokers(live(2)))
    assert partition(story).leader == NO_LEADER


def test_allowing_unclean_elections_elects_for_partitions_that_are_offline() -> None:
    story = with_topic(1, 2, isr=(1,), replicas=(1, 2)).when(commands.ChangeBrokers(live(2)))
    setting = {"unclean.leader.election.enable": "true"}
    story.when(commands.SeeConfigs(ConfigKind.TOPIC, "t", setting))
    (timer,) = story.decision.timers
    story.when(timer.command)
    assert partition(story).leader == 2
    story = with_topic(1, 2, isr=(1,), replicas=(1, 2)).when(commands.ChangeBrokers(live(2)))
    story.when(commands.SeeUncleanDefault(True))
    story.when(story.decision.timers[0].command)
    assert partition(story).leader == 2


def test_settings_of_brokers_are_seen_without_elections() -> None:
    story = with_topic(1, 2)
    story.when(commands.SeeConfigs(ConfigKind.BROKER, DEFAULT_BROKER, {"num.io.threads": "9"}))
    assert state_of(story).cluster.broker_configs == {DEFAULT_BROKER: {"num.io.threads": "9"}}
    assert not story.decision.timers
    assert not story.decision.sends


# Brokers come


def test_a_broker_that_joins_learns_everything_before_its_roles() -> None:
    story = with_topic(1, 2, isr=(1, 2)).when(commands.ChangeBrokers(live(1, 2, 3)))
    assert told(story) == {
        1: ["brokers 1,2,3", "brokers 1,2,3"],
        2: ["brokers 1,2,3", "brokers 1,2,3"],
        3: ["brokers 1,2,3", "meta t-0 1", "lead t-0 1"],
    }
    assert partition(story).leader_epoch == 5, "nothing has changed for the partition"


def test_a_partition_without_leader_gets_one_when_a_replica_in_sync_comes_back() -> None:
    story = with_topic(1, 2, isr=(1,), replicas=(1, 2)).when(commands.ChangeBrokers(live(2)))
    story.when(commands.ChangeBrokers(live(1, 2, epochs={1: 300})))
    after = partition(story)
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (1, (1,), 7, 11)
    assert told(story)[1] == ["brokers 1,2", "meta t-0 1", "lead t-0 1"]


def test_a_broker_that_was_gone_and_back_unseen_is_treated_as_both() -> None:
    story = with_topic(1, 2, 3).when(commands.ChangeBrokers(live(1, 2, 3, epochs={1: 300})))
    after = partition(story)
    assert (after.leader, after.isr) == (2, (2, 3)), "it may have lost what it had in memory"
    requests: list[Any] = [request for broker, request in story.decision.sends if broker == 1]
    assert {request.broker_epoch for request in requests} == {300}


def test_a_lone_replica_that_bounced_leads_again_in_a_new_epoch() -> None:
    story = with_topic(1, 2, replicas=(1,))
    story.when(commands.ChangeBrokers(live(1, 2, epochs={1: 300})))
    assert (partition(story).leader, partition(story).leader_epoch) == (1, 6)


def test_the_same_brokers_again_change_nothing() -> None:
    story = with_topic(1, 2, 3).when(commands.ChangeBrokers(live(1, 2, 3)))
    assert story.decision.facts == ()
    assert story.decision.sends == ()


# Taking over


def test_a_new_controller_tells_everybody_everything_and_elects_what_is_offline() -> None:
    story = with_topic(2, 3).when(commands.TakeOver())
    assert partition(story).leader == 2
    assert told(story)[3] == ["brokers 2,3", "meta t-0 2", "lead t-0 2"]
    requests: list[Any] = [request for _, request in story.decision.sends]
    assert {(request.controller_id, request.controller_epoch) for request in requests} == {(1, 7)}


def test_a_new_controller_chooses_leaders_for_partitions_that_never_had_one() -> None:
    story = cluster(2, 3)
    story.given(TopicCreated("t", b"t" * 16, (without_state((1, 2, 3)),), {}))
    story.when(commands.TakeOver())
    after = partition(story)
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (2, (2, 3), 0, 0)


def test_a_new_controller_goes_on_with_deletions_and_drops_those_it_cannot_do() -> None:
    story = with_topic(1, 2, 3).when(commands.TakeOver(("t", "nope")))
    assert Volatile(DeletionsQueued(("t",))) in story.facts
    assert DeletionsDropped(("nope",)) in story.facts
    assert told(story)[1] == ["brokers 1,2,3", "meta t-0 -2", "delete t-0 -2"]


def test_a_new_controller_finishes_a_move_whose_replicas_are_in_sync() -> None:
    moving = PartitionImage(1, 5, (2, 1), (1, 2), 9, adding=(2,), removing=(1,))
    story = cluster(1, 2).given(TopicCreated("t", b"t" * 16, (moving,), {}))
    story.when(commands.TakeOver())
    after = partition(story)
    assert (after.replicas, after.isr, after.leader) == ((2,), (2,), 2)
    assert told(story)[1][-1] == "delete t-0 6"


# The ISR


def test_a_leader_shrinks_and_expands_its_isr_within_its_epoch() -> None:
    story = with_topic(1, 2, 3).when(alter(1, 3))
    assert story.answer == [partition(story)]
    after = partition(story)
    assert (after.isr, after.leader_epoch, after.partition_epoch) == ((1, 3), 5, 10)
    assert told(story)[2] == ["brokers 1,2,3", "meta t-0 1"], "its leader knows: no LeaderAndIsr"
    story.when(alter(1, 2, 3, partition_epoch=10))
    assert partition(story).isr == (1, 2, 3)


def test_what_a_leader_asks_for_twice_is_granted_once() -> None:
    story = with_topic(1, 2, 3).when(alter(1, 3)).when(alter(3, 1))
    assert story.answer == [partition(story)]
    assert story.facts == ()


def test_stale_and_impossible_isr_changes_are_refused_as_kafka_does() -> None:
    story = with_topic(1, 2, 3)
    refusals = [
        (alter(1, 2, leader_epoch=4), Error.FENCED_LEADER_EPOCH),
        (alter(1, 2, partition_epoch=8), Error.INVALID_UPDATE_VERSION),
        (alter(1, 2, partition_epoch=10), Error.NOT_CONTROLLER),
        (alter(1, 2, leader_epoch=6), Error.NOT_CONTROLLER),
        (alter(2, 3, broker=2), Error.INVALID_REQUEST),
        (alter(2, 3), Error.INVALID_REQUEST),
        (alter(1, 9), Error.INVALID_REQUEST),
    ]
    for command, error in refusals:
        assert errors(story.when(command).answer) == [error], command
        assert story.facts == ()
    unknown = commands.IsrChange(TopicPartition("nope", 0), 0, 0, (1,))
    story.when(commands.AlterPartition(1, 101, (unknown,)))
    assert errors(story.answer) == [Error.UNKNOWN_TOPIC_OR_PARTITION]
    story.when(alter(1, broker_epoch=99))
    assert isinstance(story.answer, ApiError)
    assert story.answer.error is Error.STALE_BROKER_EPOCH


def test_a_replica_whose_broker_is_gone_going_or_back_anew_may_not_join_the_isr() -> None:
    story = with_topic(1, 2, isr=(1, 2)).when(alter(1, 2, 3))
    assert errors(story.answer) == [Error.INELIGIBLE_REPLICA]
    old = replace(alter(1, 2, 3), knows_ineligible=False)
    assert errors(story.when(old).answer) == [Error.OPERATION_NOT_ATTEMPTED]
    story = with_topic(1, 2, 3, isr=(1, 2))
    change = commands.IsrChange(T0, 5, 9, (1, 2, 3), (101, -1, 55))
    story.when(commands.AlterPartition(1, 101, (change,)))
    assert errors(story.answer) == [Error.INELIGIBLE_REPLICA], "restarted since the leader saw it"
    story.when(commands.ControlledShutdown(3, 103)).when(alter(1, 2, 3))
    assert errors(story.answer) == [Error.INELIGIBLE_REPLICA]


def test_an_isr_that_an_older_leader_wrote_itself_is_taken_over() -> None:
    story = with_topic(1, 2, 3)
    story.when(commands.SeeStates(((T0, PartitionState(1, 5, (1, 2), 6), 12),)))
    assert (partition(story).isr, partition(story).partition_epoch) == ((1, 2), 12)
    assert told(story)[3] == ["brokers 1,2,3", "meta t-0 1"]
    story.when(commands.SeeStates(((T0, PartitionState(1, 5, (1,), 6), 11),)))
    assert partition(story).isr == (1, 2), "an older state than the one known is no news"


# Controlled shutdown


def test_a_broker_that_stops_hands_over_what_it_leads_and_leaves_every_isr() -> None:
    led = PartitionImage(1, 5, (1, 2, 3), (1, 2, 3), 9)
    followed = PartitionImage(2, 5, (2, 1), (2, 1), 9)
    story = cluster(1, 2, 3).given(TopicCreated("t", b"t" * 16, (led, followed), {}))
    story.when(commands.ControlledShutdown(1, 101))
    assert story.answer == []
    assert (partition(story).leader, partition(story).isr) == (2, (2, 3))
    assert (partition(story, 1).leader, partition(story, 1).isr) == (2, (2,))
    assert told(story)[1][-1] == "stop t-1 6"
    assert "lead t-0 2" in told(story)[1]
    story.when(commands.ChangeBrokers(live(2, 3)))
    assert [fact for fact in story.facts if isinstance(fact, PartitionsChanged)] == []


def test_partitions_that_nobody_can_take_over_remain_and_are_named() -> None:
    story = with_topic(1, 2, isr=(1,), replicas=(1, 2)).when(commands.ControlledShutdown(1, 101))
    assert story.answer == [T0]
    assert partition(story).leader == 1
    lone = with_topic(1, 2, replicas=(1,)).when(commands.ControlledShutdown(1, 101))
    assert lone.answer == [], "a lone replica cannot be handed over and does not count"


def test_a_broker_that_stops_is_not_elected() -> None:
    story = with_topic(1, 2, 3).when(commands.ControlledShutdown(2, 102))
    assert partition(story).isr == (1, 3)
    story.when(commands.ChangeBrokers(live(2, 3)))
    assert partition(story).leader == 3


def test_an_unknown_or_outdated_broker_cannot_shut_down() -> None:
    story = with_topic(1, 2, 3)
    for command, error in (
        (commands.ControlledShutdown(9, 1), Error.BROKER_NOT_AVAILABLE),
        (commands.ControlledShutdown(1, 50), Error.STALE_BROKER_EPOCH),
    ):
        answer = story.when(command).answer
        assert isinstance(answer, ApiError)
        assert answer.error is error
    assert story.when(commands.ControlledShutdown(1, -1)).answer == [], (
        "an old broker knows no epoch"
    )


# Disks


def test_replicas_on_a_failed_disk_lose_leadership_though_their_broker_lives() -> None:
    story = with_topic(1, 2, 3).when(commands.SeeReplicas(1, (T0,)))
    assert (partition(story).leader, partition(story).isr) == (2, (2, 3))
    assert "lead t-0 2" in told(story)[1]
    story.when(alter(2, 3, 1, broker=2, leader_epoch=6, partition_epoch=10))
    assert errors(story.answer) == [Error.INELIGIBLE_REPLICA]
    story.when(commands.ChangeBrokers(live(1, 2, 3, epochs={1: 300})))
    assert not state_of(story).liveness.offline, "a broker that came back is asked anew"


def test_a_replica_that_was_made_anew_on_another_disk_may_be_in_sync_again() -> None:
    story = with_topic(1, 2, 3).when(commands.SeeReplicas(1, (T0,)))
    story.when(commands.SeeReplicas(1, (), (T0,)))
    assert not state_of(story).liveness.offline
    assert partition(story).leader == 2, "that is no reason for an election"
    story.when(alter(2, 3, 1, broker=2, leader_epoch=6, partition_epoch=10))
    assert partition(story).isr == (2, 3, 1)


def test_a_broker_with_a_failed_disk_is_sent_its_roles_to_learn_which_it_lost() -> None:
    story = with_topic(1, 2, 3).when(commands.AskForReplicas((2,)))
    assert told(story) == {2: ["lead t-0 1"]}


# Always


def test_whatever_happens_epochs_grow_and_leaders_are_in_sync_and_alive() -> None:
    """Thousands of random events; what must hold is checked after each."""
    for seed in seeds.several(60, first=0):
        rng = random.Random(seed)
        story = cluster(1, 2, 3, 4)
        epochs = {b: 100 + b for b in range(1, 5)}
        alive = set(epochs)
        state = state_of(story)
        due: list[object] = []
        for step in range(120):
            before = dict(state.cluster.topics)
            event = due.pop() if due else _random_event(rng, state, alive, epochs, step)
            story.when(event)
            due = [timer.command for timer in story.decision.timers]
            for topic in state.cluster.topics.values():
                old = before.get(topic.name)
                for place, now in places_of(topic):
                    _check(state, place, now)
                    if old is not None and old.id == topic.id:
                        _check_step(old.partitions[place.partition], now)
            for broker, _ in story.decision.sends:
                assert broker in state.liveness.brokers


def _check_step(was: PartitionImage, now: PartitionImage) -> None:
    assert now.leader_epoch >= was.leader_epoch
    assert now == was or now.partition_epoch == was.partition_epoch + 1
    if now.leader != was.leader:
        assert now.leader_epoch == was.leader_epoch + 1
        assert now.leader in (*was.isr, NO_LEADER)


def _check(state: ClusterState, place: TopicPartition, now: PartitionImage) -> None:
    assert set(now.isr) <= set(now.replicas)
    assert now.isr
    assert now.leader in (*now.isr, NO_LEADER)
    if place.topic not in state.deleting:
        assert now.leader == NO_LEADER or now.leader in state.liveness.brokers
        if now.leader == NO_LEADER:
            online = [b for b in now.isr if state.liveness.is_online(b, place)]
            assert not online, f"{online} could lead {place}"


def _random_event(
    rng: random.Random, state: ClusterState, alive: set[int], epochs: dict[int, int], step: int
) -> object:
    name = f"t{rng.randrange(4)}"
    topic = state.cluster.topics.get(name)
    place = TopicPartition(name, rng.randrange(3))
    match rng.randrange(10):
        case 0 | 1:
            draw = Draw(bytes([step + 1]) * 16, Start(rng.randrange(9), rng.randrange(9)))
            factor = rng.randrange(1, len(alive) + 1) if alive else 1
            return CreateTopics((NewTopic(name, 3, factor),), (draw,), TopicDefaults())
        case 2 | 3:
            broker = rng.randrange(1, 5)
            if broker in alive and len(alive) > 1:
                alive.discard(broker)
            else:
                alive.add(broker)
                epochs[broker] = 1000 + step
            return commands.ChangeBrokers(live(*sorted(alive), epochs=epochs))
        case 4 | 5 if topic is not None:
            now = topic.partitions[place.partition]
            isr = tuple(b for b in now.replicas if b == now.leader or rng.random() < 0.6)
            change = commands.IsrChange(place, now.leader_epoch, now.partition_epoch, isr)
            return commands.AlterPartition(now.leader, epochs.get(now.leader, 0), (change,))
        case 6:
            target = tuple(rng.sample(sorted(alive), rng.randrange(1, len(alive) + 1)))
            return AlterPartitionReassignments((Move(name, place.partition, target),))
        case 7 if alive:
            return commands.ControlledShutdown(rng.choice(sorted(alive)), -1)
        case 8:
            return DeleteTopics((name,)) if rng.random() < 0.3 else commands.RebalanceLeaders(0)
        case _:
            rows = [row for rest in state.deleting.values() for row in rest if row[1] in alive]
            if not rows:
                return commands.RebalanceLeaders(10)
            gone, broker = rng.choice(sorted(rows))
            return commands.ConfirmDeleted(broker, {gone: Error.NONE})
