"""Who may create, grow and delete what, and Kafka's own words for refusals."""

from __future__ import annotations

import pytest

from moldau.controller.controller_facts import BrokerRegistered, TopicCreated
from moldau.controller.controller_state import ControllerState
from moldau.controller.rules.topic_rules import (
    Draw,
    NewPartitions,
    NewTopic,
    TopicDefaults,
    create,
    delete,
    grow,
)
from moldau.model.cluster import BrokerNode, ClusterImage, PartitionImage
from moldau.model.errors import ApiError, Error

DRAW = Draw(b"t" * 16)
DEFAULTS = TopicDefaults(num_partitions=4, replication_factor=1)


def cluster_of(*brokers: int, topics: dict[str, int] | None = None) -> ControllerState:
    state = ControllerState(ClusterImage("c", 0))
    for broker in brokers:
        state.apply(BrokerRegistered(BrokerNode(broker, ())))
    for number, (name, count) in enumerate((topics or {}).items()):
        replicas = tuple(brokers[:1])
        partitions = (PartitionImage(replicas[0], 0, replicas, replicas),) * count
        state.apply(TopicCreated(name, bytes([number]) * 16, partitions, {}))
    return state


def test_a_new_topic_is_led_by_its_first_replicas_with_all_in_sync() -> None:
    fact = create(cluster_of(0, 1, 2), NewTopic("t", 3, 2), DRAW, DEFAULTS)
    assert fact.name == "t"
    assert fact.id == DRAW.topic_id
    assert [p.replicas for p in fact.partitions] == [(0, 1), (1, 2), (2, 0)]
    for partition in fact.partitions:
        assert partition.leader == partition.replicas[0]
        assert partition.isr == partition.replicas
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)


def test_what_is_left_open_comes_from_the_brokers_settings() -> None:
    fact = create(cluster_of(0, 1), NewTopic("t"), DRAW, TopicDefaults(6, 2))
    assert len(fact.partitions) == 6
    assert fact.replication_factor == 2


def test_partitions_may_be_placed_by_hand_in_any_order() -> None:
    topic = NewTopic("t", assignments=((1, (2, 0)), (0, (1, 2))))
    fact = create(cluster_of(0, 1, 2), topic, DRAW, DEFAULTS)
    assert [p.replicas for p in fact.partitions] == [(1, 2), (2, 0)]


def test_settings_are_kept_under_their_own_names() -> None:
    topic = NewTopic("t", configs={"retention.ms": "5", "max.message.size": "9"})
    fact = create(cluster_of(0), topic, DRAW, DEFAULTS)
    assert fact.configs == {"retention.ms": "5", "max.message.bytes": "9"}


