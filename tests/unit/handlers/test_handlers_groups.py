"""Group membership over the wire: every version joins, syncs, stays and leaves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from moldau.model.errors import Error
from moldau.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from tests.support.group_requests import (
    JOIN,
    SYNC,
    join,
    join_and_sync,
    join_request,
    on_a_node,
    sync_request,
)
from tests.support.services import Node, play, turns

UUID = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
HEARTBEAT, LEAVE = 4, 5
"""The newest versions."""


@pytest.mark.parametrize("version", range(JOIN + 1))
def test_every_version_joins(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        response = await join(node, version)
        assert response.error_code == Error.NONE
        assert response.generation_id == 1
        assert response.leader == response.member_id
        assert response.protocol_name == "range"
        assert response.protocol_type == ("consumer" if version >= 7 else None)
        assert [member.metadata for member in response.members] == [b"meta"]
        assert re.fullmatch(f"test-{UUID}", response.member_id)

    on_a_node(scenario, tmp_path)


@pytest.mark.parametrize("version", range(JOIN + 1))
def test_clients_that_know_it_are_told_to_come_back_with_their_id(
    version: int, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        task = node.park(join_request(), version)
        await turns()
        if version < 4:
            assert not task.done(), "an older client is a member at once"
            node.time.pass_ms(1)
            assert (await task).error_code == Error.NONE
        else:
            response = await task
            assert response.error_code == Error.MEMBER_ID_REQUIRED
            assert response.protocol_name == (None if version >= 7 else "")
            assert (response.generation_id, response.leader) == (-1, "")

    on_a_node(scenario, tmp_path)


@pytest.mark.parametrize("version", range(5, JOIN + 1))
def test_a_static_member_is_named_after_its_instance_and_returns_without_a_rebalance(
    version: int, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        first = await join(node, version, group_instance_id="i")
        assert re.fullmatch(f"i-{UUID}", first.member_id)
        assert first.members[0].group_instance_id == "i"
        await node.call(sync_request(first.member_id, first.member_id), SYNC)
        again = await node.call(join_request(group_instance_id="i"), version)
        assert (again.error_code, again.generation_id) == (Error.NONE, 1)
        assert again.member_id != first.member_id
        assert again.skip_assignment == (version >= 9)
        assert again.leader == (again.member_id if version >= 9 else first.member_id)
        fenced = await node.call(
            HeartbeatRequest(
                group_id="g", generation_id=1, member_id=first.member_id, group_instance_id="i"
            ),
            HEARTBEAT,
        )
        assert fenced.error_code == Error.FENCED_INSTANCE_ID

    on_a_node(scenario, tmp_path)


def test_the_oldest_client_has_one_timeout_for_both(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        old = await join(node, 0, session_timeout_ms=7_000)
        await node.call(sync_request(old.member_id, old.member_id), SYNC)
        task = node.park(join_request(), 0)
        await turns()
        node.time.pass_ms(7_000)
        assert (await task).generation_id == 2, "the rebalance took as long as a session"

    on_a_node(scenario, tmp_path)


@pytest.mark.parametrize("version", range(JOIN + 1))
def test_joins_are_refused_with_the_members_own_id(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        for options, error in (
            ({"group_id": ""}, Error.INVALID_GROUP_ID),
            ({"session_timeout_ms": 1}, Error.INVALID_SESSION_TIMEOUT),
            ({}, Error.UNKNOWN_MEMBER_ID),
        ):
            response = await node.call(join_request("me", **options), version)
            assert (response.error_code, response.member_id) == (error, "me")

    on_a_node(scenario, tmp_path)


def test_a_group_without_its_topic_has_no_coordinator(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        unavailable = Error.NOT_COORDINATOR
        assert (await node.call(join_request(), JOIN)).error_code == unavailable
        assert (await node.call(sync_request("me"), SYNC)).error_code == unavailable
        leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="me")])
        assert (await node.call(leave, LEAVE)).error_code == unavailable
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="me")
        assert (await node.call(heartbeat, HEARTBEAT)).error_code == unavailable

    play(scenario, tmp_path)


@pytest.mark.parametrize("version", range(SYNC + 1))
def test_every_version_syncs(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        member_id = (await join(node)).member_id
        response = await node.call(sync_request(member_id, member_id), version)
        assert response.error_code == Error.NONE
        assert response.assignment == f"for {member_id}".encode()
        named = ("consumer", "range") if version >= 5 else (None, None)
        assert (response.protocol_type, response.protocol_name) == named
        again = await node.call(sync_request(member_id, generation=9), version)
        assert again.error_code == Error.ILLEGAL_GENERATION
        empty = await node.call(
            SyncGroupRequest(member_id="me", protocol_type="", protocol_name=""), version
        )
        assert empty.error_code == Error.INVALID_GROUP_ID

    on_a_node(scenario, tmp_path)


def test_a_sync_that_does_not_name_its_protocol_is_refused_where_it_should(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        member_id = (await join(node)).member_id
        request = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id)
        refused = await node.call(request, 5)
        assert refused.error_code == Error.INCONSISTENT_GROUP_PROTOCOL
        assert (await node.call(request, 4)).error_code == Error.NONE

    on_a_node(scenario, tmp_path)


@pytest.mark.parametrize("version", range(HEARTBEAT + 1))
def test_every_version_heartbeats(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        member_id = await join_and_sync(node)
        for group_id, generation, error in (
            ("g", 1, Error.NONE),
            ("g", 2, Error.ILLEGAL_GENERATION),
            ("other", 1, Error.UNKNOWN_MEMBER_ID),
            ("", 1, Error.INVALID_GROUP_ID),
        ):
            request = HeartbeatRequest(
                group_id=group_id, generation_id=generation, member_id=member_id
            )
            assert (await node.call(request, version)).error_code == error

    on_a_node(scenario, tmp_path)


@pytest.mark.parametrize("version", range(LEAVE + 1))
def test_every_version_leaves(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        member_id = await join_and_sync(node)

        async def leave(group_id: str, *names: str) -> Any:
            members = [MemberIdentity(member_id=name) for name in names]
            request = LeaveGroupRequest(group_id=group_id, member_id=names[0], members=members)
            return await node.call(request, version)

        assert (await leave("", "me")).error_code == Error.INVALID_GROUP_ID
        for group_id, name, error in (
            ("other", member_id, Error.UNKNOWN_MEMBER_ID),
            ("g", "stranger", Error.UNKNOWN_MEMBER_ID),
            ("g", member_id, Error.NONE),
        ):
            response = await leave(group_id, name)
            if version < 3:
                assert response.error_code == error
            else:
                assert response.error_code == Error.NONE
                assert [(row.member_id, row.error_code) for row in response.members] == [
                    (name, error)
                ]

    on_a_node(scenario, tmp_path)


def test_two_clients_rebalance_over_the_wire(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        first = await join_and_sync(node)
        second = node.park(join_request(), 3)
        await turns()
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id=first)
        told = await node.call(heartbeat, HEARTBEAT)
        assert told.error_code == Error.REBALANCE_IN_PROGRESS
        again = node.park(join_request(first), JOIN)
        leader, follower = await again, await second
        assert (leader.generation_id, follower.generation_id) == (2, 2)
        assert len(leader.members) == 2
        waiting = node.park(sync_request(follower.member_id, generation=2), SYNC)
        await turns()
        assert not waiting.done()
        await node.call(sync_request(first, first, follower.member_id, generation=2), SYNC)
        assert (await waiting).assignment == f"for {follower.member_id}".encode()

    on_a_node(scenario, tmp_path)


def test_an_assignment_too_large_to_store_is_refused_to_all_and_everybody_joins_again(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        first = await join_and_sync(node)
        second = node.park(join_request(), 3)
        await turns()
        leader, follower = await node.park(join_request(first), JOIN), await second
        waiting = node.park(sync_request(follower.member_id, generation=2), SYNC)
        await turns()
        assignment = sync_request(leader.member_id, leader.member_id, generation=2)
        assignment.assignments[0].assignment = bytes(20_000)
        refused = await node.call(assignment, SYNC)
        assert refused.error_code == Error.UNKNOWN_SERVER_ERROR
        await turns()
        assert waiting.done(), "the follower is left to wait"
        assert (await waiting).error_code == Error.UNKNOWN_SERVER_ERROR
        heartbeat = HeartbeatRequest(group_id="g", generation_id=2, member_id=follower.member_id)
        told = await node.call(heartbeat, HEARTBEAT)
        assert told.error_code == Error.REBALANCE_IN_PROGRESS
        again = [node.park(join_request(each), JOIN) for each in (first, follower.member_id)]
        assert [(await each).generation_id for each in again] == [3, 3]
        synced = await node.call(sync_request(first, first, generation=3), SYNC)
        assert synced.error_code == Error.NONE

    on_a_node(scenario, tmp_path, message_max_bytes="10000")


@pytest.mark.parametrize("version", range(5, JOIN + 1))
def test_a_member_whose_new_id_would_be_too_long_to_tell_is_refused(
    version: int, tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        told = await node.call(join_request(group_instance_id="i" * 32_760), version)
        assert told.error_code == Error.UNKNOWN_SERVER_ERROR
        assert (await join(node, version, group_instance_id="i" * 1_000)).error_code == Error.NONE

    on_a_node(scenario, tmp_path)


def test_groups_take_no_more_memory_than_they_may_and_known_members_go_on(tmp_path: Path) -> None:
    large = [JoinGroupRequestProtocol(name="range", metadata=bytes(200_000))]
    larger = [JoinGroupRequestProtocol(name="range", metadata=bytes(400_000))]

    async def scenario(node: Node) -> None:
        joined = [await join(node, group_id=f"g{n}", protocols=large) for n in range(5)]
        assert [each.error_code for each in joined] == [Error.NONE] * 5
        refused = await join(node, group_id="g6", protocols=large)
        assert refused.error_code == Error.COORDINATOR_NOT_AVAILABLE
        member_id = joined[0].member_id
        again = await join(node, group_id="g0", member_id=member_id, protocols=large)
        assert again.error_code == Error.NONE, "it takes no more than before"
        more = await join(node, group_id="g0", member_id=member_id, protocols=larger)
        assert more.error_code == Error.COORDINATOR_NOT_AVAILABLE
        members = [MemberIdentity(member_id=member_id)]
        await node.call(LeaveGroupRequest(group_id="g0", members=members), LEAVE)
        assert (await join(node, group_id="g6", protocols=large)).error_code == Error.NONE

    on_a_node(scenario, tmp_path, group_state_max_bytes=str(1024 * 1024))


def test_an_assignment_for_which_there_is_no_room_is_refused_to_all(tmp_path: Path) -> None:
    large = [JoinGroupRequestProtocol(name="range", metadata=bytes(900_000))]

    async def scenario(node: Node) -> None:
        member_id = (await join(node, protocols=large)).member_id
        request = sync_request(member_id, member_id)
        request.assignments[0].assignment = bytes(200_000)
        told = await node.call(request, SYNC)
        assert told.error_code == Error.COORDINATOR_NOT_AVAILABLE
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
        told = await node.call(heartbeat, HEARTBEAT)
        assert told.error_code == Error.REBALANCE_IN_PROGRESS

    on_a_node(scenario, tmp_path, group_state_max_bytes=str(1024 * 1024))
