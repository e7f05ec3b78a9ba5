"""The requests of a group member, sent to a broker without its network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from moldau.model.errors import Error
from moldau.wire.messages.groups import (
    FindCoordinatorRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.support.services import Node, play, turns

JOIN, SYNC = 9, 5
"""The newest versions."""


def on_a_node(
    scenario: Callable[[Node], Awaitable[None]], directory: Path, **settings: str
) -> None:
    """A broker that has the topic of the groups and makes no member wait for others."""

    async def prepared(node: Node) -> None:
        await node.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        await scenario(node)

    defaults = {"offsets_topic_num_partitions": "2", "group_initial_rebalance_delay_ms": "0"}
    play(prepared, directory, **{**defaults, **settings})


def join_request(member_id: str = "", **options: Any) -> JoinGroupRequest:
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": member_id,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"meta")],
    }
    return JoinGroupRequest(**{**fields, **options})


async def join(node: Node, version: int = JOIN, **options: Any) -> Any:
    """As a client does: with the id that it is given, if it is told to come back."""
    task = node.park(join_request(**options), version)
    await turns()
    node.time.pass_ms(1)
    response = await task
    if response.error_code == Error.MEMBER_ID_REQUIRED:
        return await join(node, version, **{**options, "member_id": response.member_id})
    return response


async def join_and_sync(node: Node) -> str:
    joined = await join(node)
    synced = await node.call(sync_request(joined.member_id, joined.member_id), SYNC)
    assert synced.error_code == Error.NONE
    member_id: str = joined.member_id
    return member_id


def sync_request(member_id: str, *owners: str, generation: int = 1) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id="g",
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequestAssignment(member_id=owner, assignment=f"for {owner}".encode())
            for owner in owners
        ],
    )
