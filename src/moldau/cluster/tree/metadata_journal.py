"""The controller's journal: facts become one conditional write to the znode tree.

Every write also checks the version of /controller_epoch, so that a controller which was replaced
without noticing can change nothing any more. Writes are started in order and may overlap; the
engine hears of each when it and all before it are durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Coroutine, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.cluster.tree.state_change_log import StateChangeLog
from moldau.controller.controller_facts import (
    ConfigsChanged,
    FeaturesUpdated,
    PartitionsAdded,
    PartitionsChanged,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)
from moldau.engine.machine import JournalFault, JournalListener
from moldau.metadata import paths
from moldau.metadata.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    MetadataStore,
    NodeExists,
    NoNode,
    Op,
    StoreError,
    Write,
)
from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from moldau.model.names import BrokerId, TopicId

if TYPE_CHECKING:
    from moldau.controller.broker_requests.state_change_lines import StateChange

log = logging.getLogger("kafka.controller.KafkaController")

WRITES_IN_FLIGHT_MAX = 1000
OP_BYTES = 60
"""What an operation takes in a request beside its path and data, access list included."""


MENDED_MAX = 5
"""Times that one write is adapted to settings that somebody else has put into the tree."""

_Writing = asyncio.Task[list[str | int | None]]


class ControllerEpoch(NamedTuple):
    """One broker's time as the controller."""

    broker: BrokerId
    epoch: int
    epoch_version: int
    """Of the node that holds the epoch: it changes when another controller takes over."""


class _InFlight(NamedTuple):
    position: int
    ops: Sequence[Op]
    write: _Writing
    facts: Sequence[object]
    """They stand beside the last of their writes, nothing beside those before it."""
    changes: Sequence[StateChange]
    """The same in the words of the state-change log."""
    mended: int = 0


class MetadataJournal:
    def __init__(
        self,
        store: MetadataStore,
        term: ControllerEpoch,
        *,
        write_bytes_max: int | None = None,
        state_changes: StateChangeLog | None = None,
    ) -> None:
        """With a limit, larger changes go in several writes. Each is complete in itself: a next
        controller that finds only the first of them goes on from there."""
        self._state_changes = state_changes
        self._store = store
        self._term = term
        self._listener: JournalListener | None = None
        self._position = 0
        self._in_flight: deque[_InFlight] = deque()
        self._write_bytes_max = write_bytes_max
        self._is_broken = False

    def listen(self, listener: JournalListener) -> None:
        self._listener = listener

    def append(self, facts: Sequence[object]) -> int:
        if self._is_broken:
            raise JournalFault(Error.NOT_CONTROLLER, "This broker is not the controller any more.")
        if len(self._in_flight) >= WRITES_IN_FLIGHT_MAX:
            raise JournalFault(
                Error.REQUEST_TIMED_OUT,
                f"{WRITES_IN_FLIGHT_MAX} changes of the cluster wait for the metadata store.",
            )
        ops: list[Op] = [Check(paths.CONTROLLER_EPOCH, self._term.epoch_version)]
        for fact in facts:
            ops += self._ops(fact)
        changes = () if self._state_changes is None else self._state_changes.changes(facts)
        parts = [ops] if self._write_bytes_max is None else _split(ops, self._write_bytes_max)
        for part in parts:
            self._position += 1
            said = (facts, changes) if part is parts[-1] else ((), ())
            write = self._start(self._store.multi(part))
            self._in_flight.append(_InFlight(self._position, part, write, *said))
        return self._position

    def _start(self, writing: Coroutine[Any, Any, list[str | int | None]]) -> _Writing:
        write = asyncio.get_running_loop().create_task(writing)
        write.add_done_callback(self._finished)
        return write

    def _finished(self, write: _Writing) -> None:
        if not write.cancelled():
            # Looked at here, because after a fault nobody else asks those behind it.
            write.exception()
        assert self._listener is not None
        while self._in_flight and self._in_flight[0].write.done():
            first = self._in_flight.popleft()
            if first.mended < MENDED_MAX and _met_foreign_settings(first):
                again = self._start(self._mend(first.ops))
                self._in_flight.appendleft(first._replace(write=again, mended=first.mended + 1))
                return
            fault = _fault_of(first.write)
            if fault is not None:
                self._break(fault)
            else:
                self._say(first.facts)
                if self._state_changes is not None:
                    self._state_changes.write(first.changes)
                self._listener.committed(first.position)

    async def _mend(self, ops: Sequence[Op]) -> list[str | int | None]:
        """The same once more, over the settings of topics that are there, as Apache Kafka does: a
        topic's may be left from one of that name, or be gone, by the hand of another."""
        of_settings = [op.path for op in ops if _is_settings(op)]
        nodes = await self._store.get_many(of_settings)
        there = {path for path, node in zip(of_settings, nodes, strict=True) if node is not None}
        return await self._store.multi(
            [each for op in ops if (each := _fitting(op, there)) is not None]
        )

    def _break(self, fault: JournalFault) -> None:
        """Nothing behind a lost write may count as committed."""
        assert self._listener is not None
        log.error("[Controller id=%d] resigns: %s", self._term.broker, fault.message)
        self._is_broken = True
        behind, self._in_flight = self._in_flight, deque()
        for each in behind:
            each.write.cancel()
        self._listener.failed(fault)

    def _ops(self, fact: object) -> Iterator[Op]:
        match fact:
            case TopicCreated():
                yield from self._topic_created(fact)
            case PartitionsAdded(topic, topic_id, partitions, count_before):
                yield Write(paths.topic_path(topic), _topic_data(topic_id, partitions))
                yield from self._partitions(topic, count_before, fact.added)
            case PartitionsChanged():
                yield from self._partitions_changed(fact)
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

    def _topic_created(self, fact: TopicCreated) -> Iterator[Op]:
        yield Create(paths.topic_config_path(fact.name), paths.encode_config(fact.configs))
        yield Create(paths.topic_path(fact.name), _topic_data(fact.id, fact.partitions))
        yield Create(paths.partitions_path(fact.name))
        yield from self._partitions(fact.name, 0, fact.partitions)

    def _partitions(
        self, topic: str, first: int, partitions: Iterable[PartitionImage]
    ) -> Iterator[Op]:
        encoded: dict[PartitionImage, bytes] = {}
        for number, partition in enumerate(partitions, first):
            data = encoded.get(partition)
            if data is None:
                data = encoded[partition] = self._state_data(partition)
            yield Create(paths.partition_path(topic, number))
            yield Create(paths.partition_state_path(topic, number), data)

    def _partitions_changed(self, fact: PartitionsChanged) -> Iterator[Op]:
        if fact.is_reassigned:
            yield Write(paths.topic_path(fact.topic), _topic_data(fact.id, fact.all_partitions))
        for number in fact.changed:
            partition = fact.all_partitions[number]
            path, data = paths.partition_state_path(fact.topic, number), self._state_data(partition)
            version = partition.partition_epoch - 1
            yield Create(path, data) if version < 0 else Write(path, data, version)

    def _state_data(self, partition: PartitionImage) -> bytes:
        return paths.encode_partition_state(
            paths.PartitionState(
                partition.leader, partition.leader_epoch, partition.isr, self._term.epoch
            )
        )

    def _say(self, facts: Iterable[object]) -> None:
        """What an operator of Kafka's controller is used to read."""
        created = [fact for fact in facts if isinstance(fact, TopicCreated)]
        deleted = [fact.name for fact in facts if isinstance(fact, TopicDeleted)]
        grown = [fact for fact in facts if isinstance(fact, PartitionsAdded)]
        who = self._term.broker
        if created or deleted:
            names = ", ".join(fact.name for fact in created)
            rows = _rows((fact.name, 0, fact.partitions) for fact in created)
            log.info(
                "[Controller id=%d] New topics: [Set(%s)], deleted topics: [Set(%s)], "
                "new partition replica assignment [Map(%s)]",
                who,
                names,
                ", ".join(deleted),
                ", ".join(f"{row} -> Vector({brokers})" for row, brokers in rows),
            )
        added = [(fact.name, 0, fact.partitions) for fact in created]
        added += [(fact.topic, fact.count_before, fact.added) for fact in grown]
        if added:
            partitions = ",".join(row for row, _ in _rows(added))
            log.info("[Controller id=%d] New partition creation callback for %s", who, partitions)


