"""The controller's decisions as transcripts: given facts, when a command, then a decision."""

from __future__ import annotations

import random

import pytest

from moldau.config.broker_config import BrokerConfig
from moldau.config.config_changes import ConfigChange, ResourceType
from moldau.controller.controller_facts import (
    BrokerRegistered,
    ConfigKind,
    ConfigsChanged,
    PartitionsAdded,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)
from moldau.controller.controller_machine import (
    AllocateProducerIds,
    AlterConfigs,
    AlterPartitionReassignments,
    ControllerMachine,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    RegisterBroker,
    UpdateFeatures,
)
from moldau.controller.controller_state import ControllerState, image_after
from moldau.controller.rules.feature_rules import FeatureUpdate
from moldau.controller.rules.leader_elections import Election
from moldau.controller.rules.producer_ids import PRODUCER_ID_LAST
from moldau.controller.rules.reassignment_rules import Move
from moldau.controller.rules.replica_placement import Start
from moldau.controller.rules.topic_rules import Draw, NewPartitions, NewTopic, TopicDefaults
from moldau.engine.machine import Volatile
from moldau.model.cluster import BrokerNode, ClusterImage, PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from tests.support import seeds
from tests.support.transcripts import Transcript

NODE = BrokerNode(0, ())
ON_0 = PartitionImage(0, 0, (0,), (0,))
EMPTY = ClusterImage("cluster", 0)
DEFAULTS, _ = BrokerConfig.parse({})
ORDERS = TopicCreated("orders", b"o" * 16, (ON_0, ON_0), {"retention.ms": "5"})


def controller(producer_id_next: int = 0) -> Transcript:
    return Transcript(ControllerMachine(ControllerState(EMPTY, producer_id_next)))


def creation(*topics: NewTopic, validate_only: bool = False) -> CreateTopics:
    draws = tuple(Draw(bytes([number + 1]) * 16) for number in range(len(topics)))
    return CreateTopics(topics, draws, TopicDefaults(), validate_only)


def errors(answer: object) -> list[Error | None]:
    assert isinstance(answer, list)
    return [row.error if isinstance(row, ApiError) else None for row in answer]


def test_a_broker_registers_for_as_long_as_it_lives() -> None:
    story = controller().when(RegisterBroker(NODE))
    assert story.facts == (Volatile(BrokerRegistered(NODE)),)
    assert story.answer is None


def test_a_topic_is_created() -> None:
    story = controller().given(BrokerRegistered(NODE)).when(creation(NewTopic("t", 2, 1)))
    created = TopicCreated("t", b"\1" * 16, (ON_0, ON_0), {})
    assert story.facts == (created,)
    assert story.answer == [created]


def test_the_good_topics_of_a_request_are_created_beside_refused_ones() -> None:
    story = controller().given(BrokerRegistered(NODE), ORDERS)
    story.when(creation(NewTopic("a"), NewTopic("orders"), NewTopic("b", 1, 3), NewTopic("c")))
    assert [fact.name for fact in story.facts] == ["a", "c"]
    assert errors(story.answer) == [
        None,
        Error.TOPIC_ALREADY_EXISTS,
        Error.INVALID_REPLICATION_FACTOR,
        None,
    ]


def test_a_topic_named_twice_in_one_request_is_not_created() -> None:
    story = controller().given(BrokerRegistered(NODE))
    story.when(creation(NewTopic("a"), NewTopic("b"), NewTopic("a")))
    assert [fact.name for fact in story.facts] == ["b"]
    assert errors(story.answer) == [Error.INVALID_REQUEST, None, Error.INVALID_REQUEST]
    assert isinstance(story.answer, list)
    assert story.answer[0].message == "Duplicate topic name."


def test_validation_answers_as_creation_would_and_changes_nothing() -> None:
    story = controller().given(BrokerRegistered(NODE))
    story.when(creation(NewTopic("a", 3, 1), NewTopic("b", 0), validate_only=True))
    assert story.facts == ()
    assert errors(story.answer) == [None, Error.INVALID_PARTITIONS]
    assert isinstance(story.answer, list)
    assert len(story.answer[0].partitions) == 3


