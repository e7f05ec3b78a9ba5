"""Snapshots of a broker: Moldau's brokers take them, Apache Kafka's do not."""

from __future__ import annotations

from typing import Any, NamedTuple

from moldau.client.admin.admin_requests import AdminRequests, check_top
from moldau.client.shared.client_errors import UnsupportedVersionError
from moldau.wire.messages.snapshots import (
    CreateSnapshotRequest,
    DeleteSnapshotRequest,
    DescribeSnapshotsRequest,
)
from moldau.wire.schema import Message

CREATE_TIMEOUT_MS = 600_000
"""A disk may have much to write before a snapshot is safe."""


class SnapshotInfo(NamedTuple):
    """A snapshot: what a broker held at one moment."""

    name: str
    created_ms: int
    cluster_id: str
    node_id: int
    partitions: int
    size_bytes: int
    directories: tuple[str, ...]
    """The log directories, on the broker's machine, that it is of: each has it beside itself. Of a
    cluster's snapshot those of the broker that made it."""
    held_ms: float = 0.0
    """For how long the brokers of a cluster held back their answers."""


class SnapshotsAdmin(AdminRequests):
    async def create_snapshot(self, name: str, *, timeout_ms: int | None = None) -> SnapshotInfo:
        limit_ms = CREATE_TIMEOUT_MS if timeout_ms is None else timeout_ms
        answer = await self._once(CreateSnapshotRequest(name=name), limit_ms)
        return _info(answer.snapshots[0])

    async def describe_snapshots(self, *, timeout_ms: int | None = None) -> list[SnapshotInfo]:
        answer = await self._once(DescribeSnapshotsRequest(), self._limit_ms(timeout_ms))
        return [_info(row) for row in answer.snapshots]

    async def delete_snapshot(self, name: str, *, timeout_ms: int | None = None) -> None:
        await self._once(DeleteSnapshotRequest(name=name), self._limit_ms(timeout_ms))

    async def _once(self, request: Message, limit_ms: int) -> Any:
        """Never a second time by itself: a snapshot whose answer was lost is there."""
        await self.cluster.refresh_brokers()
        node = self.cluster.controller_id
        try:
            answer = await self.network.call(node, request, timeout_ms=limit_ms)
        except UnsupportedVersionError:
            reason = "only Moldau's brokers take snapshots, and this one does not know how"
            raise UnsupportedVersionError(reason) from None
        return check_top(answer)


def _info(row: Any) -> SnapshotInfo:
    return SnapshotInfo(
        row.name,
        row.created_ms,
        row.cluster_id,
        row.node_id,
        row.partitions,
        row.size_bytes,
        tuple(row.directories),
        row.held_us / 1000,
    )
