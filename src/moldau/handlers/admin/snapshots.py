"""CreateSnapshot, DescribeSnapshots, DeleteSnapshot: what a broker or a cluster held at a moment;
TakeSnapshotPart: what brokers ask of one another for it."""

from __future__ import annotations

from moldau.cluster.snapshots.cluster_snapshots import serve
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
    PartDescription,
    SnapshotDescription,
    TakeSnapshotPartRequest,
    TakeSnapshotPartResponse,
)


async def create_snapshot(
    request: CreateSnapshotRequest, ctx: RequestContext, on: Services
) -> CreateSnapshotResponse:
    try:
        if on.cluster_snapshots is not None:
            row = _whole(await on.cluster_snapshots.create(request.name))
        else:
            row = _described(await _taken_here(on).create(request.name))
    except ApiError as refused:
        return CreateSnapshotResponse(error_code=refused.error, error_message=refused.message)
    return CreateSnapshotResponse(snapshots=[row])


async def describe_snapshots(
    request: DescribeSnapshotsRequest, ctx: RequestContext, on: Services
) -> DescribeSnapshotsResponse:
    try:
        if on.cluster_snapshots is not None:
            rows = [_whole(each) for each in await on.cluster_snapshots.describe()]
        else:
            rows = await _taken_here(on).describe(_described)
    except ApiError as refused:
        return DescribeSnapshotsResponse(error_code=refused.error, error_message=refused.message)
    return DescribeSnapshotsResponse(snapshots=rows)


async def delete_snapshot(
    request: DeleteSnapshotRequest, ctx: RequestContext, on: Services
) -> DeleteSnapshotResponse:
    try:
        await (on.cluster_snapshots or _taken_here(on)).delete(request.name)
    except ApiError as refused:
        return DeleteSnapshotResponse(error_code=refused.error, error_message=refused.message)
    return DeleteSnapshotResponse()


async def take_snapshot_part(
    request: TakeSnapshotPartRequest, ctx: RequestContext, on: Services
) -> TakeSnapshotPartResponse:
    """Among brokers. What is asked on this connection ends the hold, so it is never held."""
    if on.cluster_snapshots is None:
        reason = "this broker stands alone"
        return TakeSnapshotPartResponse(error_code=Error.INVALID_REQUEST, error_message=reason)
    if ctx.connection is not None:
        ctx.connection.is_never_held = True
    try:
        return await serve(on.cluster_snapshots.part, request)
    except ApiError as refused:
        return TakeSnapshotPartResponse(error_code=refused.error, error_message=refused.message)


def _taken_here(on: Services) -> Snapshots:
    assert on.snapshots is not None
    return on.snapshots()


def _whole(part: PartDescription) -> SnapshotDescription:
    return SnapshotDescription(
        name=part.name,
        created_ms=part.created_ms,
        cluster_id=part.cluster_id,
        node_id=part.node_id,
        partitions=part.partitions,
        size_bytes=part.size_bytes,
        directories=part.directories,
        held_us=part.held_us,
    )


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
