"""Joining a group: one exchange with its coordinator, from the join to this member's share.

Runs as a task beside the polls. As the group's leader it also computes everybody's share.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from moldau.client.consumer.assignment.assignor_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from moldau.client.consumer.assignment.partition_assignors import (
    Assignment,
    Assignor,
    RebalanceProtocol,
    common_protocol,
)
from moldau.client.consumer.consumer_membership import Membership, Verdict
from moldau.client.consumer.group_heartbeat import CoordinatorLink
from moldau.client.consumer.subscription_state import Positions
from moldau.client.network.cluster_metadata import Cluster
from moldau.client.shared.client_errors import KafkaError, error_for
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.wire.messages.groups import JoinGroupResponse
from moldau.wire.primitives import DecodeError

JOIN_SECONDS_EXTRA = 5
"""A join may take as long as the slowest member needs to rejoin, and a little on the way."""


def told(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions))) or "none"


class Joining:
    def __init__(
        self,
        link: CoordinatorLink,
        cluster: Cluster,
        positions: Positions,
        membership: Membership,
        assignors: list[Assignor],
        *,
        rack: str,
        now: Callable[[], int],
        on_joined: Callable[[], None],
    ) -> None:
        self._link = link
        self._cluster = cluster
        self._positions = positions
        self._membership = membership
        self.assignors = {assignor.name: assignor for assignor in assignors}
        self.protocol = common_protocol(assignors)
        self.counts: dict[str, int] | None = None
        """What the leader based its last assignment on; None for all others."""
        self._topics: set[str] = set()
        self._rack = rack
        self._now = now
        self._on_joined = on_joined
        self._timeout_ms = membership.settings.max_poll_interval_ms + JOIN_SECONDS_EXTRA * 1000

    async def run(self) -> Assignment | None:
        """The member's share; None if it has to start over."""
        membership = self._membership
        failures = 0
        while True:
            await self._link.pause(failures)
            failures += 1
            self._log("(Re-)joining group")
            try:
                # The coordinator first: what is told must be true when it is sent.
                await self._link.node()
                request = membership.join_request(self._subscriptions())
                response = await self._link.call(request, self._timeout_ms)
            except KafkaError as fault:
                if not fault.retriable and fault.code is not Error.BROKER_NOT_AVAILABLE:
                    raise
                self._link.lose(str(fault))
                continue
            verdict = membership.joined(response, self._now())
            if verdict is Verdict.FINE:
                self._on_joined()
                return await self._sync(response)
            error = error_for(response.error_code)
            if verdict is Verdict.FAIL:
                raise error
            self._link.log.info(
                "%sJoinGroup failed: %s Need to re-join the group.", self._link.prefix, error
            )
            if verdict is Verdict.REDISCOVER:
                self._link.lose(str(error))
            elif verdict is Verdict.AGAIN:
                failures = 0
                if response.error_code != Error.MEMBER_ID_REQUIRED:
                    return None

    def _log(self, text: str, *values: object) -> None:
        self._link.log.info("%s" + text, self._link.prefix, *values)

    def _subscriptions(self) -> list[tuple[str, bytes]]:
        """What to tell the leader, for each assignor that it may choose."""
        positions = self._positions
        topics = sorted(positions.topics)
        owned: list[TopicPartition] = []
        if self.protocol is RebalanceProtocol.COOPERATIVE:
            owned = sorted(positions.partitions)
        rack = self._rack or None
        return [
            (
                name,
                encode_subscription(
                    topics,
                    assignor.user_data(topics),
                    owned,
                    self._membership.generation_id,
                    rack,
                ),
            )
            for name, assignor in self.assignors.items()
        ]

    async def _sync(self, joined: JoinGroupResponse) -> Assignment | None:
        membership = self._membership
        asked_by = membership.identity
        self._link.log.info(
            "%sSuccessfully joined group with generation %d (member %s, assignor %s)",
            *(
                self._link.prefix,
                asked_by.generation_id,
                asked_by.member_id,
                membership.protocol_name,
            ),
        )
        shares: dict[str, bytes] = {}
        self.counts = None
        try:
            if membership.is_leader:
                shares = await self._share_out(joined)
            request = membership.sync_request({} if joined.skip_assignment else shares)
            response = await self._link.call(request, self._timeout_ms)
        except KafkaError as fault:
            if not fault.retriable:
                raise
            membership.request_rejoin(f"rebalance failed: {fault}")
            self._link.lose(str(fault))
            return None
        verdict = membership.synced(response.error_code, asked_by)
        if verdict is Verdict.FINE:
            self._link.log.info(
                "%sSuccessfully synced group in generation %d",
                self._link.prefix,
                asked_by.generation_id,
            )
            return decode_assignment(response.assignment)
        error = error_for(response.error_code)
        if verdict is Verdict.FAIL:
            raise error
        if verdict is Verdict.REDISCOVER:
            self._link.lose(str(error))
        self._log("SyncGroup failed: %s Rejoining.", error)
        return None

    async def _share_out(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        """As the group's leader: everybody's share."""
        subscriptions = {}
        for row in joined.members:
            try:
                subscription = decode_subscription(row.metadata, row.group_instance_id)
            except DecodeError as fault:
                raise error_for(
                    Error.INCONSISTENT_GROUP_PROTOCOL,
                    f"The subscription of member {row.member_id} cannot be read: {fault}",
                ) from None
            subscriptions[row.member_id] = subscription
        topics = {topic for row in subscriptions.values() for topic in row.topics}
        await self._cluster.refresh(topics, allow_auto_create=False)
        self._topics = topics
        self.counts = self.count_partitions()
        assignor = self.assignors[self._membership.protocol_name]
        shares = assignor.assign(self.counts, subscriptions)
        self._link.log.info(
            "%sFinished assignment for group at generation %d: %s",
            *(
                self._link.prefix,
                self._membership.generation_id,
                {member: told(share.partitions) for member, share in shares.items()},
            ),
        )
        nothing = Assignment(())
        return {m: encode_assignment(shares.get(m, nothing)) for m in subscriptions}

    def count_partitions(self) -> dict[str, int]:
        found = {name: self._cluster.topic(name) for name in self._topics}
        return {name: len(row.partitions) for name, row in found.items() if row is not None}
