"""How admin requests find their broker, try again, and report failures one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moldau import TopicPartition, aio, errors
from moldau.client.admin.admin_results import ConfigResource, OffsetSpec, Results
from moldau.model.errors import Error
from moldau.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from moldau.wire.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from moldau.wire.messages.consumer_groups import DescribedGroup as DescribedConsumerGroup
from moldau.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from moldau.wire.messages.group_admin import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from moldau.wire.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from moldau.wire.messages.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from moldau.wire.messages.offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.wire.messages.telemetry import GetTelemetrySubscriptionsRequest
from moldau.wire.messages.topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.support.scripted_broker import HANG_UP, TELEMETRY, ScriptedBroker

QUICK = {"retry.backoff.ms": 1, "reconnect.backoff.ms": 1}


def go(scenario: Callable[[ScriptedBroker, aio.Admin], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with ScriptedBroker() as broker:
            settings = {"bootstrap.servers": broker.bootstrap, **QUICK}
            async with aio.Admin(settings) as admin:
                await scenario(broker, admin)

    asyncio.run(asyncio.wait_for(main(), 20))


def test_metrics_that_break_a_connection_are_not_asked_for_again() -> None:
    async def scenario(broker: ScriptedBroker, admin: aio.Admin) -> None:
        asked = asyncio.Event()

        def hang_up(request: Any, version: int) -> object:
            asked.set()
            return HANG_UP

        broker.answers[GetTelemetrySubscriptionsRequest] = hang_up
        broker.served.update(dict.fromkeys(TELEMETRY, (0, 0)))
        broker.add_topic("t")
        await admin.list_topics()
        await asked.wait()
        for _ in range(20):
            assert list(await admin.list_topics()) == ["t"]
        kinds = [type(request) for request, _ in broker.requests]
        assert kinds.count(GetTelemetrySubscriptionsRequest) == 1

    go(scenario)


def in_turn(*answers: Any) -> Callable[[Any, int], Any]:
    """Each call gets the next answer, the last one forever."""
    left = list(answers)

    def answer(request: Any, version: int) -> Any:
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def created(code: int, message: str | None = None) -> CreateTopicsResponse:
    row = CreatableTopicResult(name="t", error_code=code, error_message=message)
    return CreateTopicsResponse(topics=[row])


def listed(code: int, offset: int = -1) -> ListOffsetsResponse:
    row = ListOffsetsPartitionResponse(error_code=code, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[row])])


def coordinator_here(broker: ScriptedBroker) -> Callable[[Any, int], Any]:
    def find(request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
        (key,) = request.coordinator_keys
        row = Coordinator(key=key, node_id=0, host="127.0.0.1", port=broker.port)
        return FindCoordinatorResponse(coordinators=[row])

    return find


def count(broker: ScriptedBroker, kind: type) -> int:
    return sum(isinstance(request, kind) for request, _ in broker.requests)


def test_a_controller_that_moved_is_looked_up_and_asked_again() -> None:
    async def scenario(broker: ScriptedBroker, admin: aio.Admin) -> None:
        answers = in_turn(created(Error.NOT_CONTROLLER), HANG_UP, created(0))
        broker.answers[CreateTopicsRequest] = answers
        assert (await admin.create_topics(["t"])).check()["t"].name == "t"
        assert count(broker, CreateTopicsRequest) == 3

    go(scenario)


def test_a_refusal_is_not_tried_again_and_keeps_the_brokers_words() -> None:
    async def scenario(broker: ScriptedBroker, admin: aio.Admin) -> None:
        refusal = created(Error.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")
        broker.answers[CreateTopicsRequest] = in_turn(refusal)
        with pytest.raises(errors.TopicExistsError, match=r"^Topic 't' already exists\.$"):
            await admin.create_topics(["t"])
        assert count(broker, CreateTopicsRequest) == 1

    go(scenario)


def test_a_leader_that_moved_is_looked_up_and_asked_again() -> None:
    async def scenario(broker: ScriptedBroker, admin: aio.Admin) -> None:
        broker.add_topic("t")
        moved = listed(Error.NOT_LEADER_OR_FOLLOWER)
        broker.answers[ListOffsetsRequest] = in_turn(moved, moved, listed(0, 42))
        tp = TopicPartition("t", 0)
        found = (await admin.list_offsets({tp: OffsetSpec.LATEST})).check()
        assert found[tp].offset == 42

    go(scenario)


def test_a_group_whose_offsets_are_not_told_is_an_error_of_that_group() -> None:
    async def scenario(broker: ScriptedBroker, admin: aio.Admin) -> None:
        broker.answers[FindCoordinatorRequest] = coordinator_here(broker)
        row = OffsetFetchResponseGroup(group_id="g", error_code=Error.GROUP_AUTHORIZATION_FAILED)
        broker.answers[OffsetFetchRequest] = in_turn(OffsetFetchResponse(groups=[row]))
        found = await admin.list_group_offsets(["g"], raise_errors=False)
        assert not found
        assert isinstance(found.errors["g"], errors.GroupAuthorizationFailedError)
        with pytest.raises(errors.GroupAuthorizationFailedError):
            await admin.list_group_offsets(["g"])

    go(scenario)


def test_what_is_refused_as_a_whole_is_raised_once_without_notes() -> None:
    refusal = errors.GroupAuthorizationFailedError("not you")
    found = Results({"a": refusal, "b": refusal})
    assert found.errors == {"a": refusal, "b": refusal}
    with pytest.raises(errors.GroupAuthorizationFailedError) as raised:
        found.check()
    assert not hasattr(raised.value, "__notes__")


def test_time_that_runs_out_is_an_error_of_each_item_with_its_reason() -> None:
    async def scenario(broker: ScriptedBroker, admin: aio.Admin) -> None:
        broker.add_topic("t")
        broker.answers[ListOffsetsRequest] = in_turn(listed(Error.OFFSET_NOT_AVAILABLE))
        tp = TopicPartition("t", 0)
        with pytest.raises(errors.KafkaTimeoutError) as caught:
            await admin.list_offsets({tp: OffsetSpec.LATEST}, timeout=1)
        assert Error.OFFSET_NOT_AVAILABLE.sentence in caught.value.message

    go(scenario)


def test_one_missing_topic_does_not_hide_the_others() -> None:
    async def scenario(broker: ScriptedBroker, admin: aio.Admin) -> None:
        broker.add_topic("t")
        broker.answers[ListOffsetsRequest] = in_turn(listed(0, 1))
        good, bad = TopicPartition("t", 0), TopicPartition("absent", 0)
        asked = {good: OffsetSpec.LATEST, bad: OffsetSpec.LATEST}
        found = await admin.list_offsets(asked, raise_errors=False)
        assert found.keys() == {good}
        assert isinstance(found.errors[bad], errors.UnknownTopicOrPartitionError)

    go(scenario)


def test_a_special_offset_is_not_asked_of_a_broker_that_takes_it_for_a_time() -> None:
    async def scenario(broker: ScriptedBroker, admin: aio.Admin) -> None:
        broker.add_topic("t")
        broker.served[2] = (0, 6)
        tp = TopicPartition("t", 0)
        with pytest.raises(errors.UnsupportedVersionError):
            await admin.list_offsets({tp: OffsetSpec.MAX_TIMESTAMP})

    go(scenario)


def test_settings_of_a_broker_are_asked_of_that_broker() -> None:
    def describe(request: DescribeConfigsRequest, version: int) -> DescribeConfigsResponse:
        rows = [
            DescribeConfigsResult(resource_type=r.resource_type, resource_name=r.resource_name)
            for r in request.resources
        ]
        return DescribeConfigsResponse(results=rows)

    async def scenario(broker: ScriptedBroker, admin: aio.Admin) -> None:
        broker.answers[DescribeConfigsRequest] = describe
        here, gone = ConfigResource.broker(0), ConfigResource.broker(5)
        every, topic = ConfigResource.broker(), ConfigResource.topic("t")
        found = await admin.describe_configs([here, gone, every, topic], raise_errors=False)
        assert isinstance(found.errors[gone], errors.BrokerNotAvailableError)
        assert found[here] == found[every] == found[topic] == {}
        assert count(broker, DescribeConfigsRequest) == 2

    go(scenario)


def classic_group(request: DescribeGroupsRequest, version: int) -> DescribeGroupsResponse:
    topics = [TopicPartitions(topic="t", partitions=[1, 0])]
    assignment = ConsumerProtocolAssignment(assigned_partitions=topics)
    subscription = ConsumerProtocolSubscription(topics=["t"])
    member = DescribedGroupMember(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/127.0.0.1",
        # A version newer than ours: it starts like ours.
        member_assignment=b"\0\x09" + assignment.encode(3),
        member_metadata=b"\0\x01" + subscription.encode(1),
    )
    rows = [
        DescribedGroup(
            group_id=group,
            group_state="Stable",
            protocol_type="consumer",
            protocol_data="range",
            members=[member, DescribedGroupMember(member_id="new", member_assignment=b"\0")],
        )
        for group in request.groups
    ]
    return DescribeGroupsResponse(groups=rows)


def test_members_of_a_group_are_told_with_their_partitions() -> None:
    async def scenario(broker: ScriptedBroker, admin: aio.Admin) -> None:
        del broker.served[69]
        broker.answers[FindCoordinatorRequest] = coordinator_here(broker)
        broker.answers[DescribeGroupsRequest] = classic_group
        group = (await admin.describe_groups(["g"])).check()["g"]
        assert (group.state, group.assignor, group.type) == ("Stable", "range", "classic")
        first, second = group.members
        assert first.assignment == [TopicPartition("t", 0), TopicPartition("t", 1)]
        assert (first.subscription, first.host) == (["t"], "/127.0.0.1")
        assert second.assignment == []
        assert group.coordinator is not None
        assert group.coordinator.port == broker.port

    go(scenario)


def test_groups_of_both_protocols_are_described_at_once() -> None:
    def new(request: ConsumerGroupDescribeRequest, version: int) -> ConsumerGroupDescribeResponse:
        absent = Error.GROUP_ID_NOT_FOUND
        rows = [
            DescribedConsumerGroup(
                group_id=g, group_epoch=3, error_code=0 if g == "new" else absent
            )
            for g in request.group_ids
        ]
        return ConsumerGroupDescribeResponse(groups=rows)

    async def scenario(broker: ScriptedBroker, admin: aio.Admin) -> None:
        broker.answers[FindCoordinatorRequest] = coordinator_here(broker)
        broker.answers[ConsumerGroupDescribeRequest] = new
        broker.answers[DescribeGroupsRequest] = classic_group
        groups = (await admin.describe_groups(["new", "old"])).check()
        assert {name: group.type for name, group in groups.items()} == {
            "new": "consumer",
            "old": "classic",
        }
        assert groups["new"].group_epoch == 3

    go(scenario)


def test_static_members_are_removed_by_their_instance_id() -> None:
    def leave(request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
        rows = [
            MemberResponse(
                member_id=m.member_id,
                group_instance_id=m.group_instance_id,
                error_code=0 if m.group_instance_id == "i" else Error.UNKNOWN_MEMBER_ID,
            )
            for m in request.members
        ]
        return LeaveGroupResponse(members=rows)

    async def scenario(broker: ScriptedBroker, admin: aio.Admin) -> None:
        broker.answers[FindCoordinatorRequest] = coordinator_here(broker)
        broker.answers[LeaveGroupRequest] = leave
        left = ["i", "other"]
        found = await admin.remove_members_from_group("g", left, reason="test", raise_errors=False)
        assert found == {"i": None}
        assert isinstance(found.errors["other"], errors.UnknownMemberIdError)

    go(scenario)


def test_results_are_all_or_an_exception_when_checked() -> None:
    error = errors.KafkaTimeoutError("late")
    results: Results[str, int] = Results({"a": 1, "b": error})
    assert results.errors == {"b": error}
    with pytest.raises(errors.KafkaTimeoutError, match="late"):
        results.check()
    assert Results({"a": 1}).check() == {"a": 1}
