"""Partitions that one command changes, gathered topic by topic into facts.

Pure. Rules look partitions up here and put back what should become of them, so that a later row
of a request sees what an earlier one did. The state itself changes when the facts are applied.
"""

from __future__ import annotations

from dataclasses import replace

from moldau.controller.controller_facts import PartitionsChanged
from moldau.controller.controller_state import ControllerState
from moldau.model.cluster import PartitionImage, TopicImage
from moldau.model.names import BrokerId


class ChangedPartitions:
    def __init__(self, state: ControllerState) -> None:
        self._state = state
        self._bumps_leader_epoch = state.has_many_brokers
        self._changed: dict[str, dict[int, PartitionImage]] = {}

    def topic(self, name: str) -> TopicImage | None:
        return self._state.cluster.topics.get(name)

    def partition(self, topic: TopicImage, number: int) -> PartitionImage | None:
        if not 0 <= number < len(topic.partitions):
            return None
        return self._changed.get(topic.name, {}).get(number) or topic.partitions[number]

    def put(self, topic: TopicImage, number: int, after: PartitionImage) -> None:
        if after == self.partition(topic, number):
            return
        before = topic.partitions[number]
        leader_epoch = after.leader_epoch
        if self._bumps_leader_epoch:
            # Brokers take over only what comes with a higher epoch than they know.
            leader_epoch = before.leader_epoch + 1
        # The epoch is the version of the partition's node, which is written once per command.
        self._changed.setdefault(topic.name, {})[number] = replace(
            after, leader_epoch=leader_epoch, partition_epoch=before.partition_epoch + 1
        )

    def put_isr(self, topic: TopicImage, number: int, isr: tuple[BrokerId, ...]) -> PartitionImage:
        """The leader itself has changed who is in sync: its epoch goes on."""
        before = topic.partitions[number]
        after = replace(before, isr=isr, partition_epoch=before.partition_epoch + 1)
        self._changed.setdefault(topic.name, {})[number] = after
        return after

    def put_epoch(self, topic: TopicImage, number: int, leader_epoch: int) -> None:
        """A leader epoch that another cluster has come to, or one above: the leader stays."""
        before = topic.partitions[number]
        if leader_epoch > before.leader_epoch:
            self._changed.setdefault(topic.name, {})[number] = replace(
                before, leader_epoch=leader_epoch, partition_epoch=before.partition_epoch + 1
            )

    def facts(self) -> tuple[PartitionsChanged, ...]:
        return tuple(self._fact(name, changed) for name, changed in self._changed.items())

    def _fact(self, name: str, changed: dict[int, PartitionImage]) -> PartitionsChanged:
        topic = self._state.cluster.topics[name]
        before = topic.partitions
        after = tuple(changed.get(number, old) for number, old in enumerate(before))
        is_reassigned = any(_assignment(before[n]) != _assignment(after[n]) for n in changed)
        return PartitionsChanged(name, topic.id, after, tuple(sorted(changed)), is_reassigned)


def _assignment(partition: PartitionImage) -> tuple[tuple[int, ...], ...]:
    return partition.replicas, partition.adding, partition.removing