def test_too_many_partitions_in_one_request_are_refused_together() -> None:
    story = controller().given(BrokerRegistered(NODE))
    story.when(creation(NewTopic("a", 6000, 1), NewTopic("b", 6000, 1)))
    assert story.facts == ()
    assert errors(story.answer) == [Error.POLICY_VIOLATION] * 2


def test_random_starts_spread_topics_over_brokers() -> None:
    story = controller().given(*(BrokerRegistered(BrokerNode(b, ())) for b in range(3)))
    leaders = set()
    for number in range(3):
        draw = Draw(bytes([number + 1]) * 16, Start(number, 0))
        story.when(CreateTopics((NewTopic(f"t{number}"),), (draw,), TopicDefaults()))
        leaders.add(story.facts[0].partitions[0].leader)
    assert leaders == {0, 1, 2}


def test_a_topic_grows() -> None:
    story = controller().given(BrokerRegistered(NODE), ORDERS)
    story.when(CreatePartitions((NewPartitions("orders", 3), NewPartitions("nope", 3))))
    assert story.facts == (PartitionsAdded("orders", ORDERS.id, (ON_0,) * 3, 2),)
    assert errors(story.answer) == [None, Error.UNKNOWN_TOPIC_OR_PARTITION]
    story.when(CreatePartitions((NewPartitions("orders", 9),), validate_only=True))
    assert story.facts == ()
    assert errors(story.answer) == [None]
    story.when(CreatePartitions((NewPartitions("orders", 4), NewPartitions("orders", 5))))
    assert errors(story.answer) == [Error.INVALID_REQUEST] * 2


def test_a_topic_is_deleted_once() -> None:
    story = controller().given(BrokerRegistered(NODE), ORDERS)
    story.when(DeleteTopics(("orders", "nope")))
    assert story.facts == (TopicDeleted("orders", ORDERS.id, 2),)
    assert errors(story.answer) == [None, Error.UNKNOWN_TOPIC_OR_PARTITION]
    story.when(DeleteTopics(("orders",)))
    assert errors(story.answer) == [Error.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_topic_made_again_has_another_id_and_no_old_settings() -> None:
    story = controller().given(BrokerRegistered(NODE), ORDERS)
    story.when(DeleteTopics(("orders",))).when(creation(NewTopic("orders", 1, 1)))
    assert errors(story.answer) == [None]
    assert isinstance(story.machine, ControllerMachine)
    cluster = story.machine.state.cluster
    assert cluster.topic_names == {b"\1" * 16: "orders"}
    assert cluster.topic_configs == {}


def test_nothing_is_deleted_where_deletion_is_switched_off_or_the_name_comes_twice() -> None:
    story = controller().given(BrokerRegistered(NODE), ORDERS)
    story.when(DeleteTopics(("orders", "nope"), is_enabled=False))
    assert story.facts == ()
    assert errors(story.answer) == [Error.TOPIC_DELETION_DISABLED] * 2
    story.when(DeleteTopics(("orders", "orders")))
    assert errors(story.answer) == [Error.INVALID_REQUEST] * 2


def test_settings_change_one_resource_at_a_time() -> None:
    story = controller().given(BrokerRegistered(NODE), ORDERS)
    story.when(
        AlterConfigs(
            (
                ConfigChange(ResourceType.TOPIC, "orders", {"segment.ms": "7"}),
                ConfigChange(ResourceType.TOPIC, "nope", {}),
                ConfigChange(ResourceType.BROKER, "0", {"log.cleaner.threads": "3"}),
            )
        )
    )
    assert story.facts == (
        ConfigsChanged(ConfigKind.TOPIC, "orders", {"retention.ms": "5", "segment.ms": "7"}),
        ConfigsChanged(ConfigKind.BROKER, "0", {"log.cleaner.threads": "3"}, True),
    )
    assert errors(story.answer) == [None, Error.UNKNOWN_TOPIC_OR_PARTITION, None]


def test_producer_ids_come_in_blocks_that_never_overlap() -> None:
    story = controller(producer_id_next=3000)
    story.when(AllocateProducerIds(0))
    assert story.facts == (ProducerIdsAllocated(0, range(3000, 4000)),)
    assert story.answer == range(3000, 4000)
    assert story.when(AllocateProducerIds(1)).answer == range(4000, 5000)


def test_producer_ids_run_out_with_an_error() -> None:
    story = controller(producer_id_next=PRODUCER_ID_LAST - 999)
    story.when(AllocateProducerIds(0))
    assert story.facts == ()
    assert isinstance(story.answer, ApiError)


def test_a_block_that_was_allocated_before_cannot_become_true() -> None:
    story = controller(producer_id_next=3000)
    with pytest.raises(AssertionError, match="was allocated before"):
        story.given(ProducerIdsAllocated(0, range(2000, 3000)))


def test_an_unknown_command_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="unknown command"):
        controller().when("something")


