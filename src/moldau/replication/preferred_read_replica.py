"""Which replica a consumer should read from: one in its own rack that has what it asks (KIP-392).

Pure. The leader decides, because only it knows how far every replica has got.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.model.cluster import BrokerNode
from moldau.model.names import BrokerId, Offset
from moldau.replication.partition import Partition

HERE: BrokerId = -1


def nearest(
    partition: Partition,
    log_start: Offset,
    offset: Offset,
    rack: str,
    brokers: Mapping[BrokerId, BrokerNode],
) -> BrokerId:
    """HERE if the leader itself is as near as any, or nobody else has the offset."""
    if not partition.is_leader or not log_start <= offset:
        return HERE
    own = brokers.get(partition.node_id)
    if own is not None and own.rack == rack:
        return HERE
    ends = {
        broker: follower.offset_end
        for broker, follower in partition.followers().items()
        if broker in partition.isr
        and broker in brokers
        and brokers[broker].rack == rack
        and follower.log_start <= offset <= follower.offset_end
    }
    return max(ends, key=lambda broker: (ends[broker], -broker), default=HERE)
