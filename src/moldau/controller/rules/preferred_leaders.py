"""Which partitions should go back to their preferred leaders (auto.leader.rebalance.enable).

Pure. A broker gets its partitions back only if more of them than the threshold are led elsewhere,
so that a single one does not move for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.controller.cluster_state import ClusterState, places_of
from moldau.controller.rules.leader_selection import may_return
from moldau.controller.rules.reassignment_rules import is_moving
from moldau.model.names import BrokerId, TopicPartition


class Imbalance(NamedTuple):
    preferred: Mapping[BrokerId, tuple[TopicPartition, ...]]
    """By broker, the partitions that it should lead."""
    ratios: Mapping[BrokerId, float]
    places: tuple[TopicPartition, ...]
    """Those that should be led by their preferred replica again, and can be."""


def imbalanced(state: ClusterState, threshold_percent: int) -> Imbalance:
    preferred: dict[BrokerId, list[TopicPartition]] = {}
    elsewhere: dict[BrokerId, list[TopicPartition]] = {}
    able: set[TopicPartition] = set()
    for topic in state.cluster.topics.values():
        if topic.name in state.deleting:
            continue
        for place, partition in places_of(topic):
            first = partition.replicas[0]
            preferred.setdefault(first, []).append(place)
            if partition.leader != first:
                elsewhere.setdefault(first, []).append(place)
                if may_return(partition, place, state.liveness) and not is_moving(partition):
                    able.add(place)
    ratios = {b: len(elsewhere.get(b, ())) / len(rows) for b, rows in sorted(preferred.items())}
    places = tuple(
        place
        for broker, rows in sorted(elsewhere.items())
        if ratios[broker] > threshold_percent / 100
        for place in rows
        if place in able
    )
    return Imbalance({b: tuple(rows) for b, rows in sorted(preferred.items())}, ratios, places)
