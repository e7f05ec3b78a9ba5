"""Giving the cluster of an embedded store another id: a fork is a cluster of its own. One of a
cluster of several brokers is alone: it has the only replica of every partition, and leads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.metadata import paths
from moldau.metadata.journal_file import JournalFile, encode_frame
from moldau.metadata.store import Create, Op, Write
from moldau.metadata.znode_tree import ZnodeTree


class Alone(NamedTuple):
    """The one broker, and the leader epochs in which it begins."""

    node_id: int
    leader_epochs: Mapping[tuple[str, int], int]


def rename_cluster(path: str, cluster_id: str, alone: Alone | None = None) -> None:
    """Blocks; raises StoreError. Nobody else may have the file open."""
    file = JournalFile(path)
    tree = ZnodeTree()
    for frame in file.open():
        tree.apply(frame.changes, frame.transaction)
    try:
        before = tree.put_of(paths.CLUSTER_ID)
        if before is not None:
            data = paths.encode_cluster_id(cluster_id)
            tree.apply([before._replace(data=data)], tree.transaction)
            if alone is not None:
                planned = tree.plan(_led_alone(tree, alone))
                tree.apply(planned.changes, tree.transaction + 1)
            file.rewrite(encode_frame(tree.transaction, tree.snapshot()))
    finally:
        file.close()


def _led_alone(tree: ZnodeTree, alone: Alone) -> list[Op]:
    ops: list[Op] = []
    for name in tree.children(paths.TOPICS):
        node = tree.find(paths.topic_path(name))
        assert node is not None
        topic = paths.decode_topic(node.data)
        mine = ((alone.node_id,),) * len(topic.replicas)
        kept = paths.encode_topic(paths.TopicNode(topic.topic_id, mine))
        ops += [Write(paths.topic_path(name), kept), Create(paths.partitions_path(name))]
        for number in range(len(mine)):
            epoch = alone.leader_epochs[name, number]
            state = paths.PartitionState(alone.node_id, epoch, (alone.node_id,), 0)
            ops.append(Create(paths.partition_path(name, number)))
            ops.append(
                Create(
                    paths.partition_state_path(name, number), paths.encode_partition_state(state)
                )
            )
    return ops
