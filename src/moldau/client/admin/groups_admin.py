"""Groups: list, describe, delete, remove members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moldau.client.admin.admin_requests import AdminRequests, check_top, operations, value_or_error
from moldau.client.admin.admin_results import Outcomes, checked
from moldau.client.admin.group_admin_results import (
    GroupDescription,
    GroupListing,
    MemberDescription,
)
from moldau.client.network.cluster_metadata import CoordinatorKind
from moldau.client.shared.client_errors import KafkaError, UnsupportedVersionError
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.wire.messages.consumer_groups import ConsumerGroupDescribeRequest, DescribedAssignment
from moldau.wire.messages.consumer_groups import DescribedGroup as DescribedConsumerGroup
from moldau.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from moldau.wire.messages.group_admin import (
    DeleteGroupsRequest,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from moldau.wire.messages.groups import LeaveGroupRequest, MemberIdentity
from moldau.wire.primitives import DecodeError

GROUP = CoordinatorKind.GROUP


class GroupsAdmin(AdminRequests):
    async def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        timeout_ms: int | None = None,
    ) -> list[GroupListing]:
        """All groups of all brokers, or those in these states (`"Stable"`) or of these types.

        [group.group_id for group in admin.list_groups(states=["Empty"])]
        """
        wanted_states, wanted_types = list(states), list(types)
        request = ListGroupsRequest(states_filter=wanted_states, types_filter=wanted_types)
        # Older versions have no filter and would return everything.
        version_min = 5 if wanted_types else 4 if wanted_states else 0

        async def ask(node_id: int) -> Any:
            return check_top(await self.network.call(node_id, request, version_min=version_min))

        answers = checked(await self._from_all(ask, timeout_ms))
        found = {
            row.group_id: GroupListing(
                row.group_id, row.protocol_type, row.group_state, row.group_type
            )
            for response in answers.values()
            for row in response.groups
        }
        return [found[group_id] for group_id in sorted(found)]

    async def describe_groups(
        self,
        groups: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, GroupDescription]:
        """State, members and their partitions. A group that does not exist is "Dead", or
        GroupIdNotFoundError with brokers that can tell.

            for member in admin.describe_groups(["billing"]).check()["billing"].members: ...
        """

        async def send(node_id: int, part: list[str]) -> Mapping[str, Any]:
            found = await self._describe_new(node_id, part, include_authorized_operations)
            classic = [group for group in part if group not in found]
            if classic:
                request = DescribeGroupsRequest(
                    groups=classic, include_authorized_operations=include_authorized_operations
                )
                response = await self.network.call(node_id, request)
                for row in response.groups:
                    found[row.group_id] = value_or_error(row, self._described(row, node_id))
            return found

        return await self._from_coordinators(groups, GROUP, send, timeout_ms)

    async def delete_groups(
        self, groups: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, None]:
        """Delete groups without members, with their offsets.

        admin.delete_groups(["billing"]).check()
        """

        async def send(node_id: int, part: list[str]) -> Mapping[str, Any]:
            response = await self.network.call(node_id, DeleteGroupsRequest(groups_names=part))
            return {row.group_id: value_or_error(row, None) for row in response.results}

        return await self._from_coordinators(groups, GROUP, send, timeout_ms)

    async def remove_members_from_group(
        self,
        group_id: str,
        instance_ids: Iterable[str] | None = None,
        *,
        reason: str | None = None,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, None]:
        """Make static members leave by their group.instance.id, or everybody if None is given;
        then the results are by member id.

            admin.remove_members_from_group("billing", ["worker-1"]).check()
        """
        if instance_ids is None:
            described = checked(await self.describe_groups([group_id], timeout_ms=timeout_ms))
            members = [
                MemberIdentity(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    reason=reason,
                )
                for member in described[group_id].members
            ]
        else:
            members = [
                MemberIdentity(group_instance_id=name, reason=reason) for name in instance_ids
            ]
        if not members:
            return {}
        request = LeaveGroupRequest(group_id=group_id, members=members)

        async def send(node_id: int, part: list[str]) -> Mapping[str, Any]:
            return {group_id: check_top(await self.network.call(node_id, request, version_min=3))}

        answers = await self._from_coordinators([group_id], GROUP, send, timeout_ms)
        response = answers[group_id]
        if isinstance(response, KafkaError):
            asked = [each.member_id or each.group_instance_id or "" for each in members]
            return dict.fromkeys(asked, response)
        return {
            (row.member_id if instance_ids is None else row.group_instance_id): value_or_error(
                row, None
            )
            for row in response.members
        }

    async def _describe_new(
        self, node_id: int, groups: list[str], with_operations: bool
    ) -> dict[str, GroupDescription | KafkaError]:
        """Those groups that speak the consumer protocol; the others are left out."""
        request = ConsumerGroupDescribeRequest(
            group_ids=groups, include_authorized_operations=with_operations
        )
        try:
            response = await self.network.call(node_id, request)
        except UnsupportedVersionError:
            return {}
        found: dict[str, GroupDescription | KafkaError] = {}
        for row in response.groups:
            if row.error_code in (Error.GROUP_ID_NOT_FOUND, Error.UNSUPPORTED_VERSION):
                continue
            found[row.group_id] = value_or_error(row, self._described_new(row, node_id))
        return found

    def _described_new(self, row: DescribedConsumerGroup, node_id: int) -> GroupDescription:
        members = [
            MemberDescription(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                _partitions(member.assignment),
                member.subscribed_topic_names,
                rack=member.rack_id,
                member_epoch=member.member_epoch,
                target_assignment=_partitions(member.target_assignment),
                member_type=member.member_type,
            )
            for member in row.members
        ]
        return GroupDescription(
            row.group_id,
            row.group_state,
            "consumer",
            "consumer",
            row.assignor_name,
            members,
            self.network.node(node_id),
            operations(row.authorized_operations),
            row.group_epoch,
            row.assignment_epoch,
        )

    def _described(self, row: DescribedGroup, node_id: int) -> GroupDescription:
        is_consumer = row.protocol_type in ("consumer", "")
        return GroupDescription(
            row.group_id,
            row.group_state,
            "classic",
            row.protocol_type,
            row.protocol_data,
            [_member(member, is_consumer) for member in row.members],
            self.network.node(node_id),
            operations(row.authorized_operations),
        )


def _partitions(assignment: DescribedAssignment) -> list[TopicPartition]:
    return sorted(
        TopicPartition(row.topic_name, index)
        for row in assignment.topic_partitions
        for index in row.partitions
    )


def _member(row: DescribedGroupMember, is_consumer: bool) -> MemberDescription:
    assignment: list[TopicPartition] = []
    subscription: list[str] = []
    if is_consumer:
        assignment = _assigned(row.member_assignment)
        subscription = _subscribed(row.member_metadata)
    return MemberDescription(
        row.member_id,
        row.group_instance_id,
        row.client_id,
        row.client_host,
        assignment,
        subscription,
        row.member_metadata,
        row.member_assignment,
    )


def _version(blob: bytes, newest: int) -> int:
    """The version comes first; a newer one than ours starts like ours (KIP-394's rule)."""
    return min(int.from_bytes(blob[:2], "big", signed=True), newest)


def _assigned(blob: bytes) -> list[TopicPartition]:
    """What a member was given; empty while the group rebalances or if it is not readable."""
    if len(blob) < 2:
        return []
    try:
        read = ConsumerProtocolAssignment.decode(blob, _version(blob, 3), 2)
    except DecodeError:
        return []
    return sorted(
        TopicPartition(row.topic, index)
        for row in read.assigned_partitions
        for index in row.partitions
    )


def _subscribed(blob: bytes) -> list[str]:
    if len(blob) < 2:
        return []
    try:
        return ConsumerProtocolSubscription.decode(blob, _version(blob, 3), 2).topics
    except DecodeError:
        return []
