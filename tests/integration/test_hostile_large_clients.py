"""Limits that keep hostile clients away do not meet honest ones that are large.

An Admin that asks for 30,000 partitions, a consumer of 20,000, a tool that names all groups of a
cluster: whatever Apache Kafka serves in one request is served here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.model.errors import Error
from moldau.testing.broker_process import BrokerProcess
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from moldau.wire.messages.group_admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from moldau.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from moldau.wire.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.wire.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.wire.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.support.eventually import eventually
from tests.support.hostile_costs import Client, create

TOPIC, KNOWN = "large", 50
MANY = 30_000
GROUP = "g"
OVERRIDES = {"offsets.topic.num.partitions": "1", "auto.create.topics.enable": "false"}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder), overrides=OVERRIDES) as running,
    ):
        create(running.port, {TOPIC: KNOWN})
        with Client(running.port) as client:
            client.ask(10, 1, FindCoordinatorRequest(key=GROUP))
            eventually(lambda: set(commit(client, [0])) == {Error.NONE})
        yield running.port


def commit(client: Client, partitions: list[int], offset: int = 7) -> list[int]:
    rows = [
        OffsetCommitRequestPartition(partition_index=n, committed_offset=offset) for n in partitions
    ]
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=rows)]
    answer = client.ask(8, 8, OffsetCommitRequest(group_id=GROUP, topics=topics))
    assert isinstance(answer, OffsetCommitResponse)
    return [row.error_code for row in answer.topics[0].partitions]


def test_offsets_of_many_partitions_are_listed(port: int) -> None:
    rows = [ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(MANY)]
    for version in (1, 8):
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=rows)])
        with Client(port) as client:
            answer = client.ask(2, version, request)
        assert isinstance(answer, ListOffsetsResponse)
        found = answer.topics[0].partitions
        assert [row.partition_index for row in found] == list(range(MANY))
        assert {row.error_code for row in found[:KNOWN]} == {Error.NONE}
        assert {row.error_code for row in found[KNOWN:]} == {Error.UNKNOWN_TOPIC_OR_PARTITION}


def test_offsets_of_many_partitions_are_committed(port: int) -> None:
    with Client(port) as client:
        errors = commit(client, list(range(MANY)), 11)
        assert set(errors[:KNOWN]) == {Error.NONE}
        assert set(errors[KNOWN:]) == {Error.UNKNOWN_TOPIC_OR_PARTITION}
        assert set(commit(client, list(range(KNOWN)) * 300, 12)) == {Error.NONE}


def test_more_offsets_than_a_batch_holds_are_refused_with_kafkas_error(port: int) -> None:
    with Client(port) as client:
        errors = commit(client, [1] * MANY)
        assert set(errors) == {Error.INVALID_COMMIT_OFFSET_SIZE}
        assert commit(client, [1]) == [Error.NONE]


@pytest.mark.parametrize("topics", [1, 7, 10_000])
def test_offsets_of_many_partitions_are_fetched(port: int, topics: int) -> None:
    each = MANY // topics
    asked = [
        OffsetFetchRequestTopics(
            name=f"{TOPIC}-{n}" if n else TOPIC, partition_indexes=list(range(each))
        )
        for n in range(topics)
    ]
    with Client(port) as client:
        commit(client, list(range(min(KNOWN, each))), 13)
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=asked)])
        answer = client.ask(9, 8, request)
    assert isinstance(answer, OffsetFetchResponse)
    (group,) = answer.groups
    assert [topic.name for topic in group.topics] == [topic.name for topic in asked]
    for topic in group.topics:
        assert [row.partition_index for row in topic.partitions] == list(range(each))
    first = [row.committed_offset for row in group.topics[0].partitions]
    known = min(KNOWN, each)
    assert first == [13] * known + [-1] * (each - known)


def test_many_topics_are_described(port: int) -> None:
    rows = [MetadataRequestTopic(name=f"topic-{n}") for n in range(50_000)]
    with Client(port) as client:
        answer = client.ask(3, 9, MetadataRequest(topics=rows))
    assert isinstance(answer, MetadataResponse)
    assert len(answer.topics) == 50_000


def test_coordinators_of_many_groups_are_found_and_the_groups_described(port: int) -> None:
    names = [f"group-{n}" for n in range(20_000)]
    with Client(port) as client:
        found = client.ask(10, 4, FindCoordinatorRequest(key_type=0, coordinator_keys=names))
        assert isinstance(found, FindCoordinatorResponse)
        assert [row.key for row in found.coordinators] == names
        assert {row.error_code for row in found.coordinators} == {Error.NONE}
        described = client.ask(15, 5, DescribeGroupsRequest(groups=names))
    assert isinstance(described, DescribeGroupsResponse)
    assert [row.group_id for row in described.groups] == names


def test_records_of_many_partitions_are_deleted(port: int) -> None:
    rows = [DeleteRecordsPartition(partition_index=n, offset=0) for n in range(MANY)]
    topics = [DeleteRecordsTopic(name=TOPIC, partitions=rows)]
    with Client(port) as client:
        answer = client.ask(21, 2, DeleteRecordsRequest(topics=topics, timeout_ms=10_000))
    assert isinstance(answer, DeleteRecordsResponse)
    assert len(answer.topics[0].partitions) == MANY


def test_a_consumer_of_many_partitions_fetches(port: int) -> None:
    rows = [FetchPartition(partition=n, partition_max_bytes=1000) for n in range(20_000)]
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=10**6,
        session_epoch=0,
        topics=[FetchTopic(topic=TOPIC, partitions=rows)],
    )
    with Client(port) as client:
        answer = client.ask(1, 11, request)
    assert isinstance(answer, FetchResponse)
    assert answer.error_code == Error.NONE
    assert len(answer.responses[0].partitions) == 20_000
