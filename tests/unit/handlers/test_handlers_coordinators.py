"""Finding coordinators, and markers that come as a request."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.messages.groups import FindCoordinatorRequest
from moldau.wire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.services import NODE_ID, Node, batch, play, turns

GROUP, TRANSACTION, SHARE = 0, 1, 2
OFFSETS, STATE = "__consumer_offsets", "__transaction_state"


@pytest.mark.parametrize("version", range(7))
def test_every_version_finds_the_coordinator_of_a_group(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        request = FindCoordinatorRequest(key="g", coordinator_keys=["g", "h"])
        response = await node.call(request, version)
        if version < 4:
            assert (response.error_code, response.node_id) == (0, NODE_ID)
            assert (response.host, response.port) == ("here.example", 9092)
            assert response.error_message == ("NONE" if version else None)
        else:
            assert [row.key for row in response.coordinators] == ["g", "h"]
            for row in response.coordinators:
                assert (row.error_code, row.node_id) == (0, NODE_ID)
                assert (row.host, row.port) == ("here.example", 9092)
                assert row.error_message == ""

    play(scenario, tmp_path, offsets_topic_num_partitions="3")


class Member:
    """Of a cluster, of which the test needs to know no more."""


@pytest.mark.parametrize(
    ("kind", "topic", "key"),
    [
        (GROUP, OFFSETS, "offsets.topic.replication.factor"),
        (TRANSACTION, STATE, "transaction.state.log.replication.factor"),
    ],
)
def test_a_cluster_makes_no_internal_topic_before_all_its_replicas_have_a_broker(
    kind: int, topic: str, key: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(node: Node) -> None:
        member: Any = Member()
        node.on.member = member
        for _ in range(3):
            response = await node.call(FindCoordinatorRequest(key="g", key_type=kind), 2)
            assert response.error_code == Error.COORDINATOR_NOT_AVAILABLE
        assert topic not in node.image.topics
        assert [record.getMessage() for record in caplog.records] == [
            f"{topic} is not there, so nobody coordinates: it needs 3 brokers ({key}), 1 are alive"
        ]
        node.on.member = None
        response = await node.call(FindCoordinatorRequest(key="g", key_type=kind), 2)
        assert response.error_code == Error.NONE, "a broker alone makes do with one replica"

    with caplog.at_level(logging.WARNING):
        play(scenario, tmp_path)


@pytest.mark.parametrize(
    ("kind", "topic", "key"),
    [
        (GROUP, OFFSETS, "offsets_topic_segment_bytes"),
        (TRANSACTION, STATE, "transaction_state_log_segment_bytes"),
    ],
)
def test_an_internal_topic_that_is_refused_says_why_and_says_it_once(
    kind: int, topic: str, key: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(node: Node) -> None:
        for _ in range(3):
            response = await node.call(FindCoordinatorRequest(key="g", key_type=kind), 2)
            assert response.error_code == Error.COORDINATOR_NOT_AVAILABLE
        (said,) = [record.getMessage() for record in caplog.records]
        assert said.startswith(f"{topic} is not there")
        assert "segment.bytes" in said

    with caplog.at_level(logging.WARNING):
        play(scenario, tmp_path, **{key: "1000"})


def test_the_topic_of_group_offsets_is_made_on_first_use(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        assert OFFSETS not in node.image.topics
        requests = [node.park(FindCoordinatorRequest(key="g"), 2) for _ in range(5)]
        found = await asyncio.gather(*requests)
        assert [response.error_code for response in found] == [0] * 5
        assert len(node.image.topics[OFFSETS].partitions) == 7
        assert node.image.topics[OFFSETS].partitions[0].replicas == (NODE_ID,)
        assert node.image.topic_configs[OFFSETS] == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
        }
        assert STATE not in node.image.topics
        assert len(node.on.groups.partitions()) == 7

    play(scenario, tmp_path, offsets_topic_num_partitions="7")


def test_the_topic_of_transactions_is_made_on_first_use(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["tx"])
        response = await node.call(request, 6)
        assert response.coordinators[0].error_code == 0
        assert len(node.image.topics[STATE].partitions) == 5
        assert node.image.topic_configs[STATE]["cleanup.policy"] == "compact"
        assert OFFSETS not in node.image.topics

    play(scenario, tmp_path, transaction_state_log_num_partitions="5")


def test_the_coordinator_is_the_leader_of_the_keys_partition(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        mine = PartitionImage(NODE_ID, 0, (NODE_ID,), (NODE_ID,))
        node.place(OFFSETS, mine, PartitionImage(2, 0, (2,), (2,)), mine)
        keys = [f"group-{number}" for number in range(3)]
        response = await node.call(FindCoordinatorRequest(coordinator_keys=keys), 4)
        found = {row.key: (row.error_code, row.node_id, row.port) for row in response.coordinators}
        for key in keys:
            if node.on.groups.partition_of(key) == 1:
                assert found[key] == (Error.COORDINATOR_NOT_AVAILABLE, -1, -1), "2 is not known"
            else:
                assert found[key] == (0, NODE_ID, 9092)
        assert {node.on.groups.partition_of(key) for key in keys} == {0, 1, 2}

    play(scenario, tmp_path)


@pytest.mark.parametrize(("key_type", "version"), [(SHARE, 6), (SHARE, 3), (7, 4)])
def test_other_kinds_of_coordinators_are_refused(
    key_type: int, version: int, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        request = FindCoordinatorRequest(key="k", key_type=key_type, coordinator_keys=["k"])
        response = await node.call(request, version)
        row = response if version < 4 else response.coordinators[0]
        assert (row.error_code, row.node_id) == (Error.INVALID_REQUEST, -1)
        assert not node.image.topics

    play(scenario, tmp_path)


def markers(*topics: tuple[str, list[int]], epoch: int = 0) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=9,
                producer_epoch=epoch,
                transaction_result=True,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                    for name, indexes in topics
                ],
            )
        ]
    )


@pytest.mark.parametrize("version", [1, 2])
def test_markers_can_be_asked_for(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", partitions=2)
        response = await node.call(markers(("t", [0, 1, 0]), ("gone", [3])), version)
        (row,) = response.markers
        assert row.producer_id == 9
        found = {
            (topic.name, p.partition_index): p.error_code
            for topic in row.topics
            for p in topic.partitions
        }
        assert found == {
            ("t", 0): 0,
            ("t", 1): 0,
            ("gone", 3): Error.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert node.replicas.find("t", 0).log.offset_end == 1, "one marker, though named twice"

    play(scenario, tmp_path)


def test_a_marker_wakes_readers_of_committed_records(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        records = batch(producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
        node.replicas.find("t", 0).append(memoryview(bytearray(records)), -1, 1_000_000)
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=30_000,
            min_bytes=1,
            isolation_level=1,
            topics=[FetchTopic(topic="t", partitions=[wanted])],
        )
        fetch = node.park(request, 11)
        await turns()
        assert not fetch.done()
        await node.call(markers(("t", [0])), 1)
        await turns()
        (topic,) = fetch.result().responses
        assert topic.partitions[0].last_stable_offset == 2
        assert topic.partitions[0].records

    play(scenario, tmp_path)


def test_one_more_coordinator_is_one_more_entry_of_the_list(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.on.coordinators = {**node.on.coordinators, SHARE: node.on.groups}
        request = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=["k"])
        (row,) = (await node.call(request, 6)).coordinators
        assert (row.error_code, row.node_id) == (0, NODE_ID)

    play(scenario, tmp_path)
