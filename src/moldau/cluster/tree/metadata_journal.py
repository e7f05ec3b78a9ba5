"""The controller's journal: facts become one conditional write to the znode tree.

Every write raises the version of /controller_epoch by one, from the version that the write before
it left. So a controller which was replaced without noticing can change nothing any more, no write
takes effect without those before it, and the version tells how many of them the tree holds. Writes
are started in order and may overlap; the engine hears of each when it and all before it are
durable. If the connection to ZooKeeper breaks nobody knows what became of the writes under way: the
version is read, and what the tree does not hold is written again, for as long as the session may
last.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.cluster.tree.fact_writes import fitting, is_settings, operations, split
from moldau.cluster.tree.state_change_log import StateChangeLog
from moldau.controller.controller_facts import (
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from moldau.engine.machine import JournalFault, JournalListener
from moldau.engine.timers import TimerHandle, Timers
from moldau.metadata import paths
from moldau.metadata.store import (
    BadVersion,
    MetadataStore,
    NodeExists,
    NoNode,
    Op,
    StoreError,
    StoreUnavailable,
    Write,
)
from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from moldau.model.names import BrokerId, Millis

if TYPE_CHECKING:
    from moldau.controller.broker_requests.state_change_lines import StateChange

log = logging.getLogger("kafka.controller.KafkaController")

WRITES_IN_FLIGHT_MAX = 1000
MENDED_MAX = 5
"""Times that one write is adapted to settings that somebody else has put into the tree."""
LOOK_AGAIN_MS = 100
REPLACED = "Another broker has become the controller."

_Writing = asyncio.Task[list[str | int | None]]


class ControllerEpoch(NamedTuple):
    """One broker's time as the controller."""

    broker: BrokerId
    epoch: int
    epoch_version: int
    """Of the node that holds the epoch: the writes of this term count on from here, and it changes
    when another controller takes over."""


class Patience(NamedTuple):
    """For a store that may be out of reach for a while."""

    timers: Timers
    timeout_ms: Millis


class _InFlight(NamedTuple):
    position: int
    ops: Sequence[Op]
    write: _Writing | None
    """None while those before it are written again."""
    facts: Sequence[object]
    """They stand beside the last of their writes, nothing beside those before it."""
    changes: Sequence[StateChange]
    """The same in the words of the state-change log."""
    mended: int = 0
    is_repeated: bool = False

    @property
    def fault(self) -> BaseException | None:
        write = self.write
        if write is None or not write.done() or write.cancelled():
            return None
        return write.exception()


