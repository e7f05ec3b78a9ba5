"""DescribeQuorum: a quorum of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.model.errors import Error
from moldau.wire.messages.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from tests.support.services import HERE, NODE_ID, Node, play


async def describe(
    node: Node, version: int = 2, topic: str = "__cluster_metadata", partition: int = 0
) -> Any:
    row = DescribeQuorumRequestPartition(partition_index=partition)
    asked = DescribeQuorumRequestTopic(topic_name=topic, partitions=[row])
    return await node.call(DescribeQuorumRequest(topics=[asked]), version)


@pytest.mark.parametrize("version", range(3))
def test_this_node_leads_and_has_everything(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        response = await describe(node, version)
        assert response.error_code == Error.NONE
        (row,) = response.topics[0].partitions
        (voter,) = row.current_voters
        assert (row.error_code, row.leader_id, row.leader_epoch) == (Error.NONE, NODE_ID, 1)
        assert (voter.replica_id, voter.log_end_offset) == (NODE_ID, row.high_watermark)
        assert row.observers == []
        now = node.clock.wall_ms() if version > 0 else -1
        assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (now, now)
        if version > 1:
            (listener,) = response.nodes[0].listeners
            assert (listener.name, listener.host, listener.port) == (
                HERE.listener,
                HERE.host,
                HERE.port,
            )
        await node.create_topic("t")
        after = await describe(node, version)
        assert after.topics[0].partitions[0].high_watermark > row.high_watermark

    play(scenario, tmp_path)


@pytest.mark.parametrize(("topic", "partition"), [("t", 0), ("__cluster_metadata", 1)])
def test_no_other_partition_has_a_quorum(topic: str, partition: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        response = await describe(node, topic=topic, partition=partition)
        (row,) = response.topics[0].partitions
        assert response.error_code == Error.NONE
        assert (row.partition_index, row.error_code) == (
            partition,
            Error.UNKNOWN_TOPIC_OR_PARTITION,
        )

    play(scenario, tmp_path)
