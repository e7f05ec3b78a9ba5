"""What others wrote into the tree, made part of the state: topics of old tools, more partitions,
an ISR that a leader of an older release changed by itself.

Pure. Nodes that are missing are made by the same decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from moldau.controller.cluster_commands import AddFoundTopics, GrowFoundTopic, Known
from moldau.controller.cluster_facts import ReadingBegun, TopicsForgotten, UnreadableSeen
from moldau.controller.cluster_state import ClusterState
from moldau.controller.controller_facts import PartitionsChanged, TopicCreated, TopicDeleted
from moldau.controller.rules.leader_selection import first_led
from moldau.controller.rules.replica_placement import Replicas
from moldau.engine.machine import Decision, Reply, Token, Volatile
from moldau.metadata.paths import PartitionState
from moldau.model.cluster import NO_LEADER, NO_STATE, PartitionImage
from moldau.model.names import TopicPartition


def without_state(replicas: Replicas) -> PartitionImage:
    """Assigned, but no controller has chosen its leader yet."""
    return PartitionImage(NO_LEADER, -1, replicas, (), NO_STATE)


def reading_begun(state: ClusterState, token: Token) -> Decision:
    """Like every answer it waits until all of the state is in the tree."""
    known = Known(frozenset(state.cluster.topics), frozenset(state.deleting))
    return Decision((Volatile(ReadingBegun()),), replies=(Reply(token, known),))


def untouched(state: ClusterState, names: Iterable[str]) -> Iterable[str]:
    """Those of which what was read can be compared with the state."""
    return (name for name in names if name not in state.touched)


def added(state: ClusterState, command: AddFoundTopics) -> Iterator[object]:
    if command.unreadable != state.unreadable:
        yield Volatile(UnreadableSeen(command.unreadable))
    for topic in command.topics:
        is_known = topic.name in state.cluster.topics or topic.name in state.touched
        if is_known or not topic.replicas:
            continue
        bare = tuple(without_state(replicas) for replicas in topic.replicas)
        yield Volatile(TopicCreated(topic.name, topic.id, bare, topic.configs))
        after = _led(state, topic.name, bare)
        changed = tuple(n for n, each in enumerate(after) if each is not bare[n])
        if changed or topic.is_id_new:
            yield PartitionsChanged(topic.name, topic.id, after, changed, topic.is_id_new)


def grown(state: ClusterState, found: GrowFoundTopic) -> Iterator[object]:
    topic = state.cluster.topics.get(found.name)
    if topic is None or len(found.replicas) <= len(topic.partitions):
        return
    if topic.name in state.touched:
        return
    count = len(topic.partitions)
    bare = tuple(without_state(replicas) for replicas in found.replicas[count:])
    led = _led(state, found.name, bare, count)
    everything = topic.partitions + led
    changed = tuple(count + n for n, each in enumerate(led) if each is not bare[n])
    if changed:
        yield PartitionsChanged(topic.name, topic.id, everything, changed, False)


def _led(
    state: ClusterState, name: str, bare: Iterable[PartitionImage], first: int = 0
) -> tuple[PartitionImage, ...]:
    made = []
    for number, partition in enumerate(bare, first):
        led = first_led(partition, TopicPartition(name, number), state.liveness)
        if led is not partition:
            led = replace(led, leader_epoch=0, partition_epoch=0)
        made.append(led)
    return tuple(made)


def forgotten(state: ClusterState, names: Iterable[str]) -> Iterator[object]:
    """Nobody has asked for their deletion: brokers stop serving them, and their logs stay."""
    known = tuple(name for name in untouched(state, names) if name in state.cluster.topics)
    if known:
        yield Volatile(TopicsForgotten(known))
    for name in known:
        topic = state.cluster.topics[name]
        yield Volatile(TopicDeleted(name, topic.id, len(topic.partitions)))


def seen(
    state: ClusterState, states: Iterable[tuple[TopicPartition, PartitionState, int]]
) -> Iterator[object]:
    changed: dict[str, dict[int, PartitionImage]] = {}
    for place, found, version in states:
        topic = state.cluster.topics.get(place.topic)
        if topic is None or not 0 <= place.partition < len(topic.partitions):
            continue
        if topic.name in state.touched:
            continue
        now = topic.partitions[place.partition]
        if version > now.partition_epoch:
            changed.setdefault(place.topic, {})[place.partition] = replace(
                now,
                leader=found.leader,
                leader_epoch=found.leader_epoch,
                isr=found.isr,
                partition_epoch=version,
            )
    for name, rows in changed.items():
        topic = state.cluster.topics[name]
        after = tuple(rows.get(number, old) for number, old in enumerate(topic.partitions))
        numbers = tuple(sorted(rows))
        yield Volatile(PartitionsChanged(name, topic.id, after, numbers, False))
