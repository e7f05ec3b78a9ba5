"""Metadata and DescribeCluster: topics, brokers and the addresses of the client's listener."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from moldau.model.cluster import BrokerNode, Endpoint, PartitionImage
from moldau.model.errors import Error
from moldau.wire.messages.metadata import (
    DescribeClusterRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.support.services import HERE, LISTENER, NODE_ID, Node, play

NEWEST = 13
NOT_ASKED = -(2**31)
INSIDE = Endpoint("INSIDE", "inside.example", 9093)


def named(*names: str, create: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=create,
    )


def by_id(*ids: bytes) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
    return MetadataRequest(topics=topics)


def only_topic(response: MetadataResponse) -> MetadataResponseTopic:
    (topic,) = response.topics
    return topic


@pytest.mark.parametrize("version", range(14))
def test_every_version_tells_topics_brokers_and_leaders(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic_id = await node.create_topic("t", 2)
        response = await node.call(named("t"), version)
        (broker,) = response.brokers
        assert (broker.node_id, broker.host, broker.port) == (NODE_ID, "here.example", 9092)
        topic = only_topic(response)
        assert (topic.error_code, topic.name) == (0, "t")
        leaders = [(row.partition_index, row.leader_id) for row in topic.partitions]
        assert leaders == [(0, NODE_ID), (1, NODE_ID)]
        assert [row.replica_nodes for row in topic.partitions] == [[NODE_ID], [NODE_ID]]
        if version >= 2:
            assert response.cluster_id == node.image.cluster_id
        if version >= 10:
            assert topic.topic_id == topic_id

    play(scenario, tmp_path)


@pytest.mark.parametrize(
    ("version", "topics", "count"), [(0, [], 2), (1, None, 2), (1, [], 0), (12, None, 2)]
)
def test_null_asks_for_all_topics_and_in_version_0_so_does_an_empty_list(
    version: int, topics: list[MetadataRequestTopic] | None, count: int, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("a")
        await node.create_topic("b")
        response = await node.call(MetadataRequest(topics=topics), version)
        assert len(response.topics) == count

    play(scenario, tmp_path)


def test_a_topic_asked_for_twice_is_answered_once(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        assert len((await node.call(named("t", "t"), NEWEST)).topics) == 1

    play(scenario, tmp_path)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nowhere", Error.UNKNOWN_TOPIC_OR_PARTITION),
        ("bad name", Error.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, Error.INVALID_TOPIC_EXCEPTION),
        ("", Error.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_unknown_and_illegal_names_get_their_errors(
    name: str, error: Error, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        topic = only_topic(await node.call(named(name), 9))
        assert (topic.error_code, topic.name, topic.partitions) == (error, name, [])

    play(scenario, tmp_path)


def test_a_topic_is_created_when_it_is_first_asked_for(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic = only_topic(await node.call(named("new", create=True), NEWEST))
        assert (topic.error_code, len(topic.partitions)) == (0, 3)
        assert node.replicas.find("new", 2).partition.is_leader

    play(scenario, tmp_path, num_partitions="3")


def test_an_illegal_name_is_not_created(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topics = (await node.call(named("bad name", "good", create=True), NEWEST)).topics
        assert [topic.error_code for topic in topics] == [Error.INVALID_TOPIC_EXCEPTION, 0]
        assert list(node.image.topics) == ["good"]

    play(scenario, tmp_path)


def test_no_topic_is_created_unless_client_and_broker_agree(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic = only_topic(await node.call(named("new", create=True), NEWEST))
        assert topic.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert not node.image.topics

    play(scenario, tmp_path, auto_create_topics_enable="false")


def test_a_topic_that_cannot_be_created_stays_unknown(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic = only_topic(await node.call(named("new", create=True), NEWEST))
        assert topic.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION

    play(scenario, tmp_path, default_replication_factor="3")


def test_the_topic_of_group_offsets_is_created_with_its_own_settings(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic = only_topic(await node.call(named("__consumer_offsets", create=True), NEWEST))
        assert (topic.is_internal, len(topic.partitions)) == (True, 4)
        configs = node.image.topic_configs["__consumer_offsets"]
        assert configs["cleanup.policy"] == "compact"

    settings = {"offsets_topic_num_partitions": "4", "offsets_topic_replication_factor": "1"}
    play(scenario, tmp_path, **settings)


def test_topics_are_found_by_id_from_version_12_on(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic_id = await node.create_topic("t")
        known, unknown = (await node.call(by_id(topic_id, b"x" * 16), 12)).topics
        assert (known.error_code, known.name) == (0, "t")
        assert (unknown.error_code, unknown.name) == (Error.UNKNOWN_TOPIC_ID, None)

    play(scenario, tmp_path)


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_before_version_12(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic_id = await node.create_topic("t")
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t", topic_id=topic_id)])
        topic = only_topic(await node.call(request, version))
        assert topic.error_code == Error.INVALID_REQUEST
        null = MetadataRequest(topics=[MetadataRequestTopic(name=None)])
        assert only_topic(await node.call(null, version)).error_code == Error.INVALID_REQUEST

    play(scenario, tmp_path)


def test_a_client_gets_the_addresses_of_the_listener_it_came_through(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        brokers = {
            NODE_ID: BrokerNode(NODE_ID, (HERE, INSIDE)),
            2: BrokerNode(2, (HERE,)),
        }
        node.controller.image = replace(node.image, brokers=brokers)
        outside = await node.call(named("t"), NEWEST, listener=LISTENER)
        assert [broker.host for broker in outside.brokers] == ["here.example", "here.example"]
        inside = await node.call(named("t"), NEWEST, listener="INSIDE")
        assert [broker.host for broker in inside.brokers] == ["inside.example"]

    play(scenario, tmp_path)


def test_a_leader_that_cannot_be_reached_is_an_error_of_the_partition(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place(
            "t",
            PartitionImage(-1, 3, (NODE_ID,), (NODE_ID,)),
            PartitionImage(2, 3, (NODE_ID, 2), (NODE_ID, 2)),
        )
        rows = only_topic(await node.call(named("t"), NEWEST)).partitions
        assert [row.error_code for row in rows] == [Error.LEADER_NOT_AVAILABLE] * 2
        assert [row.leader_id for row in rows] == [-1, -1]
        assert rows[1].offline_replicas == [2]
        brokers = {**node.image.brokers, 2: BrokerNode(2, (INSIDE,))}
        node.controller.image = replace(node.image, brokers=brokers)
        rows = only_topic(await node.call(named("t"), NEWEST)).partitions
        assert rows[1].error_code == Error.LISTENER_NOT_FOUND
        rows = only_topic(await node.call(named("t"), 5)).partitions
        assert rows[1].error_code == Error.LEADER_NOT_AVAILABLE

    play(scenario, tmp_path)


def test_operations_are_told_to_whoever_asks_for_them(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        request = named("t", "nowhere")
        plain = await node.call(request, 10)
        assert plain.cluster_authorized_operations == NOT_ASKED
        assert only_topic(await node.call(named("t"), 10)).topic_authorized_operations == NOT_ASKED
        request.include_topic_authorized_operations = True
        request.include_cluster_authorized_operations = True
        full = await node.call(request, 10)
        assert full.cluster_authorized_operations == 8096
        assert [topic.topic_authorized_operations for topic in full.topics] == [3576, 3576]

    play(scenario, tmp_path)


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described_in_every_version(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = await node.call(request, version)
        assert (response.error_code, response.cluster_id) == (0, node.image.cluster_id)
        assert (response.controller_id, response.cluster_authorized_operations) == (NODE_ID, 8096)
        (broker,) = response.brokers
        assert (broker.broker_id, broker.host, broker.rack) == (NODE_ID, "here.example", "rack-a")

    play(scenario, tmp_path)


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [(2, Error.MISMATCHED_ENDPOINT_TYPE), (3, Error.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_a_broker_listener_describes_brokers_only(
    endpoint_type: int, error: Error, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        response = await node.call(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
        assert (response.error_code, response.brokers) == (error, [])

    play(scenario, tmp_path)
