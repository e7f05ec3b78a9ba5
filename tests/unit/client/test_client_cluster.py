"""What a client knows of topics, leaders and coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moldau.client.network.cluster_metadata import Cluster, CoordinatorKind
from moldau.client.network.network_client import Network, NetworkSettings
from moldau.client.shared.client_errors import InvalidTopicError, KafkaTimeoutError
from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.wire.messages.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.wire.messages.metadata import MetadataRequest, MetadataResponseTopic
from moldau.wire.messages.produce import NodeEndpoint
from tests.support.scripted_broker import ScriptedBroker

QUICK = NetworkSettings(retry_backoff_ms=1, reconnect_backoff_ms=1)


def go(
    scenario: Callable[[ScriptedBroker, Cluster], Coroutine[Any, Any, None]], age_ms: int = 60_000
) -> None:
    async def main() -> None:
        async with ScriptedBroker() as broker:
            network = Network([broker.bootstrap], client_id="me", settings=QUICK)
            await scenario(broker, Cluster(network, metadata_max_age_ms=age_ms))
            await network.close()

    asyncio.run(asyncio.wait_for(main(), 20))


def asked(broker: ScriptedBroker) -> list[list[str | None] | None]:
    return [
        None if request.topics is None else [topic.name for topic in request.topics]
        for request, _ in broker.requests
        if isinstance(request, MetadataRequest)
    ]


def test_a_topic_is_known_by_name_and_id_once_asked_for() -> None:
    async def scenario(broker: ScriptedBroker, cluster: Cluster) -> None:
        broker.add_topic("t", leader_epoch=7)
        assert cluster.topic("t") is None
        await cluster.refresh(["t"])
        assert cluster.leader("t", 0) == (0, 7)
        assert cluster.topic_name(cluster.topic_id("t")) == "t"
        assert (cluster.cluster_id, cluster.controller_id) == ("scripted", 0)
        assert [node.port for node in cluster.brokers] == [broker.port]
        assert cluster.leader("t", 1) is None
        led, unknown = cluster.group_by_leader([TopicPartition("t", 0), TopicPartition("u", 0)])
        assert led == {0: [TopicPartition("t", 0)]}
        assert unknown == [TopicPartition("u", 0)]

    go(scenario)


def test_a_refresh_asks_for_every_topic_of_interest() -> None:
    async def scenario(broker: ScriptedBroker, cluster: Cluster) -> None:
        await cluster.refresh(["a"])
        await cluster.refresh(["b"])
        await cluster.refresh()
        cluster.drop_interest(["a"])
        await cluster.refresh()
        await cluster.refresh_all()
        await cluster.refresh_brokers()
        assert asked(broker) == [["a"], ["b"], ["a", "b"], ["b"], None, []]

    go(scenario)


def test_a_missing_topic_is_waited_for() -> None:
    async def scenario(broker: ScriptedBroker, cluster: Cluster) -> None:
        waiting = asyncio.ensure_future(cluster.partitions_for("late", 5000))
        while len(asked(broker)) < 2:
            await asyncio.sleep(0)
        assert cluster.topic_error("late") is Error.UNKNOWN_TOPIC_OR_PARTITION
        broker.add_topic("late")
        assert [row.partition for row in await waiting] == [0]

    go(scenario)


def test_a_topic_that_does_not_come_is_a_time_out_in_kafkas_words() -> None:
    async def scenario(broker: ScriptedBroker, cluster: Cluster) -> None:
        message = "Topic never not present in metadata after 30 ms"
        with pytest.raises(KafkaTimeoutError, match=message):
            await cluster.partitions_for("never", 30)

    go(scenario)


def test_a_topic_that_cannot_be_is_refused_at_once() -> None:
    async def scenario(broker: ScriptedBroker, cluster: Cluster) -> None:
        broker.topics["a/b"] = MetadataResponseTopic(name="a/b", error_code=17)
        with pytest.raises(InvalidTopicError):
            await cluster.partitions_for("a/b", 5000)

    go(scenario)


def test_a_broker_that_lags_behind_does_not_undo_a_newer_leader() -> None:
    async def scenario(broker: ScriptedBroker, cluster: Cluster) -> None:
        broker.add_topic("t", leader=1, leader_epoch=5)
        await cluster.refresh(["t"])
        broker.add_topic("t", leader=2, leader_epoch=4)
        await cluster.refresh()
        assert cluster.leader("t", 0) == (1, 5)
        broker.topics["t"].topic_id = b"another topic id"
        await cluster.refresh()
        assert cluster.leader("t", 0) == (2, 4)

    go(scenario)


def test_a_refusal_that_names_the_new_leader_needs_no_refresh() -> None:
    async def scenario(broker: ScriptedBroker, cluster: Cluster) -> None:
        broker.add_topic("t", leader_epoch=5)
        await cluster.refresh(["t"])
        endpoint = NodeEndpoint(node_id=9, host="other", port=1)
        assert cluster.leader_moved("t", 0, 9, 6, [endpoint])
        assert cluster.leader("t", 0) == (9, 6)
        assert not cluster.leader_moved("t", 0, 8, 6)
        assert not cluster.leader_moved("unknown", 0, 8, 6)

    go(scenario)


def test_a_deleted_topic_is_forgotten_when_all_are_asked_for() -> None:
    async def scenario(broker: ScriptedBroker, cluster: Cluster) -> None:
        broker.add_topic("t")
        await cluster.refresh(["t"])
        topic_id = cluster.topic_id("t")
        broker.topics.clear()
        await cluster.refresh_all()
        assert cluster.topic("t") is None
        assert cluster.topic_name(topic_id) is None
        assert cluster.topic_id("t") == NO_TOPIC_ID

    go(scenario)


def test_knowledge_grows_old() -> None:
    async def scenario(broker: ScriptedBroker, cluster: Cluster) -> None:
        assert cluster.is_old
        await cluster.refresh(["t"])
        assert cluster.is_old

    go(scenario, age_ms=0)


@pytest.mark.parametrize(
    ("kind", "node_id"),
    [(CoordinatorKind.GROUP, 2147483647 - 4), (CoordinatorKind.TRANSACTION, 4)],
)
@pytest.mark.parametrize("version_max", [3, 6])
def test_a_coordinator_is_looked_up_until_found_and_then_remembered(
    kind: CoordinatorKind, node_id: int, version_max: int
) -> None:
    tries: list[FindCoordinatorRequest] = []

    def find(request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
        tries.append(request)
        error = Error.COORDINATOR_NOT_AVAILABLE if len(tries) < 3 else Error.NONE
        row = Coordinator(key="g", node_id=4, host="127.0.0.1", port=1, error_code=error)
        return FindCoordinatorResponse(
            coordinators=[row], error_code=error, node_id=4, host="127.0.0.1", port=1
        )

    async def scenario(broker: ScriptedBroker, cluster: Cluster) -> None:
        broker.served[10] = (0, version_max)
        broker.answers[FindCoordinatorRequest] = find
        assert await cluster.coordinator("g", kind) == node_id
        assert await cluster.coordinator("g", kind) == node_id
        assert len(tries) == 3
        assert tries[0].key_type == kind
        cluster.forget_coordinator("g", kind)
        await cluster.coordinator("g", kind)
        assert len(tries) == 4

    go(scenario)