def test_the_image_made_of_committed_facts_is_the_state_they_were_applied_to() -> None:
    """Thousands of random commands: image and state never disagree, and no id comes twice."""
    for seed in seeds.several(50, first=0):
        rng = random.Random(seed)
        story = controller().given(*(BrokerRegistered(BrokerNode(b, ())) for b in range(3)))
        image = image_after(EMPTY, [BrokerRegistered(BrokerNode(b, ())) for b in range(3)])
        handed_out: set[int] = set()
        for _ in range(60):
            before = image
            story.when(_random_command(rng))
            image = image_after(image, story.facts)
            assert isinstance(story.machine, ControllerMachine)
            assert image == story.machine.state.cluster.image()
            assert {topic.id: name for name, topic in image.topics.items()} == image.topic_names
            assert set(image.topic_configs) <= set(image.topics)
            if not story.facts:
                assert before == image
            for partition in (p for topic in image.topics.values() for p in topic.partitions):
                assert partition.leader in partition.isr
                assert set(partition.isr) <= set(partition.replicas)
                assert len(set(partition.replicas)) == len(partition.replicas) > 0
                assert set(partition.adding + partition.removing) <= set(partition.replicas)
                assert not set(partition.adding) & set(partition.removing)
            if isinstance(story.answer, range):
                assert handed_out.isdisjoint(story.answer)
                handed_out.update(story.answer)


def _random_command(rng: random.Random) -> object:
    name = f"t{rng.randrange(5)}"
    match rng.randrange(9):
        case 0:
            draw = Draw(rng.randbytes(16), Start(rng.randrange(9), rng.randrange(9)))
            topic = NewTopic(name, rng.randrange(-1, 4), rng.randrange(-1, 5))
            return CreateTopics((topic,), (draw,), TopicDefaults(2, 2), rng.random() < 0.1)
        case 1:
            return DeleteTopics((name,))
        case 2:
            return CreatePartitions((NewPartitions(name, rng.randrange(8)),))
        case 3:
            value = rng.choice(("5", "x", None))
            return AlterConfigs((ConfigChange(ResourceType.TOPIC, name, {"segment.ms": value}),))
        case 4:
            value = rng.choice(("50000", "x", None))
            change = ConfigChange(ResourceType.GROUP, name, {"share.session.timeout.ms": value})
            return AlterConfigs((change,), broker=DEFAULTS)
        case 5:
            replicas = tuple(rng.sample(range(4), rng.randrange(4)))
            moves = (Move(name, rng.randrange(3), rng.choice((replicas, None))),)
            return AlterPartitionReassignments(moves, rng.random() < 0.8)
        case 6:
            partitions = (TopicPartition(name, rng.randrange(3)),)
            return ElectLeaders(rng.choice(tuple(Election)), partitions)
        case 7:
            update = FeatureUpdate("transaction.version", rng.randrange(-1, 4), rng.randrange(1, 4))
            return UpdateFeatures((update,), rng.random() < 0.1)
        case _:
            return AllocateProducerIds(0)
