"""Who the controller is, as the tree says it: /controller and /controller_epoch.

With one broker nobody competes: it takes /controller, raises the epoch, and that is the election.
The order of the steps is that of Kafka's ZooKeeper mode, so that several brokers can contend.
"""

from __future__ import annotations

from moldau.cluster.tree.metadata_journal import ControllerEpoch
from moldau.metadata import paths
from moldau.metadata.store import Create, MetadataStore, Node, Write
from moldau.metadata.unreadable_nodes import readable
from moldau.model.cluster import NO_LEADER
from moldau.model.names import BrokerId, Millis


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
