"""ApiVersions, InitProducerId, DescribeLogDirs, AlterReplicaLogDirs and the routing table."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from moldau.handlers.routes import ROUTES
from moldau.model.errors import Error
from moldau.wire.apis import OWN_FROM, api
from moldau.wire.messages.api_versions import ApiVersionsRequest
from moldau.wire.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from moldau.wire.messages.transactions import InitProducerIdRequest
from tests.support.services import Node, batch, play, turns

PRODUCE, FETCH, LIST_OFFSETS = 0, 1, 2


# The routing table


@pytest.mark.parametrize("api_key", sorted(ROUTES))
def test_a_route_leads_to_a_handler_and_to_versions_that_are_declared(api_key: int) -> None:
    route, row = ROUTES[api_key], api(api_key)
    assert inspect.iscoroutinefunction(route.function)
    assert row is not None
    assert row.version_min <= route.version_min <= route.version_max <= row.version_max


def test_records_are_written_and_read_in_every_version_that_there_ever_was() -> None:
    # Besides, librdkafka gives up compression unless Produce is told from 0 on (KAFKA-18659).
    for api_key, version_max in ((PRODUCE, 13), (FETCH, 18), (LIST_OFFSETS, 11)):
        served = [ROUTES[api_key].serves(version) for version in (0, version_max, version_max + 1)]
        assert served == [True, True, False]


# ApiVersions


@pytest.mark.parametrize("version", range(5))
def test_what_is_served_is_what_is_told(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        request = ApiVersionsRequest(client_software_name="apache", client_software_version="4.3.1")
        response = await node.call(request, version)
        told = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
        assert response.error_code == 0
        assert told == {
            key: (route.version_min, route.version_max)
            for key, route in ROUTES.items()
            if key < OWN_FROM
        }
        assert list(told) == sorted(told)

    play(scenario, tmp_path)


def test_moldaus_own_requests_are_told_to_moldaus_own_clients(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        request = ApiVersionsRequest(client_software_name="moldau", client_software_version="1")
        told = {row.api_key for row in (await node.call(request, 4)).api_keys}
        assert told == set(ROUTES)

    play(scenario, tmp_path)


@pytest.mark.parametrize("version", [3, 4])
def test_the_features_are_told_with_the_levels_they_are_at(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        request = ApiVersionsRequest(client_software_name="c", client_software_version="1")
        response = await node.call(request, version)
        supported = [(f.name, f.min_version, f.max_version) for f in response.supported_features]
        # Clients of version 3 cannot be told of a feature whose versions begin at 0.
        rows = [("metadata.version", 7, 30), ("transaction.version", 0, 2)]
        assert supported == (rows if version > 3 else rows[:1])
        levels = {
            row.name: (row.min_version_level, row.max_version_level)
            for row in response.finalized_features
        }
        assert levels == {"metadata.version": (30, 30), "transaction.version": (2, 2)}
        assert (response.finalized_features_epoch, response.zk_migration_ready) == (0, False)

    play(scenario, tmp_path)


@pytest.mark.parametrize(
    ("name", "software_version"),
    [("", "1"), ("-x", "1"), ("x-", "1"), ("a b", "1"), ("x", ""), ("x", "1."), ("ä", "1")],
)
def test_a_client_with_an_improper_name_or_version_is_refused(
    name: str, software_version: str, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        request = ApiVersionsRequest(
            client_software_name=name, client_software_version=software_version
        )
        response = await node.call(request, 3)
        assert (response.error_code, response.api_keys) == (Error.INVALID_REQUEST, [])

    play(scenario, tmp_path)


# InitProducerId


@pytest.mark.parametrize("version", range(6))
def test_every_idempotent_producer_gets_an_id_of_its_own(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        request = InitProducerIdRequest(transactional_id=None)
        answers = [await node.call(request, version) for _ in range(3)]
        assert [(row.error_code, row.producer_epoch) for row in answers] == [(0, 0)] * 3
        assert len({row.producer_id for row in answers}) == 3

    play(scenario, tmp_path)


def test_producers_that_come_at_once_share_a_block_of_ids(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        waiting = [node.park(InitProducerIdRequest(transactional_id=None), 5) for _ in range(50)]
        await turns()
        assert {task.result().producer_id for task in waiting} == set(range(50))

    play(scenario, tmp_path)


@pytest.mark.parametrize(
    "request_",
    [
        InitProducerIdRequest(transactional_id=""),
        InitProducerIdRequest(transactional_id=None, producer_id=5),
        InitProducerIdRequest(transactional_id=None, producer_epoch=5),
    ],
    ids=["empty id", "id without epoch", "epoch without id"],
)
def test_a_producer_that_is_half_named_is_refused(
    request_: InitProducerIdRequest, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        response = await node.call(request_, 5)
        assert (response.error_code, response.producer_id) == (Error.INVALID_REQUEST, -1)

    play(scenario, tmp_path)


# DescribeLogDirs


@pytest.mark.parametrize("version", range(1, 6))
def test_a_directory_tells_its_partitions_and_their_size(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("a", 2)
        await node.create_topic("b")
        records = batch(b"x")
        node.replicas.find("a", 1).append(memoryview(bytearray(records)), 1, 1_000_000)
        response = await node.call(DescribeLogDirsRequest(topics=None), version)
        (result,) = response.results
        assert (result.error_code, result.log_dir) == (0, str(tmp_path))
        sizes = {
            (topic.name, row.partition_index): (row.partition_size, row.offset_lag)
            for topic in result.topics
            for row in topic.partitions
        }
        assert sizes == {("a", 0): (0, 0), ("a", 1): (len(records), 0), ("b", 0): (0, 0)}
        if version >= 4:
            assert 0 < result.usable_bytes <= result.total_bytes

    play(scenario, tmp_path)


def test_only_partitions_that_were_asked_for_are_told(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("a", 2)
        request = DescribeLogDirsRequest(
            topics=[DescribableLogDirTopic(topic="a", partitions=[1, 9])]
        )
        (topic,) = (await node.call(request, 4)).results[0].topics
        assert [row.partition_index for row in topic.partitions] == [1]
        none = await node.call(DescribeLogDirsRequest(topics=[]), 4)
        assert none.results[0].topics == []

    play(scenario, tmp_path)


# AlterReplicaLogDirs


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_may_stay_where_it_is_and_nowhere_else(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("a", 2)
        asked = [AlterReplicaLogDirTopic(name="a", partitions=[1, 9])]
        rows = []
        for path in (str(tmp_path), "/nowhere"):
            directory = AlterReplicaLogDir(path=path, topics=asked)
            response = await node.call(AlterReplicaLogDirsRequest(dirs=[directory]), version)
            (topic,) = response.results
            rows += [(row.partition_index, row.error_code) for row in topic.partitions]
        assert rows == [
            (1, Error.NONE),
            (9, Error.UNKNOWN_TOPIC_OR_PARTITION),
            (1, Error.LOG_DIR_NOT_FOUND),
            (9, Error.LOG_DIR_NOT_FOUND),
        ]

    play(scenario, tmp_path)
