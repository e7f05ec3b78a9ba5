"""Replicas follow the cluster image: logs are made, changed, kept and deleted as it says."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from moldau.config.broker_config import BrokerConfig
from moldau.config.config_changes import ConfigChange, ResourceType
from moldau.model.cluster import PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.replication.fetch_sessions import FetchedPartition
from moldau.replication.replica import Replica
from tests.support.services import NODE_ID, Node, batch, play

ALONE = PartitionImage(NODE_ID, 3, (NODE_ID,), (NODE_ID,))


def append(replica: Replica, *values: bytes) -> int:
    records = memoryview(bytearray(batch(*values)))
    return replica.append(records, -1, 1_000_000).base_offset


def refusal(node: Node, topic: str, partition: int) -> Error:
    with pytest.raises(ApiError) as caught:
        node.replicas.find(topic, partition)
    return caught.value.error


def directories(path: Path) -> list[str]:
    return sorted(name for name in os.listdir(path) if os.path.isdir(path / name))


def test_a_created_topic_can_be_written_to_at_once(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", 2)
        assert directories(tmp_path) == ["t-0", "t-1"]
        assert append(node.replicas.find("t", 1), b"a") == 0

    play(scenario, tmp_path)


def test_what_is_not_here_is_unknown_or_led_elsewhere(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", PartitionImage(2, 3, (2,), (2,)))
        assert refusal(node, "nowhere", 0) == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert refusal(node, "t", 1) == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert refusal(node, "t", -1) == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert refusal(node, "t", 0) == Error.NOT_LEADER_OR_FOLLOWER
        assert node.replicas.leader_of("t", 0) == (2, 3)
        assert node.replicas.leader_of("nowhere", 0) == (-1, -1)

    play(scenario, tmp_path)


def test_a_topic_that_grows_keeps_its_logs_and_gets_new_ones(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", ALONE)
        first = node.replicas.find("t", 0)
        append(first, b"a")
        node.place("t", ALONE, ALONE)
        assert node.replicas.find("t", 0) is first
        assert append(node.replicas.find("t", 1), b"b") == 0

    play(scenario, tmp_path)


def test_a_deleted_topic_takes_its_logs_out_of_service(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", 2)
        await node.controller.delete_topics(["t"])
        assert refusal(node, "t", 0) == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert len(node.replicas) == 0
        assert all(name.endswith("-delete") for name in directories(tmp_path))

    play(scenario, tmp_path)


def test_a_topic_made_anew_starts_empty(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node.replicas.find("t", 0), b"a")
        await node.controller.delete_topics(["t"])
        await node.create_topic("t")
        assert append(node.replicas.find("t", 0), b"b") == 0

    play(scenario, tmp_path)


def test_a_log_of_an_earlier_topic_of_the_same_name_is_not_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def whole() -> None:
        node = await Node(tmp_path).start()
        node.place("t", ALONE)
        append(node.replicas.find("t", 0), b"a")
        node.stop()
        again = await Node(tmp_path).start()
        assert again.replicas.strays() == [("t", 0)]
        assert "1 logs belong to no topic of the cluster" in caplog.text
        await again.create_topic("t")
        assert append(again.replicas.find("t", 0), b"b") == 0
        again.stop()

    asyncio.run(whole())


def test_records_and_their_commitment_survive_a_restart(tmp_path: Path) -> None:
    async def whole() -> None:
        node = await Node(tmp_path).start()
        node.place("t", ALONE)
        append(node.replicas.find("t", 0), b"a", b"b")
        node.stop()
        again = await Node(tmp_path).start()
        again.place("t", ALONE)
        replica = again.replicas.find("t", 0)
        assert (replica.log.offset_end, replica.partition.high_watermark) == (2, 2)
        again.stop()

    asyncio.run(whole())


def test_a_leader_of_many_starts_with_the_high_watermark_it_last_wrote_down(
    tmp_path: Path,
) -> None:
    image = PartitionImage(NODE_ID, 3, (NODE_ID, 2), (NODE_ID, 2))

    async def whole() -> None:
        node = await Node(tmp_path).start()
        node.place("t", image)
        replica = node.replicas.find("t", 0)
        append(replica, b"a", b"b", b"c")
        replica.follower_fetched(2, 2, 0)
        assert node.replicas.high_watermark(replica.partition.topic_partition) == 2
        node.stop()
        again = await Node(tmp_path).start()
        again.place("t", replace(image, leader_epoch=4))
        assert again.replicas.find("t", 0).partition.high_watermark == 2
        again.stop()

    asyncio.run(whole())


def test_a_new_leader_epoch_is_noted_where_it_begins(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", ALONE)
        append(node.replicas.find("t", 0), b"a")
        node.place("t", replace(ALONE, leader_epoch=7))
        assert node.replicas.find("t", 0).epoch_end_offset(3, -1) == (3, 1)

    play(scenario, tmp_path)


def test_a_replica_that_moves_to_another_broker_is_removed_here(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", ALONE)
        node.place("t", PartitionImage(2, 4, (2,), (2,)))
        assert refusal(node, "t", 0) == Error.NOT_LEADER_OR_FOLLOWER
        assert len(node.replicas) == 0

    play(scenario, tmp_path)


def test_a_changed_topic_setting_holds_for_the_next_batch(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        change = ConfigChange(ResourceType.TOPIC, "t", {"max.message.bytes": "100"})
        await node.controller.alter_configs([change])
        with pytest.raises(ApiError) as caught:
            append(node.replicas.find("t", 0), b"x" * 200)
        assert caught.value.error == Error.MESSAGE_TOO_LARGE
        assert node.replicas.find("t", 0).log.settings is node.replicas.find("t", 0).settings

    play(scenario, tmp_path)


def test_a_changed_broker_default_holds_for_topics_that_do_not_override_it(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("plain")
        await node.create_topic("own", configs={"max.message.bytes": "5000"})
        config, _ = BrokerConfig.parse({**node.config.given, "message.max.bytes": "100"})
        node.replicas.reconfigure(config)
        assert node.replicas.find("plain", 0).settings.max_message_bytes == 100
        assert node.replicas.find("own", 0).settings.max_message_bytes == 5000

    play(scenario, tmp_path)


def test_a_replica_whose_log_cannot_be_made_is_offline_until_it_can(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        obstacle = tmp_path / "t-0"
        obstacle.write_text("in the way")
        topic_id = node.place("t", ALONE)
        assert refusal(node, "t", 0) == Error.KAFKA_STORAGE_ERROR
        obstacle.unlink()
        node.place("t", ALONE)
        wanted = FetchedPartition("", topic_id, 0, 0, 1000)
        assert append(node.replicas.find_fetched(wanted), b"a") == 0

    play(scenario, tmp_path)


def test_a_topic_id_that_is_not_that_of_the_log_is_refused(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic_id = node.place("t", ALONE)
        node.replicas.find("t", 0).log.topic_id = b"y" * 16
        with pytest.raises(ApiError) as caught:
            node.replicas.find_fetched(FetchedPartition("", topic_id, 0, 0, 1000))
        assert caught.value.error == Error.INCONSISTENT_TOPIC_ID

    play(scenario, tmp_path)


def test_a_fault_of_the_disk_is_an_error_of_the_partition(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", ALONE)
        replica = node.replicas.find("t", 0)
        node.store.delete(replica.partition.topic_partition)
        with pytest.raises(ApiError) as caught:
            append(replica, b"a")
        assert caught.value.error == Error.KAFKA_STORAGE_ERROR

    play(scenario, tmp_path)
