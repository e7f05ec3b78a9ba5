"""Which brokers get the replicas of new partitions: round robin, as Kafka's ZooKeeper mode does.

Pure; where to start is drawn outside. Leaders are spread over all brokers, and the followers of
partitions with the same leader are spread too: each time round, they shift by one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moldau.model.names import BrokerId

Replicas = tuple[BrokerId, ...]


class Start(NamedTuple):
    """Where the round begins: any numbers will do, random ones spread topics evenly."""

    broker: int = 0
    shift: int = 0


def place(
    brokers: Sequence[BrokerId],
    partition_count: int,
    replication_factor: int,
    start: Start,
    first_partition: int = 0,
) -> list[Replicas]:
    """One row per partition, the preferred leader first. `brokers` are in order of their ids."""
    count = len(brokers)
    assert 0 < replication_factor <= count, f"{replication_factor} replicas on {count} brokers"
    shift = start.shift
    rows = []
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % count == 0:
            shift += 1
        leader = (start.broker + partition) % count
        followers = (
            # Anywhere but on the leader: 1 to count - 1 steps further.
            (leader + 1 + (shift + step) % (count - 1)) % count
            for step in range(replication_factor - 1)
        )
        rows.append((brokers[leader], *(brokers[follower] for follower in followers)))
    return rows


def start_for_growth(brokers: Sequence[BrokerId], first_replica: BrokerId) -> Start:
    """Go on as the topic began: from the broker that leads its partition 0, or the next one."""
    position = next((i for i, broker in enumerate(brokers) if broker >= first_replica), 0)
    return Start(position, position)
