"""How a broker joins the cluster and becomes its controller.

With one broker nobody competes: it takes /controller, raises the epoch, and that is the election.
The order of the steps is that of Kafka's ZooKeeper mode, so that several brokers can contend.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from moldau.cluster.metadata_journal import ControllerEpoch
from moldau.metadata import paths
from moldau.metadata.readable import readable
from moldau.metadata.store import Create, MetadataStore, Node, NodeExists, Op, Write
from moldau.model.cluster import NO_LEADER, BrokerNode
from moldau.model.names import BrokerId, Millis

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


async def register(store: MetadataStore, node: BrokerNode, now_ms: Millis) -> None:
    """Raises NodeExists if a broker with this id lives."""
    await store.create(
        paths.broker_path(node.id), paths.encode_broker(node, now_ms), ephemeral=True
    )


def is_of(node: BrokerNode, known: Node) -> bool:
    """Whether the registration that is there says the same as this one."""
    path, decode = paths.broker_path(node.id), partial(paths.decode_broker, node.id)
    return readable(path, known.data, decode) == node


async def latest_epoch(store: MetadataStore) -> int:
    """Of the controllers so far; 0 if there was none."""
    path = paths.CONTROLLER_EPOCH
    node = await store.exists(path)
    return 0 if node is None else readable(path, node.data, paths.decode_controller_epoch) or 0


async def register_controller(
    store: MetadataStore, broker: BrokerId, now_ms: Millis
) -> ControllerEpoch:
    """Become the controller; raises NodeExists if there is one, BadVersion if another was faster.

    One write does both, so that no epoch is used twice and none without a controller.
    """
    claim = Create(paths.CONTROLLER, paths.encode_controller(broker, now_ms), ephemeral=True)
    node = await store.exists(paths.CONTROLLER_EPOCH)
    if node is None:
        await store.multi([claim, Create(paths.CONTROLLER_EPOCH, paths.encode_controller_epoch(1))])
        return ControllerEpoch(broker, 1, 0)
    epoch = paths.decode_controller_epoch(node.data) + 1
    raised = Write(paths.CONTROLLER_EPOCH, paths.encode_controller_epoch(epoch), node.version)
    await store.multi([claim, raised])
    return ControllerEpoch(broker, epoch, node.version + 1)


async def resign(store: MetadataStore, broker: BrokerId, claim: int | None = None) -> None:
    """Remove /controller, unless it is already another's. `claim` is the transaction that made
    the node for this broker: it tells also when the node cannot be read any more."""
    node = await store.exists(paths.CONTROLLER)
    if node is not None and (controller_of(node) == broker or node.created_by == claim):
        await store.delete(paths.CONTROLLER, node.version)


def controller_of(node: Node) -> BrokerId:
    """Whom the node names; nobody's if it cannot be read."""
    found = readable(paths.CONTROLLER, node.data, paths.decode_controller)
    return NO_LEADER if found is None else found.broker
