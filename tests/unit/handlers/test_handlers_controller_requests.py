"""What brokers ask of the controller, over the fields of every version."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moldau.controller.rules.topic_rules import NewTopic
from moldau.handlers.cluster.controller_requests import (
    allocate_producer_ids,
    alter_partition,
    controlled_shutdown,
)
from moldau.handlers.request_context import RequestContext
from moldau.handlers.routes import ROUTES, cluster_routes
from moldau.handlers.services import Services
from moldau.model.errors import Error
from moldau.testing.shared_tree import SharedTree
from moldau.wire.apis import api
from moldau.wire.messages.brokers import AllocateProducerIdsRequest
from moldau.wire.messages.partitions import (
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
    BrokerState,
)
from moldau.wire.messages.replication import ControlledShutdownRequest
from tests.support.controllers import Contender, eventually


def play(story: Callable[[Contender, Contender], Awaitable[None]]) -> None:
    """With the controller, and with a broker that is not."""

    async def whole() -> None:
        async with asyncio.timeout(10):
            tree, brokers = SharedTree(), cast("dict[int, Contender]", {})
            for node_id in (0, 1):
                await Contender(tree, node_id, brokers).start()
            await eventually(lambda: any(b.is_controller for b in brokers.values()))
            await eventually(lambda: all(len(b.view.image.brokers) == 2 for b in brokers.values()))
            controller = next(b for b in brokers.values() if b.is_controller)
            other = next(b for b in brokers.values() if not b.is_controller)
            await controller.controller.create_topics([NewTopic("t", 1, 2)])
            await story(controller, other)
            for broker in brokers.values():
                await broker.stop()

    asyncio.run(whole())


def on(broker: Contender) -> Services:
    return cast("Services", SimpleNamespace(member=broker))


def ctx(api_key: int, version: int) -> RequestContext:
    return RequestContext(api_key, version, None, "PLAINTEXT")


def request(broker: Contender, version: int, *isr: int, **given: Any) -> AlterPartitionRequest:
    row = AlterPartitionRequestPartition(
        partition_index=0,
        leader_epoch=given.get("leader_epoch", 0),
        partition_epoch=given.get("partition_epoch", 0),
    )
    if version >= 3:
        row.new_isr_with_epochs = [BrokerState(broker_id=member) for member in isr]
    else:
        row.new_isr = list(isr)
    topic = AlterPartitionRequestTopic(partitions=[row])
    if version >= 2:
        topic.topic_id = given.get("topic_id", broker.view.image.topics["t"].id)
    else:
        topic.topic_name = "t"
    epoch = given.get("broker_epoch", broker.broker_epoch)
    return AlterPartitionRequest(broker_id=broker.node_id, broker_epoch=epoch, topics=[topic])


@pytest.mark.parametrize("version", range(4))
def test_a_leader_changes_its_isr_in_every_version(version: int) -> None:
    async def story(controller: Contender, other: Contender) -> None:
        await eventually(lambda: "t" in other.view.image.topics)
        leader = controller.view.image.topics["t"].partitions[0].leader
        asker = controller if controller.node_id == leader else other
        asked = request(asker, version, leader)
        response = await alter_partition(asked, ctx(56, version), on(controller))
        (row,) = response.topics[0].partitions
        assert (row.error_code, row.isr, row.partition_epoch) == (Error.NONE, [leader], 1)
        assert (row.leader_id, row.leader_epoch) == (leader, 0)
        again = request(asker, version, 0, 1, partition_epoch=0)
        response = await alter_partition(again, ctx(56, version), on(controller))
        assert response.topics[0].partitions[0].error_code == Error.INVALID_UPDATE_VERSION

    play(story)


def test_an_unknown_topic_id_a_stale_broker_and_the_wrong_broker_are_told_so() -> None:
    async def story(controller: Contender, other: Contender) -> None:
        await eventually(lambda: "t" in other.view.image.topics)
        unknown = request(controller, 3, 0, topic_id=b"?" * 16)
        response = await alter_partition(unknown, ctx(56, 3), on(controller))
        assert response.topics[0].partitions[0].error_code == Error.UNKNOWN_TOPIC_ID
        stale = request(controller, 3, 0, broker_epoch=-5)
        response = await alter_partition(stale, ctx(56, 3), on(controller))
        assert response.error_code == Error.STALE_BROKER_EPOCH
        response = await alter_partition(request(other, 3, 0), ctx(56, 3), on(other))
        assert response.error_code == Error.NOT_CONTROLLER

    play(story)


def test_a_broker_that_stops_is_told_what_it_still_leads() -> None:
    async def story(controller: Contender, other: Contender) -> None:
        asked = ControlledShutdownRequest(broker_id=0, broker_epoch=-1)
        assert (await controlled_shutdown(asked, ctx(7, 3), on(controller))).error_code == 0
        asked = ControlledShutdownRequest(broker_id=1, broker_epoch=-1)
        response = await controlled_shutdown(asked, ctx(7, 3), on(controller))
        rows = [(row.topic_name, row.partition_index) for row in response.remaining_partitions]
        assert rows == [("t", 0)], "the other one stops too"
        refused = await controlled_shutdown(asked, ctx(7, 3), on(other))
        assert refused.error_code == Error.NOT_CONTROLLER

    play(story)


def test_producer_ids_are_allotted_to_brokers_that_are_registered() -> None:
    async def story(controller: Contender, other: Contender) -> None:
        asked = AllocateProducerIdsRequest(broker_id=1, broker_epoch=-7)
        response = await allocate_producer_ids(asked, ctx(67, 0), on(controller))
        assert response.error_code == Error.STALE_BROKER_EPOCH
        epoch = next(b.broker_epoch for b in (controller, other) if b.node_id == 1)
        asked = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
        response = await allocate_producer_ids(asked, ctx(67, 0), on(controller))
        assert (response.producer_id_start, response.producer_id_len) == (0, 1000)

    play(story)


def test_what_controllers_and_brokers_ask_is_served_in_a_cluster_only() -> None:
    routes = cluster_routes()
    assert routes.keys() - ROUTES.keys() == {4, 5, 6, 7, 56, 67}
    assert ROUTES.keys() - routes.keys() == {55}
    for key in (4, 5, 6, 7, 56, 67):
        row = api(key)
        assert row is not None
        assert row.version_min <= routes[key].version_min
        assert routes[key].version_max <= row.version_max
        assert routes[key].function.__module__.startswith("moldau.handlers.")
