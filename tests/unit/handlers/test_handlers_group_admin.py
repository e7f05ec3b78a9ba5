"""Describing, listing and deleting groups over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.groups import offset_expiry
from moldau.groups.group_commands import CommitOffsets, OffsetRow
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.wire.messages.group_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from moldau.wire.messages.groups import FindCoordinatorRequest, HeartbeatRequest
from moldau.wire.primitives import INT32_MIN
from tests.support.group_requests import join_and_sync
from tests.support.services import Node, play

DESCRIBE, LIST, DELETE = 6, 5, 2
"""The newest versions."""
READ_DELETE_DESCRIBE_AND_CONFIGS = 3400


def on_a_node(scenario: Any, directory: Path) -> None:
    """With a stable group `g` and a group `simple` that only keeps offsets."""

    async def prepared(node: Node) -> None:
        await node.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        member_id = await join_and_sync(node)
        row = OffsetRow(TopicPartition("orders", 0), 5)
        await node.on.groups.submit("simple", CommitOffsets("simple", (row,)))
        await scenario(node, member_id)

    play(
        prepared,
        directory,
        offsets_topic_num_partitions="7",
        group_initial_rebalance_delay_ms="0",
    )


@pytest.mark.parametrize("version", range(DESCRIBE + 1))
def test_every_version_describes(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node, member_id: str) -> None:
        request = DescribeGroupsRequest(groups=["g", "simple", "nobody"])
        stable, simple, nobody = (await node.call(request, version)).groups
        assert (stable.error_code, stable.group_state) == (Error.NONE, "Stable")
        assert (stable.protocol_type, stable.protocol_data) == ("consumer", "range")
        (member,) = stable.members
        assert (member.member_id, member.client_id) == (member_id, "test")
        assert member.client_host.startswith("/")
        assert (member.member_metadata, member.member_assignment) == (
            b"meta",
            f"for {member_id}".encode(),
        )
        assert (simple.error_code, simple.group_state, simple.members) == (0, "Empty", [])
        assert nobody.group_state == "Dead"
        if version >= 6:
            assert nobody.error_code == Error.GROUP_ID_NOT_FOUND
            assert nobody.error_message == "Group nobody not found."
        else:
            assert nobody.error_code == Error.NONE

    on_a_node(scenario, tmp_path)


def test_who_asks_is_told_what_may_be_done_with_a_group(tmp_path: Path) -> None:
    async def scenario(node: Node, member_id: str) -> None:
        request = DescribeGroupsRequest(groups=["g", "nobody"], include_authorized_operations=True)
        known, unknown = (await node.call(request, DESCRIBE)).groups
        assert known.authorized_operations == READ_DELETE_DESCRIBE_AND_CONFIGS
        assert unknown.authorized_operations == INT32_MIN
        request.include_authorized_operations = False
        known, _ = (await node.call(request, DESCRIBE)).groups
        assert known.authorized_operations == INT32_MIN

    on_a_node(scenario, tmp_path)


@pytest.mark.parametrize("version", range(LIST + 1))
def test_every_version_lists_the_groups_of_all_partitions(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node, member_id: str) -> None:
        assert node.on.groups.partition_of("g") != node.on.groups.partition_of("simple")
        response = await node.call(ListGroupsRequest(), version)
        assert response.error_code == Error.NONE
        rows = {row.group_id: row for row in response.groups}
        assert {name: row.protocol_type for name, row in rows.items()} == {
            "g": "consumer",
            "simple": "",
        }
        if version >= 4:
            assert rows["g"].group_state == "Stable"
        if version >= 5:
            assert rows["g"].group_type == "classic"

    on_a_node(scenario, tmp_path)


def test_lists_are_filtered_by_state_and_type_in_any_case(tmp_path: Path) -> None:
    async def scenario(node: Node, member_id: str) -> None:
        for states, types, names in (
            (["STABLE"], [], ["g"]),
            (["Empty"], [], ["simple"]),
            (["Nonsense"], [], []),
            ([], ["Classic"], ["g", "simple"]),
            ([], ["consumer"], []),
        ):
            request = ListGroupsRequest(states_filter=states, types_filter=types)
            response = await node.call(request, LIST)
            assert sorted(row.group_id for row in response.groups) == names

    on_a_node(scenario, tmp_path)


def test_a_broker_without_groups_lists_none(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        response = await node.call(ListGroupsRequest(), LIST)
        assert (response.error_code, response.groups) == (Error.NONE, [])
        request = DescribeGroupsRequest(groups=["g"])
        (row,) = (await node.call(request, DESCRIBE)).groups
        assert row.error_code == Error.NOT_COORDINATOR

    play(scenario, tmp_path)


@pytest.mark.parametrize("version", range(DELETE + 1))
def test_every_version_deletes_empty_groups(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node, member_id: str) -> None:
        request = DeleteGroupsRequest(groups_names=["g", "simple", "nobody", "simple", ""])
        response = await node.call(request, version)
        assert {row.group_id: row.error_code for row in response.results} == {
            "g": Error.NON_EMPTY_GROUP,
            "simple": Error.NONE,
            "nobody": Error.GROUP_ID_NOT_FOUND,
            "": Error.GROUP_ID_NOT_FOUND,
        }
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
        assert (await node.call(heartbeat, 4)).error_code == Error.NONE
        (row,) = (await node.call(ListGroupsRequest(), LIST)).groups
        assert row.group_id == "g"

    on_a_node(scenario, tmp_path)


def test_a_group_with_very_many_offsets_is_gone_when_its_deletion_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_expiry, "REMOVALS_MAX", 3)

    async def scenario(node: Node, member_id: str) -> None:
        await node.create_topic("wide", 10)
        rows = tuple(OffsetRow(TopicPartition("wide", n), n) for n in range(10))
        await node.on.groups.submit("simple", CommitOffsets("simple", rows))
        response = await node.call(DeleteGroupsRequest(groups_names=["simple"]), DELETE)
        assert [row.error_code for row in response.results] == [Error.NONE]
        (row,) = (await node.call(ListGroupsRequest(), LIST)).groups
        assert row.group_id == "g"

    on_a_node(scenario, tmp_path)