class MetadataJournal:
    def __init__(
        self,
        store: MetadataStore,
        term: ControllerEpoch,
        *,
        write_bytes_max: int | None = None,
        state_changes: StateChangeLog | None = None,
        patience: Patience | None = None,
    ) -> None:
        """With a limit, larger changes go in several writes. Each is complete in itself: a next
        controller that finds only the first of them goes on from there. Without patience a write
        that is not answered ends the term."""
        self._state_changes = state_changes
        self._store = store
        self._term = term
        self._epoch_data = paths.encode_controller_epoch(term.epoch)
        self._listener: JournalListener | None = None
        self._position = 0
        self._in_flight: deque[_InFlight] = deque()
        self._write_bytes_max = write_bytes_max
        self._is_broken = False
        self._patience = patience
        self._repeating: asyncio.Task[None] | None = None
        self._giving_up: TimerHandle | None = None

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
        ops = [op for fact in facts for op in operations(fact, self._term.epoch)]
        changes = () if self._state_changes is None else self._state_changes.changes(facts)
        parts = [ops] if self._write_bytes_max is None else split(ops, self._write_bytes_max)
        for part in parts:
            self._position += 1
            said = (facts, changes) if part is parts[-1] else ((), ())
            each = _InFlight(self._position, part, None, *said)
            self._in_flight.append(each if self._repeating is not None else self._begun(each))
        return self._position

    def close(self) -> None:
        """The term is over: nothing is written any more, and nobody is told."""
        self._is_broken = True
        self._be_patient()
        if self._repeating is not None:
            self._repeating.cancel()
        behind, self._in_flight = self._in_flight, deque()
        for each in behind:
            if each.write is not None:
                each.write.cancel()

    def _begun(self, each: _InFlight) -> _InFlight:
        return each._replace(write=self._start(self._store.multi(self._fenced(each))))

    def _fenced(self, each: _InFlight) -> list[Op]:
        """Not without all writes before this one, and not in another's term."""
        version = self._term.epoch_version + each.position - 1
        return [Write(paths.CONTROLLER_EPOCH, self._epoch_data, version), *each.ops]

    def _start(self, writing: Coroutine[Any, Any, list[str | int | None]]) -> _Writing:
        write = asyncio.get_running_loop().create_task(writing)
        write.add_done_callback(self._finished)
        return write

    def _finished(self, write: _Writing) -> None:
        if not write.cancelled():
            # Looked at here, because after a fault nobody else asks those behind it.
            write.exception()
        if self._repeating is not None:
            return
        while self._in_flight and (first := self._in_flight[0]).write is not None:
            if not first.write.done():
                return
            if self._is_to_be_repeated(first):
                self._repeating = asyncio.get_running_loop().create_task(self._repeat())
                self._repeating.add_done_callback(self._repeated)
                return
            fault = _fault_of(first.write)
            if fault is not None:
                self._break(fault)
                return
            self._commit_first()

    def _commit_first(self) -> None:
        assert self._listener is not None
        self._be_patient()
        first = self._in_flight.popleft()
        self._say(first.facts)
        if self._state_changes is not None:
            self._state_changes.write(first.changes)
        self._listener.committed(first.position)

    # Once more

    def _is_to_be_repeated(self, failed: _InFlight) -> bool:
        """Whether the outcome is unknown, or only the settings of a topic stood in the way."""
        if _met_foreign_settings(failed):
            return True
        if self._patience is None:
            return False
        # A write that was repeated may have come second to itself.
        second = failed.is_repeated and _is_overtaken(failed.fault)
        return second or isinstance(failed.fault, StoreUnavailable)

    async def _repeat(self) -> None:
        """Ends when all that is in flight is on its way again, in order, or nothing is left."""
        try:
            while first := self._in_flight and self._in_flight[0]:
                self._be_impatient(first.fault)
                await asyncio.wait([each.write for each in self._in_flight if each.write])
                await self._commit_applied()
                if not self._in_flight or not _met_foreign_settings(self._in_flight[0]):
                    break
                first = self._in_flight[0]
                write = self._start(self._mend(first))
                self._in_flight[0] = first._replace(write=write, mended=first.mended + 1)
            again = [each._replace(is_repeated=True) for each in self._in_flight]
            self._in_flight = deque(map(self._begun, again))
        finally:
            self._repeating = None

    def _repeated(self, repeating: asyncio.Task[None]) -> None:
        if not repeating.cancelled() and (fault := repeating.exception()) is not None:
            self._break(_unwritten(fault))

    async def _commit_applied(self) -> None:
        """What the tree holds is written, whatever its answer was. The tree that is read may be an
        old one: a write that is then repeated in vain is looked at again."""
        while True:
            try:
                node = await self._store.get(paths.CONTROLLER_EPOCH)
                break
            except StoreUnavailable as fault:
                if self._patience is None:
                    raise
                self._be_impatient(fault)
                await self._patience.timers.pause(LOOK_AGAIN_MS)
        applied = node.version - self._term.epoch_version
        if node.data != self._epoch_data or applied > self._position:
            self._break(JournalFault(Error.NOT_CONTROLLER, REPLACED))
        while self._in_flight and self._in_flight[0].position <= applied:
            self._commit_first()

    def _be_impatient(self, fault: BaseException | None) -> None:
        """Others take a broker for dead that has not been heard of for so long."""
        if self._patience is not None and self._giving_up is None and fault is not None:
            limit_ms = self._patience.timeout_ms
            reason = f"no answer for {limit_ms} ms, as long as a session lasts: {fault}"
            refusal = JournalFault(Error.KAFKA_STORAGE_ERROR, f"The metadata store gave {reason}")
            self._giving_up = self._patience.timers.after(limit_ms, lambda: self._break(refusal))

    def _be_patient(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    async def _mend(self, failed: _InFlight) -> list[str | int | None]:
        """The same once more, over the settings of topics that are there, as Apache Kafka does: a
        topic's may be left from one of that name, or be gone, by the hand of another."""
        of_settings = [op.path for op in failed.ops if is_settings(op)]
        nodes = await self._store.get_many(of_settings)
        there = {path for path, node in zip(of_settings, nodes, strict=True) if node is not None}
        kept = [each for op in failed.ops if (each := fitting(op, there)) is not None]
        return await self._store.multi(self._fenced(failed._replace(ops=kept)))

    def _break(self, fault: JournalFault) -> None:
        """Nothing behind a lost write may count as committed."""
        assert self._listener is not None
        if not self._is_broken:
            log.error("[Controller id=%d] resigns: %s", self._term.broker, fault.message)
            self.close()
            self._listener.failed(fault)

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


def _met_foreign_settings(failed: _InFlight) -> bool:
    """Whether nothing but the settings of a topic stood in the way."""
    error = failed.fault
    if failed.mended == MENDED_MAX or not isinstance(error, NodeExists | NoNode):
        return False
    return any(op.path == error.path for op in failed.ops if is_settings(op))


def _is_overtaken(error: BaseException | None) -> bool:
    return isinstance(error, BadVersion | NoNode) and error.path == paths.CONTROLLER_EPOCH


def _rows(
    topics: Iterable[tuple[str, int, Sequence[PartitionImage]]],
) -> Iterator[tuple[str, str]]:
    for topic, first, partitions in topics:
        for number, partition in enumerate(partitions, first):
            yield f"{topic}-{number}", ", ".join(map(str, partition.replicas))


def _fault_of(write: _Writing) -> JournalFault | None:
    if write.cancelled():
        return JournalFault(Error.NOT_CONTROLLER, "The controller was stopped.")
    error = write.exception()
    if error is None:
        return None
    return (
        JournalFault(Error.NOT_CONTROLLER, REPLACED) if _is_overtaken(error) else _unwritten(error)
    )


def _unwritten(error: BaseException) -> JournalFault:
    known = isinstance(error, StoreError)
    return JournalFault(
        Error.KAFKA_STORAGE_ERROR if known else Error.UNKNOWN_SERVER_ERROR,
        f"The metadata store did not take a change: {error}",
    )
