"""What a broker does with the controller's requests, beside the replicas themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from moldau.handlers.cluster import state_change_requests
from moldau.handlers.cluster.state_change_requests import leader_and_isr
from moldau.handlers.request_context import RequestContext
from moldau.model.cluster import ClusterImage
from moldau.model.errors import Error
from moldau.replication.metadata_cache import ClusterView
from moldau.wire.messages.replication import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from tests.support.services import NODE_ID, Node, play, turns

CONTEXT = RequestContext(4, 7, "controller", "PLAINTEXT")
TOPIC = "__consumer_offsets"
TOPIC_ID = b"i" * 16


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
