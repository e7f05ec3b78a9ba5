"""What a fact of the controller is in the znode tree: the operations that write it down.

The journal fences them, sends them and repeats them; here is only which nodes a fact makes, changes
and removes, in the order in which ZooKeeper can do it: parents come first and go last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from moldau.controller.controller_facts import (
    ConfigsChanged,
    FeaturesUpdated,
    PartitionsAdded,
    PartitionsChanged,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)
from moldau.metadata import paths
from moldau.metadata.store import Check, Create, Delete, Op, Write
from moldau.model.cluster import PartitionImage
from moldau.model.names import TopicId

OP_BYTES = 60
"""What an operation takes in a request beside its path and data, access list included."""


def operations(fact: object, controller_epoch: int) -> Iterator[Op]:
    """That epoch stands in the state of every partition that is written."""
    match fact:
        case TopicCreated():
            yield from _topic_created(fact, controller_epoch)
        case PartitionsAdded(topic, topic_id, partitions, count_before):
            yield Write(paths.topic_path(topic), _topic_data(topic_id, partitions))
            yield from _partitions(topic, count_before, fact.added, controller_epoch)
        case PartitionsChanged():
            yield from _partitions_changed(fact, controller_epoch)
        case TopicDeleted():
            yield from _topic_deleted(fact)
        case ConfigsChanged():
            yield from _configs_changed(fact)
        case FeaturesUpdated(levels):
            yield Write(paths.FEATURE, paths.encode_feature(levels))
        case ProducerIdsAllocated(broker, ids):
            block = paths.ProducerIdBlock(broker, ids.start, ids.stop - 1)
            yield Write(paths.PRODUCER_ID_BLOCK, paths.encode_producer_id_block(block))
        case _:
            yield from _cluster_ops(fact)


def _topic_created(fact: TopicCreated, epoch: int) -> Iterator[Op]:
    yield Create(paths.topic_config_path(fact.name), paths.encode_config(fact.configs))
    yield Create(paths.topic_path(fact.name), _topic_data(fact.id, fact.partitions))
    yield Create(paths.partitions_path(fact.name))
    yield from _partitions(fact.name, 0, fact.partitions, epoch)


def _partitions(
    topic: str, first: int, partitions: Iterable[PartitionImage], epoch: int
) -> Iterator[Op]:
    encoded: dict[PartitionImage, bytes] = {}
    for number, partition in enumerate(partitions, first):
        data = encoded.get(partition)
        if data is None:
            data = encoded[partition] = _state_data(partition, epoch)
        yield Create(paths.partition_path(topic, number))
        yield Create(paths.partition_state_path(topic, number), data)


def _partitions_changed(fact: PartitionsChanged, epoch: int) -> Iterator[Op]:
    if fact.is_reassigned:
        yield Write(paths.topic_path(fact.topic), _topic_data(fact.id, fact.all_partitions))
    for number in fact.changed:
        partition = fact.all_partitions[number]
        path, data = paths.partition_state_path(fact.topic, number), _state_data(partition, epoch)
        version = partition.partition_epoch - 1
        yield Create(path, data) if version < 0 else Write(path, data, version)


def _state_data(partition: PartitionImage, epoch: int) -> bytes:
    return paths.encode_partition_state(
        paths.PartitionState(partition.leader, partition.leader_epoch, partition.isr, epoch)
    )


def _topic_data(topic_id: TopicId, partitions: Sequence[PartitionImage]) -> bytes:
    replicas = tuple(partition.replicas for partition in partitions)
    adding = {n: partition.adding for n, partition in enumerate(partitions) if partition.adding}
    removing = {n: each.removing for n, each in enumerate(partitions) if each.removing}
    return paths.encode_topic(paths.TopicNode(topic_id, replicas, adding, removing))


def _configs_changed(fact: ConfigsChanged) -> Iterator[Op]:
    kind, name, overrides, is_first = fact
    path = paths.config_path(kind.entity(name))
    if not kind.is_plain and not overrides:
        if not is_first:
            yield Delete(path)
        return
    data = paths.encode_config(overrides)
    yield Create(path, data) if is_first else Write(path, data)


def _topic_deleted(fact: TopicDeleted) -> Iterator[Op]:
    for number in range(fact.partition_count):
        if number not in fact.without_state:
            yield Delete(paths.partition_state_path(fact.name, number))
        yield Delete(paths.partition_path(fact.name, number))
    yield Delete(paths.partitions_path(fact.name))
    yield Delete(paths.topic_path(fact.name))
    yield Delete(paths.topic_config_path(fact.name))
    if fact.was_queued:
        yield Delete(paths.delete_topic_path(fact.name))


def _cluster_ops(fact: object) -> Iterator[Op]:
    # A broker that stands alone has none of these, and starts without them.
    from moldau.controller.cluster_facts import AdminNodeRemoved, DeletionsDropped, DeletionsQueued

    match fact:
        case DeletionsQueued(topics):
            yield from (Create(paths.delete_topic_path(name)) for name in topics)
        case DeletionsDropped(topics):
            yield from (Delete(paths.delete_topic_path(name)) for name in topics)
        case AdminNodeRemoved(path):
            yield Delete(path)
        case _:
            raise AssertionError(f"{fact!r} is not for the journal")


def split(ops: list[Op], bytes_max: int) -> list[list[Op]]:
    """In parts that fit into one request each."""
    parts: list[list[Op]] = [[]]
    size = 0
    for op in ops:
        op_size = OP_BYTES + len(op.path) + len(getattr(op, "data", b""))
        if size + op_size > bytes_max and parts[-1]:
            parts.append([])
            size = 0
        parts[-1].append(op)
        size += op_size
    return parts


def is_settings(op: Op) -> bool:
    """Of one topic, written or removed; other nodes of a topic are this controller's alone."""
    return not isinstance(op, Check) and op.path.startswith(f"{paths.TOPIC_CONFIGS}/")


def fitting(op: Op, there: Collection[str]) -> Op | None:
    """The same over the settings of topics that are there; None if there is nothing to be done."""
    if not is_settings(op):
        return op
    match op:
        case Create(path, data) if path in there:
            return Write(path, data)
        case Write(path, data) if path not in there:
            return Create(path, data)
        case Delete(path) if path not in there:
            return None
    return op
