"""A broker's registration under /brokers/ids: it stands there as long as the broker's session."""

from __future__ import annotations

from functools import partial

from moldau.metadata import paths
from moldau.metadata.store import MetadataStore, Node
from moldau.metadata.unreadable_nodes import readable
from moldau.model.cluster import BrokerNode
from moldau.model.names import Millis


async def register(store: MetadataStore, node: BrokerNode, now_ms: Millis) -> None:
    """Raises NodeExists if a broker with this id lives."""
    await store.create(
        paths.broker_path(node.id), paths.encode_broker(node, now_ms), ephemeral=True
    )


def is_of(node: BrokerNode, known: Node) -> bool:
    """Whether the registration that is there says the same as this one."""
    path, decode = paths.broker_path(node.id), partial(paths.decode_broker, node.id)
    return readable(path, known.data, decode) == node
