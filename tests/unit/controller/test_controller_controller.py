"""The controller on a store: durable before it is told, seen before it is answered."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from moldau.config.config_changes import ConfigChange, ResourceType
from moldau.controller.controller_facts import TopicCreated
from moldau.controller.rules.feature_rules import FeatureUpdate
from moldau.controller.rules.leader_elections import Election
from moldau.controller.rules.reassignment_rules import Move
from moldau.controller.rules.topic_rules import NewPartitions, NewTopic
from moldau.metadata import paths
from moldau.model.cluster import NO_LEADER, BrokerNode, Endpoint
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition, uuid_from_text
from tests.support.lone_controller import NODE, Cluster, run


def test_a_first_start_founds_the_cluster() -> None:
    async def main() -> None:
        cluster = await Cluster().start()
        image = cluster.controller.image
        assert len(image.cluster_id) == 22
        assert len(uuid_from_text(image.cluster_id)) == 16
        assert image.brokers == {0: NODE}
        assert image.controller_id == 0
        assert paths.decode_cluster_id((await cluster.store.get("/cluster/id")).data) == (
            image.cluster_id
        )
        assert await cluster.text("/controller_epoch") == "1"
        assert '"brokerid":0' in await cluster.text("/controller")
        assert '"endpoints":["PLAINTEXT://localhost:9092"]' in await cluster.text("/brokers/ids/0")
        for path in paths.PERSISTENT_PATHS:
            assert await cluster.store.exists(path), path
        await cluster.stop()

    run(main)


def test_a_topic_stands_in_the_tree_as_kafka_writes_it() -> None:
    async def main() -> None:
        cluster = await Cluster().start()
        topic = NewTopic("t", 2, 1, configs={"retention.ms": "5"})
        (created,) = await cluster.controller.create_topics([topic])
        assert isinstance(created, TopicCreated)
        node = paths.decode_topic((await cluster.store.get("/brokers/topics/t")).data)
        assert node == (created.id, ((0,), (0,)), {}, {})
        assert await cluster.text("/config/topics/t") == (
            '{"version":1,"config":{"retention.ms":"5"}}'
        )
        assert await cluster.store.children("/brokers/topics/t/partitions") == ["0", "1"]
        assert await cluster.text("/brokers/topics/t/partitions/1/state") == (
            '{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'
        )
        await cluster.controller.create_partitions([NewPartitions("t", 3)])
        node = paths.decode_topic((await cluster.store.get("/brokers/topics/t")).data)
        assert len(node.replicas) == 3
        assert await cluster.store.exists("/brokers/topics/t/partitions/2/state")
        await cluster.controller.delete_topics(["t"])
        assert await cluster.store.children("/brokers/topics") == []
        assert await cluster.store.children("/config/topics") == []
        await cluster.stop()

    run(main)


def test_settings_of_groups_and_clients_stand_in_the_tree_while_there_are_any() -> None:
    async def main() -> None:
        cluster = await Cluster().start()
        group, key = "a/b", "consumer.session.timeout.ms"
        for value, children in (("50000", ["a%2Fb"]), ("51000", ["a%2Fb"]), (None, [])):
            change = ConfigChange(ResourceType.GROUP, group, {key: value})
            await cluster.controller.alter_configs([change])
            assert await cluster.store.children("/config/groups") == children
            if value is not None:
                assert await cluster.text("/config/groups/a%2Fb") == (
                    f'{{"version":1,"config":{{"{key}":"{value}"}}}}'
                )
        empty = ConfigChange(ResourceType.CLIENT_METRICS, "m", {"interval.ms": None})
        (row,) = await cluster.controller.alter_configs([empty])
        assert not isinstance(row, ApiError)
        assert await cluster.store.children("/config/client-metrics") == []
        await cluster.stop()

    run(main)


def test_a_reassignment_stands_in_the_tree_until_it_is_done() -> None:
    async def main() -> None:
        cluster = await Cluster().start()
        await cluster.controller.create_topics([NewTopic("t", 2, 1)])
        # As if a second broker had come: its replica will never be in sync here.
        await cluster.store.create("/brokers/ids/1", paths.encode_broker(NODE, 0), ephemeral=True)
        await cluster.controller.close()
        again = Cluster(store=cluster.store)
        await again.controller.load()
        move = Move("t", 1, (1,))
        assert await again.controller.alter_partition_reassignments([move]) == [None]
        node = paths.decode_topic((await cluster.store.get("/brokers/topics/t")).data)
        assert node[1:] == (((0,), (1, 0)), {1: (1,)}, {1: (0,)})
        assert (await cluster.store.get("/brokers/topics/t/partitions/1/state")).version == 1
        await again.controller.create_partitions([NewPartitions("t", 3)])
        before = again.controller.image.topics
        assert (before["t"].partitions[1].adding, before["t"].partitions[1].removing) == (
            (1,),
            (0,),
        )
        await again.controller.close()
        await again.controller.load()
        assert again.controller.image.topics == before, "a new controller goes on with the move"
        await again.controller.alter_partition_reassignments([Move("t", 1, None)])
        node = paths.decode_topic((await cluster.store.get("/brokers/topics/t")).data)
        assert node[1:] == (((0,), (0,), (0,)), {}, {})
        await again.stop()

    run(main)


def test_an_election_is_written_to_the_partition_s_state() -> None:
    async def main() -> None:
        cluster = await Cluster().start()
        await cluster.controller.create_topics([NewTopic("t", 1, 1)])
        state = '{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":%d,"isr":[0]}'
        path = "/brokers/topics/t/partitions/0/state"
        await cluster.store.set_if_version(path, (state % (-1, 3)).encode())
        await cluster.controller.close()
        again = Cluster(store=cluster.store)
        await again.controller.load()
        asked = [TopicPartition("t", 0), TopicPartition("t", 1)]
        done, refused = await again.controller.elect_leaders(Election.UNCLEAN, asked)
        assert done is None
        assert refused is not None
        assert refused.error is Error.UNKNOWN_TOPIC_OR_PARTITION
        assert '"leader":0,"version":1,"leader_epoch":4' in await again.text(path)
        (partition,) = again.controller.image.topics["t"].partitions
        node = await cluster.store.get(path)
        assert (partition.leader, partition.partition_epoch) == (0, node.version)
        await again.stop()

    run(main)


def test_the_quorum_is_this_node_and_its_end_moves_with_every_change() -> None:
    async def main() -> None:
        cluster = await Cluster().start()
        before = await cluster.controller.quorum()
        assert (before.leader, before.epoch) == (0, 1)
        await cluster.controller.create_topics([NewTopic("t", 1, 1)])
        assert (await cluster.controller.quorum()).offset_end == before.offset_end + 1
        await cluster.stop()

    run(main)


def test_the_image_is_replaced_before_the_answer_comes() -> None:
    async def main() -> None:
        cluster = await Cluster().start()
        before = cluster.controller.image
        await cluster.controller.create_topics([NewTopic("t", 2, 1)])
        after = cluster.controller.image
        assert "t" not in before.topics, "an image never changes"
        assert len(after.topics["t"].partitions) == 2
        assert after.topic_names == {after.topics["t"].id: "t"}
        assert cluster.images[-1] is after
        await cluster.controller.delete_topics(["t"])
        assert cluster.controller.image.topics == {}
        await cluster.stop()

    run(main)


def test_a_validation_and_a_refusal_make_no_new_image() -> None:
    async def main() -> None:
        cluster = await Cluster().start()
        count = len(cluster.images)
        await cluster.controller.create_topics([NewTopic("t")], validate_only=True)
        await cluster.controller.create_topics([NewTopic("a b")])
        await cluster.controller.create_partitions([NewPartitions("t", 3)], validate_only=True)
        assert len(cluster.images) == count
        await cluster.stop()

    run(main)


def test_a_restart_finds_everything_again(tmp_path: Path) -> None:
    async def main() -> None:
        first = await Cluster(tmp_path / "m").start()
        await first.controller.create_topics(
            [NewTopic("a", 3, 1, configs={"segment.ms": "9"}), NewTopic("b.c", 12, 1)]
        )
        changes = [
            ConfigChange(ResourceType.BROKER, "0", {"log.cleaner.threads": "2"}),
            ConfigChange(ResourceType.BROKER, "", {"log.cleaner.threads": "3"}),
            ConfigChange(ResourceType.TOPIC, "b.c", {"retention.ms": "7"}),
            ConfigChange(ResourceType.GROUP, "g/1 ä%", {"share.session.timeout.ms": "50000"}),
            ConfigChange(ResourceType.CLIENT_METRICS, "m", {"interval.ms": "1000"}),
        ]
        assert not any(
            isinstance(row, ApiError) for row in await first.controller.alter_configs(changes)
        )
        await first.controller.create_partitions([NewPartitions("a", 4)])
        await first.controller.update_features([FeatureUpdate("transaction.version", 1, 2)])
        before = first.controller.image
        assert (before.features, before.features_epoch) == ({"transaction.version": 1}, 1)
        await first.stop()
        second = await Cluster(tmp_path / "m").start()
        assert second.controller.image == before
        assert await second.text("/controller_epoch") == "2"
        refused = await second.controller.create_topics([NewTopic("b_c"), NewTopic("a")])
        assert [row.error for row in refused if isinstance(row, ApiError)] == [
            Error.INVALID_TOPIC_EXCEPTION,
            Error.TOPIC_ALREADY_EXISTS,
        ]
        await second.stop()

    run(main)


def test_no_producer_id_is_given_twice_whatever_happens(tmp_path: Path) -> None:
    async def main() -> None:
        given: list[range] = []
        for _ in range(3):
            cluster = await Cluster(tmp_path / "m").start()
            given += [await cluster.controller.allocate_producer_ids() for _ in range(2)]
            await cluster.stop()
        assert given == [range(n * 1000, (n + 1) * 1000) for n in range(6)]

    run(main)


def test_broker_settings_fill_in_what_a_request_leaves_open() -> None:
    async def main() -> None:
        cluster = await Cluster(num_partitions="7").start()
        (created,) = await cluster.controller.create_topics([NewTopic("t")])
        assert isinstance(created, TopicCreated)
        assert len(created.partitions) == 7
        await cluster.stop()

    run(main)


def test_topics_are_kept_where_deletion_is_switched_off() -> None:
    async def main() -> None:
        cluster = await Cluster(delete_topic_enable="false").start()
        await cluster.controller.create_topics([NewTopic("t")])
        (refused,) = await cluster.controller.delete_topics(["t"])
        assert isinstance(refused, ApiError)
        assert refused.error is Error.TOPIC_DELETION_DISABLED
        await cluster.stop()

    run(main)


def test_many_requests_at_once_are_answered_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = await Cluster(tmp_path / "m").start()
        rows = await asyncio.gather(
            *(cluster.controller.create_topics([NewTopic(f"t{n % 20}", 1, 1)]) for n in range(60))
        )
        created = [isinstance(row, TopicCreated) for (row,) in rows]
        assert created == [True] * 20 + [False] * 40
        await cluster.stop()

    run(main)


def test_ids_are_uuids_of_version_4_that_do_not_look_like_a_flag() -> None:
    async def main() -> None:
        cluster = Cluster()
        for _ in range(2000):
            drawn = cluster.controller._draw_id()
            assert len(drawn) == 16
            assert drawn[6] >> 4 == 4
            assert drawn[8] >> 6 == 2
            assert drawn[0] >> 2 != 62, "would start with '-'"

    run(main)


def test_the_log_reads_as_operators_of_kafka_know_it(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        cluster = await Cluster().start()
        await cluster.controller.create_topics([NewTopic("T-XXX", 2, 1)])
        await cluster.controller.create_partitions([NewPartitions("T-XXX", 3)])
        await cluster.controller.delete_topics(["T-XXX"])
        await cluster.stop()

    with caplog.at_level(logging.INFO, "kafka.controller.KafkaController"):
        run(main)
    assert [r.getMessage() for r in caplog.records if r.name.startswith("kafka.controller")] == [
        "[Controller id=0] New topics: [Set(T-XXX)], deleted topics: [Set()], new partition "
        "replica assignment [Map(T-XXX-0 -> Vector(0), T-XXX-1 -> Vector(0))]",
        "[Controller id=0] New partition creation callback for T-XXX-0,T-XXX-1",
        "[Controller id=0] New partition creation callback for T-XXX-2",
        "[Controller id=0] New topics: [Set()], deleted topics: [Set(T-XXX)], new partition "
        "replica assignment [Map()]",
    ]


def test_a_tree_that_kafka_wrote_is_understood() -> None:
    async def main() -> None:
        cluster = Cluster()
        await cluster.controller.load()
        await cluster.controller.close()
        for path, text in {
            "/brokers/ids/1": '{"features":{},"listener_security_protocol_map":{"P":"PLAINTEXT"},'
            '"endpoints":["P://h:9"],"jmx_port":-1,"port":9,"host":"h","version":5,'
            '"timestamp":"1"}',
            "/brokers/topics/t": '{"partitions":{"0":[1],"1":[0,1]},'
            '"topic_id":"IEIOEjjxRFqRPEdYVcGZNw","adding_replicas":{},"removing_replicas":{},'
            '"version":3}',
            "/brokers/topics/t/partitions": "",
            "/brokers/topics/t/partitions/0": "",
            "/brokers/topics/t/partitions/0/state": '{"controller_epoch":1,"leader":1,"version":1,'
            '"leader_epoch":4,"isr":[1]}',
            "/config/topics/t": '{"version":1,"config":{"cleanup.policy":"compact"}}',
        }.items():
            await cluster.store.create(path, text.encode())
        again = Cluster()
        again.controller._store = cluster.store
        image = await again.controller.load()
        assert image.brokers == {1: BrokerNode(1, (Endpoint("P", "h", 9),))}
        led, waiting = image.topics["t"].partitions
        assert (led.leader, led.leader_epoch, led.isr) == (1, 4, (1,))
        assert (waiting.leader, waiting.replicas, waiting.isr) == (NO_LEADER, (0, 1), ())
        assert image.topic_configs == {"t": {"cleanup.policy": "compact"}}

    run(main)


def test_ten_thousand_partitions_are_loaded_with_few_objects(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = await Cluster(tmp_path / "m").start()
        await cluster.controller.create_topics([NewTopic("big", 9_000, 1)])
        await cluster.controller.create_topics([NewTopic(f"t{n}", 10, 1) for n in range(100)])
        await cluster.stop()
        again = await Cluster(tmp_path / "m").start()
        topics = again.controller.image.topics
        assert sum(len(topic.partitions) for topic in topics.values()) == 10_000
        assert len({id(p) for topic in topics.values() for p in topic.partitions}) == 1
        await again.stop()

    run(main)
