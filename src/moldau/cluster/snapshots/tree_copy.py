"""The cluster's settings and topics out of the tree, as the file of an embedded store.

What belongs to brokers that run (registrations, the controller, notes about changes) is left out,
and so are the partitions' leaders: a fork has its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from moldau.metadata import acl_paths, paths, token_paths
from moldau.metadata.journal_file import FILE_HEADER, encode_frame
from moldau.metadata.store import Create, MetadataStore, NoNode
from moldau.metadata.znode_tree import ZnodeTree

SINGLE = (
    paths.CLUSTER_ID,
    paths.CONTROLLER_EPOCH,
    paths.FEATURE,
    paths.PRODUCER_ID_BLOCK,
)
WHOLE = (
    "/config",
    acl_paths.LITERAL_LISTS,
    acl_paths.EXTENDED_LISTS,
    token_paths.TOKENS,
)
LEFT_OUT = frozenset({paths.CONFIG_CHANGES})
AT_ONCE = 100


class TreeCopy(NamedTuple):
    topics: Mapping[str, bytes]
    """What is kept of each topic that is not about to be deleted."""
    nodes: Mapping[str, bytes]
    """Everything else, by path."""

    def partitions(self) -> set[tuple[str, int]]:
        return {
            (name, number)
            for name, data in self.topics.items()
            for number in range(len(paths.decode_topic(data).replicas))
        }

    def as_file(self) -> bytes:
        """What an embedded store would have in its file."""
        tree = ZnodeTree()
        found = {**self.nodes, **{paths.topic_path(name): row for name, row in self.topics.items()}}
        made: set[str] = set()
        ops: list[Create] = []
        for path in sorted(found):
            steps = path.split("/")
            for length in range(2, len(steps) + 1):
                above = "/".join(steps[:length])
                if above not in made:
                    made.add(above)
                    ops.append(Create(above, found.get(above, b"")))
        tree.apply(tree.plan(ops).changes, 1)
        return FILE_HEADER + encode_frame(tree.transaction, tree.snapshot())


async def copy_tree(store: MetadataStore) -> TreeCopy:
    """Raises StoreError."""
    deleted = set(await _children(store, paths.DELETE_TOPICS))
    names = [name for name in await _children(store, paths.TOPICS) if name not in deleted]
    rows = await store.get_many([paths.topic_path(name) for name in names])
    topics = {name: row.data for name, row in zip(names, rows, strict=True) if row and row.data}
    nodes: dict[str, bytes] = {}
    level = [*SINGLE, *WHOLE]
    while level:
        found = await store.get_many(level)
        there = [(path, row) for path, row in zip(level, found, strict=True) if row is not None]
        nodes |= {path: row.data for path, row in there}
        below = [path for path, _ in there if path not in SINGLE]
        level = [
            f"{path}/{name}"
            for start in range(0, len(below), AT_ONCE)
            for path, names in await _all_children(store, below[start : start + AT_ONCE])
            for name in names
            if f"{path}/{name}" not in LEFT_OUT
        ]
    return TreeCopy(topics, nodes)


async def _all_children(store: MetadataStore, below: list[str]) -> list[tuple[str, list[str]]]:
    found = await asyncio.gather(*(_children(store, path) for path in below))
    return list(zip(below, found, strict=True))


async def _children(store: MetadataStore, path: str) -> list[str]:
    try:
        return await store.children(path)
    except NoNode:
        return []
