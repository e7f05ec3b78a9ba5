"""Making the directories of a fork: its logs from a snapshot, its metadata with a cluster id of its
own. For whoever starts a broker there."""

from __future__ import annotations

import os
from collections.abc import Callable

from moldau.metadata.embedded import FILE_NAME
from moldau.metadata.renamed_cluster import Alone, rename_cluster
from moldau.metadata.store import StoreError
from moldau.storage.snapshots.forking import Fork, fork_into, leave_whole
from moldau.storage.snapshots.snapshot_files import Manifest
from moldau.storage.storage_faults import StorageFault


def fork_directories(manifest: Manifest, target: str, copied: Callable[[int], None]) -> Fork:
    """Whole when this returns: until then no broker would take them for stopped in order.
    `copied(bytes)` hears of files that had to be copied. Raises StorageFault."""
    fork = fork_into(manifest, target, copied)
    path = os.path.join(fork.directories[0], FILE_NAME)
    try:
        rename_cluster(path, fork.cluster_id, _alone(manifest, fork))
    except (OSError, StoreError) as fault:
        raise StorageFault("cannot write", path, reason=str(fault)) from fault
    leave_whole(fork)
    return fork


def _alone(manifest: Manifest, fork: Fork) -> Alone | None:
    """Whoever comes after the leaders of a cluster begins a new epoch everywhere."""
    if not manifest.members:
        return None
    return Alone(
        manifest.node_id, {place: epoch + 1 for place, epoch in fork.leader_epochs.items()}
    )
