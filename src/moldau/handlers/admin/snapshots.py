"""CreateSnapshot, DescribeSnapshots, DeleteSnapshot: what a broker held at a moment."""

from __future__ import annotations

from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.model.errors import ApiError, Error
from moldau.storage.snapshots.snapshot_files import Manifest
from moldau.storage.snapshots.snapshot_taking import Snapshots
from moldau.wire.messages.snapshots import (
    CreateSnapshotRequest,
    CreateSnapshotResponse,
    DeleteSnapshotRequest,
    DeleteSnapshotResponse,
    DescribeSnapshotsRequest,
    DescribeSnapshotsResponse,
    SnapshotDescription,
)


async def create_snapshot(
    request: CreateSnapshotRequest, ctx: RequestContext, on: Services
) -> CreateSnapshotResponse:
    try:
        manifest = await _taken_here(on).create(request.name)
    except ApiError as refused:
        return CreateSnapshotResponse(error_code=refused.error, error_message=refused.message)
    return CreateSnapshotResponse(snapshots=[_described(manifest)])


async def describe_snapshots(
    request: DescribeSnapshotsRequest, ctx: RequestContext, on: Services
) -> DescribeSnapshotsResponse:
    try:
        described = await _taken_here(on).describe(_described)
    except ApiError as refused:
        return DescribeSnapshotsResponse(error_code=refused.error, error_message=refused.message)
    return DescribeSnapshotsResponse(snapshots=described)


async def delete_snapshot(
    request: DeleteSnapshotRequest, ctx: RequestContext, on: Services
) -> DeleteSnapshotResponse:
    try:
        await _taken_here(on).delete(request.name)
    except ApiError as refused:
        return DeleteSnapshotResponse(error_code=refused.error, error_message=refused.message)
    return DeleteSnapshotResponse()


def _taken_here(on: Services) -> Snapshots:
    if on.snapshots is None:
        raise ApiError(
            Error.UNSUPPORTED_VERSION,
            "snapshots are taken of a broker that stands alone, not yet of a cluster on ZooKeeper",
        )
    return on.snapshots()


def _described(manifest: Manifest) -> SnapshotDescription:
    return SnapshotDescription(
        name=manifest.name,
        created_ms=manifest.created_ms,
        cluster_id=manifest.cluster_id,
        node_id=manifest.node_id,
        partitions=len(manifest.partitions),
        size_bytes=manifest.size_bytes,
        directories=list(manifest.directories),
    )