MANUAL = "A manual partition assignment was specified, but"
REFUSED = [
    (NewTopic("a b"), Error.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: 'a b' contains"),
    (NewTopic(""), Error.INVALID_TOPIC_EXCEPTION, "the empty string is not allowed"),
    (NewTopic("x" * 250), Error.INVALID_TOPIC_EXCEPTION, "longer than the max allowed length 249"),
    (NewTopic("old.one"), Error.TOPIC_ALREADY_EXISTS, "Topic 'old.one' already exists."),
    (
        NewTopic("old_one"),
        Error.INVALID_TOPIC_EXCEPTION,
        "Topic 'old_one' collides with existing topic: old.one",
    ),
    (
        NewTopic("__cluster_metadata"),
        Error.INVALID_REQUEST,
        "Creation of internal topic __cluster_metadata is prohibited.",
    ),
    (
        NewTopic("t", 1, 3),
        Error.INVALID_REPLICATION_FACTOR,
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot "
        "be reached because only 2 broker(s) are registered.",
    ),
    (
        NewTopic("t", 1, 0),
        Error.INVALID_REPLICATION_FACTOR,
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    (NewTopic("t", 1, -2), Error.INVALID_REPLICATION_FACTOR, "must be larger than 0"),
    (NewTopic("t", 0, 0), Error.INVALID_REPLICATION_FACTOR, "must be larger than 0"),
    (
        NewTopic("t", 0, 1),
        Error.INVALID_PARTITIONS,
        "Number of partitions was set to an invalid non-positive value.",
    ),
    (NewTopic("t", -2, 1), Error.INVALID_PARTITIONS, "invalid non-positive value"),
    (NewTopic("t", 10_000, 1), Error.POLICY_VIOLATION, "Excessively large number of partitions"),
    (
        NewTopic("t", -1, 1, ((0, (0,)),)),
        Error.INVALID_REQUEST,
        f"{MANUAL} replication factor was not set to -1.",
    ),
    (
        NewTopic("t", 1, -1, ((0, (0,)),)),
        Error.INVALID_REQUEST,
        f"{MANUAL} numPartitions was not set to -1.",
    ),
    (
        NewTopic("t", assignments=((0, (0,)), (0, (1,)))),
        Error.INVALID_REPLICA_ASSIGNMENT,
        "Found multiple manual partition assignments for partition 0",
    ),
    (
        NewTopic("t", assignments=((0, (0,)), (2, (1,)))),
        Error.INVALID_REPLICA_ASSIGNMENT,
        "partitions should be a consecutive 0-based integer sequence",
    ),
    (
        NewTopic("t", assignments=((0, (1, 0, 1)),)),
        Error.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes the broker 1 more than once.",
    ),
    (
        NewTopic("t", assignments=((0, (0, 7)),)),
        Error.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes broker 7, but no such broker is registered.",
    ),
    (
        NewTopic("t", assignments=((0, ()),)),
        Error.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes an empty replica list.",
    ),
    (
        NewTopic("t", assignments=((0, (0,)), (1, (0, 1)))),
        Error.INVALID_REPLICA_ASSIGNMENT,
        "includes a partition with 2 replica(s), but this is not consistent with previous "
        "partitions, which have 1 replica(s).",
    ),
    (NewTopic("t", configs={"nope": "1"}), Error.INVALID_CONFIG, "Unknown topic config name: nope"),
    (
        NewTopic("t", configs={"retention.ms": "x"}),
        Error.INVALID_CONFIG,
        "Invalid value x for configuration retention.ms:",
    ),
    (
        NewTopic("t", configs={"retention.ms": None}),
        Error.INVALID_CONFIG,
        "Null value not supported for topic configs: retention.ms",
    ),
    (
        NewTopic("t", 0, 0, configs={"nope": "1"}),
        Error.INVALID_CONFIG,
        "Unknown topic config name: nope",
    ),
]


@pytest.mark.parametrize(("topic", "error", "words"), REFUSED)
def test_a_bad_topic_is_refused_as_kafka_does(topic: NewTopic, error: Error, words: str) -> None:
    state = cluster_of(0, 1, topics={"old.one": 1})
    with pytest.raises(ApiError) as caught:
        create(state, topic, DRAW, DEFAULTS)
    assert caught.value.error is error
    assert words in caught.value.message


def test_a_name_is_free_again_after_its_topic_was_deleted() -> None:
    state = cluster_of(0, topics={"a.b": 1})
    state.apply(delete(state, "a.b"))
    assert create(state, NewTopic("a_b"), DRAW, DEFAULTS).name == "a_b"
    assert state.collisions == {}


def test_names_collide_only_where_dots_and_underscores_differ() -> None:
    state = cluster_of(0, topics={"a.b_c": 1, "abc": 1})
    assert state.colliding_with("a_b.c") == {"a.b_c"}
    assert state.colliding_with("a-b-c") == set()
    assert state.colliding_with("a.b_c") == set()


def test_growth_keeps_the_old_partitions_and_names_the_new() -> None:
    state = cluster_of(0, 1, topics={"t": 2})
    before = state.cluster.topics["t"].partitions
    fact = grow(state, NewPartitions("t", 5))
    assert fact.all_partitions[:2] == before
    assert len(fact.added) == 3
    assert fact.count_before == 2
    assert {p.replicas for p in fact.added} <= {(0,), (1,)}


def test_growth_by_hand() -> None:
    fact = grow(cluster_of(0, 1, topics={"t": 1}), NewPartitions("t", 3, ((1,), (0,))))
    assert [p.replicas for p in fact.added] == [(1,), (0,)]


NOT_GROWN = [
    (NewPartitions("nope", 5), Error.UNKNOWN_TOPIC_OR_PARTITION, ""),
    (NewPartitions("t", 2), Error.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
    (
        NewPartitions("t", 1),
        Error.INVALID_PARTITIONS,
        "The topic t currently has 2 partition(s); 1 would not be an increase.",
    ),
    (NewPartitions("t", -1), Error.INVALID_PARTITIONS, "-1 would not be an increase."),
    (NewPartitions("t", 20_000), Error.POLICY_VIOLATION, "Excessively large number"),
    (
        NewPartitions("t", 4, ((0,),)),
        Error.INVALID_REPLICA_ASSIGNMENT,
        "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
    ),
    (
        NewPartitions("t", 3, ((7,),)),
        Error.INVALID_REPLICA_ASSIGNMENT,
        "includes broker 7, but no such broker is registered.",
    ),
    (NewPartitions("t", 3, ((),)), Error.INVALID_REPLICA_ASSIGNMENT, "an empty replica list."),
    (
        NewPartitions("t", 3, ((0, 1),)),
        Error.INVALID_REPLICA_ASSIGNMENT,
        "a partition with 2 replica(s), but this is not consistent with previous partitions",
    ),
]


@pytest.mark.parametrize(("wanted", "error", "words"), NOT_GROWN)
def test_bad_growth_is_refused_as_kafka_does(
    wanted: NewPartitions, error: Error, words: str
) -> None:
    with pytest.raises(ApiError) as caught:
        grow(cluster_of(0, 1, topics={"t": 2}), wanted)
    assert caught.value.error is error
    assert words in caught.value.message


def test_growth_counts_on_the_brokers_that_have_the_topic_already() -> None:
    state = cluster_of(0)
    two = (PartitionImage(0, 0, (0, 1), (0, 1)),)
    state.apply(TopicCreated("t", b"t" * 16, two, {}))
    (added,) = grow(state, NewPartitions("t", 2)).added
    assert (added.leader, added.replicas, added.isr) == (0, (0, 1), (0,))


def test_only_a_topic_that_exists_can_be_deleted() -> None:
    state = cluster_of(0, topics={"t": 3})
    assert delete(state, "t").partition_count == 3
    with pytest.raises(ApiError) as caught:
        delete(state, "nope")
    assert caught.value.error is Error.UNKNOWN_TOPIC_OR_PARTITION
    assert caught.value.message == "This server does not host this topic-partition."