def _is_settings(op: Op) -> bool:
    """Of one topic, written or removed; other nodes of a topic are this controller's alone."""
    return not isinstance(op, Check) and op.path.startswith(f"{paths.TOPIC_CONFIGS}/")


def _met_foreign_settings(failed: _InFlight) -> bool:
    """Whether nothing but the settings of a topic stood in the way."""
    error = None if failed.write.cancelled() else failed.write.exception()
    if not isinstance(error, NodeExists | NoNode):
        return False
    return any(op.path == error.path for op in failed.ops if _is_settings(op))


def _fitting(op: Op, there: Collection[str]) -> Op | None:
    if not _is_settings(op):
        return op
    match op:
        case Create(path, data) if path in there:
            return Write(path, data)
        case Write(path, data) if path not in there:
            return Create(path, data)
        case Delete(path) if path not in there:
            return None
    return op


def _rows(
    topics: Iterable[tuple[str, int, Sequence[PartitionImage]]],
) -> Iterator[tuple[str, str]]:
    for topic, first, partitions in topics:
        for number, partition in enumerate(partitions, first):
            yield f"{topic}-{number}", ", ".join(map(str, partition.replicas))


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


def _split(ops: list[Op], bytes_max: int) -> list[list[Op]]:
    """The first op is the check that every part begins with."""
    parts: list[list[Op]] = [[ops[0]]]
    size = 0
    for op in ops[1:]:
        op_size = OP_BYTES + len(op.path) + len(getattr(op, "data", b""))
        if size + op_size > bytes_max and len(parts[-1]) > 1:
            parts.append([ops[0]])
            size = 0
        parts[-1].append(op)
        size += op_size
    return parts


def _fault_of(write: _Writing) -> JournalFault | None:
    if write.cancelled():
        return JournalFault(Error.NOT_CONTROLLER, "The controller was stopped.")
    error = write.exception()
    if error is None:
        return None
    if isinstance(error, BadVersion | NoNode) and error.path == paths.CONTROLLER_EPOCH:
        return JournalFault(Error.NOT_CONTROLLER, "Another broker has become the controller.")
    known = isinstance(error, StoreError)
    return JournalFault(
        Error.KAFKA_STORAGE_ERROR if known else Error.UNKNOWN_SERVER_ERROR,
        f"The metadata store did not take a change: {error}",
    )
