"""What a tree has from a cluster's first start on: the nodes that others hang from, its id."""

from __future__ import annotations

from collections.abc import Callable

from moldau.metadata import paths
from moldau.metadata.store import Create, MetadataStore, NodeExists, Op

LAY_OUT_ATTEMPTS = 10


async def lay_out(store: MetadataStore) -> None:
    """Make the nodes that everything else hangs from."""
    wanted = (*paths.PERSISTENT_PATHS, paths.FEATURE)
    for attempt in range(LAY_OUT_ATTEMPTS):
        nodes = await store.get_many(wanted)
        missing: list[Op] = [
            Create(path, paths.encode_feature() if path == paths.FEATURE else b"")
            for path, node in zip(wanted, nodes, strict=True)
            if node is None
        ]
        try:
            if missing:
                await store.multi(missing)
            return
        except NodeExists:
            # Another broker starts at the same time: what it has made need not be made.
            if attempt + 1 == LAY_OUT_ATTEMPTS:
                raise


async def cluster_id_of(store: MetadataStore, draw: Callable[[], str]) -> str:
    """The cluster's id; the first broker ever to come here gives it one."""
    try:
        cluster_id = draw()
        await store.create(paths.CLUSTER_ID, paths.encode_cluster_id(cluster_id))
        return cluster_id
    except NodeExists:
        return paths.decode_cluster_id((await store.get(paths.CLUSTER_ID)).data)
