"""Which brokers get the replicas of new partitions: round robin, as Kafka's ZooKeeper mode does.

Pure; where to start is drawn outside. Leaders are spread over all brokers, and the followers of
partitions with the same leader are spread too: each time round, they shift by one more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def place_by_rack(
    racks: Mapping[BrokerId, str],
    partition_count: int,
    replication_factor: int,
    start: Start,
    first_partition: int = 0,
) -> list[Replicas]:
    """As `place`, but a rack gets a second replica of a partition only when all have one."""
    brokers = _racks_in_turn(racks)
    count, rack_count = len(brokers), len(set(racks.values()))
    assert 0 < replication_factor <= count, f"{replication_factor} replicas on {count} brokers"
    shift = start.shift
    rows = []
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % count == 0:
            shift += 1
        leader = (start.broker + partition) % count
        row = [brokers[leader]]
        step = 0
        while len(row) < replication_factor:
            # Steps by whole rounds of racks, so that followers of one leader differ in racks too.
            follower = brokers[(leader + 1 + (shift * rack_count + step) % (count - 1)) % count]
            step += 1
            used = {racks[broker] for broker in row}
            if follower not in row and (racks[follower] not in used or len(used) == rack_count):
                row.append(follower)
        rows.append(tuple(row))
    return rows


def _racks_in_turn(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """One broker of each rack after the other, until all are named."""
    by_rack: dict[str, list[BrokerId]] = {rack: [] for rack in sorted(racks.values())}
    for broker in sorted(racks):
        by_rack[racks[broker]].append(broker)
    longest = max(map(len, by_rack.values()))
    return [row[turn] for turn in range(longest) for row in by_rack.values() if turn < len(row)]


def start_for_growth(brokers: Sequence[BrokerId], first_replica: BrokerId) -> Start:
    """Go on as the topic began: from the broker that leads its partition 0, or the next one."""
    position = next((i for i, broker in enumerate(brokers) if broker >= first_replica), 0)
    return Start(position, position)
