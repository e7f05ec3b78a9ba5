"""Giving the cluster of an embedded store another id: a fork is a cluster of its own."""

from __future__ import annotations

from moldau.metadata import paths
from moldau.metadata.journal_file import JournalFile, encode_frame
from moldau.metadata.znode_tree import ZnodeTree


def rename_cluster(path: str, cluster_id: str) -> None:
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
            file.rewrite(encode_frame(tree.transaction, tree.snapshot()))
    finally:
        file.close()
