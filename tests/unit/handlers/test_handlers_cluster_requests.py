"""What a broker does with the controller's requests, beside the replicas themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from moldau.handlers.cluster import state_change_requests
from moldau.handlers.cluster.state_change_requests import leader_and_isr, update_metadata
from moldau.handlers.request_context import RequestContext
from moldau.model.cluster import ClusterImage
from moldau.model.errors import Error
from moldau.replication.metadata_cache import FULL, ClusterView
from moldau.wire.messages.replication import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.support.services import NODE_ID, Node, play, turns

CONTEXT = RequestContext(4, 7, "controller", "PLAINTEXT")
TOPIC = "__consumer_offsets"
TOPIC_ID = b"i" * 16
NEWS = 1
"""The type of a request that names what has changed."""


class Member:
    """Tells the coordinators of this broker's roles, as the member of a cluster does."""

    broker_epoch = 1

    def __init__(self, node: Node) -> None:
        self.turn = asyncio.Lock()
        self._node = node
        self.view = ClusterView(NODE_ID, "cluster")

    async def registered(self) -> None: ...

    def publish(self, image: ClusterImage) -> None:
        self._node.coordinators.follow(image, image)

    async def learn_topics(self, names: Collection[str]) -> None: ...

    async def learn_late_topics(self) -> None: ...


def roles(leader: int, epoch: int) -> LeaderAndIsrRequest:
    """Two partitions."""
    states = [
        LeaderAndIsrPartitionState(
            partition_index=partition,
            controller_epoch=epoch,
            leader=leader,
            leader_epoch=epoch,
            isr=[NODE_ID, 2],
            partition_epoch=epoch,
            replicas=[NODE_ID, 2],
        )
        for partition in (0, 1)
    ]
    topic = LeaderAndIsrTopicState(topic_name=TOPIC, topic_id=TOPIC_ID, partition_states=states)
    return LeaderAndIsrRequest(
        controller_id=2, controller_epoch=epoch, broker_epoch=1, topic_states=[topic]
    )


def test_coordinators_hear_of_roles_that_were_taken_before_another_controller_spoke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_change_requests, "ROLES_AT_ONCE", 1)

    async def scenario(node: Node) -> None:
        member: Any = Member(node)
        node.on.member = member
        answer = await leader_and_isr(roles(NODE_ID, 1), CONTEXT, node.on)
        assert answer.error_code == Error.NONE
        assert node.coordinators.groups.partitions() == [0, 1]
        asked = node.loop.create_task(leader_and_isr(roles(2, 2), CONTEXT, node.on))
        await turns(1)
        # Between two of its slices the request turns out to be that of an earlier controller.
        member.view.heard(3)
        await turns()
        assert (await asked).error_code == Error.STALE_CONTROLLER_EPOCH
        assert node.replicas.led(TOPIC) == {1: 1}
        assert node.coordinators.groups.partitions() == [1]

    play(scenario, tmp_path)


def told(*, epoch: int, kind: int, leader: int = 2, topic_id: bytes = TOPIC_ID) -> Any:
    row = UpdateMetadataPartitionState(
        partition_index=0, leader=leader, isr=[2], replicas=[2], leader_epoch=epoch
    )
    topic = UpdateMetadataTopicState(topic_name="t", topic_id=topic_id, partition_states=[row])
    return UpdateMetadataRequest(
        controller_id=2,
        controller_epoch=epoch,
        broker_epoch=1,
        type=kind,
        topic_states=[topic],
        live_brokers=[],
    )


def test_settings_are_read_of_topics_that_are_new_or_made_anew_also_without_a_replica(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        member: Any = Member(node)
        node.on.member = member
        asked: list[set[str]] = []

        async def learn_topics(names: Collection[str]) -> None:
            asked.append(set(names))

        async def learn_late_topics() -> None:
            asked.append({"late"})

        member.learn_topics, member.learn_late_topics = learn_topics, learn_late_topics
        context = CONTEXT._replace(api_key=6, api_version=7)
        for change, expected in (
            # What a broker is told first was there when it read everything, but for the latest.
            (told(epoch=1, kind=FULL), [{"late"}]),
            (told(epoch=1, kind=NEWS), []),
            (told(epoch=1, kind=NEWS, topic_id=b"j" * 16), [{"t"}]),
            (told(epoch=1, kind=NEWS, leader=-2, topic_id=b"j" * 16), []),
            (told(epoch=1, kind=NEWS), [{"t"}]),
            (told(epoch=2, kind=FULL, topic_id=b"k" * 16), [{"t"}]),
        ):
            asked.clear()
            answer = await update_metadata(change, context, node.on)
            assert (answer.error_code, asked) == (Error.NONE, expected)

    play(scenario, tmp_path)
