"""What the coordinators' topics say, batch by batch: which offsets groups have committed, and which
transactions are decided. Pure; what is not settled goes on in the next moment.

A transactional commit of offsets counts from its commit marker on. One whose marker is not there
yet is settled by `Settle`, which knows how the transaction ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from moldau.backup.moments import GroupRow
from moldau.client.serialization.coordinator_records import (
    GROUP_RECORDS,
    OFFSET_COMMIT,
    OFFSET_COMMIT_OLD,
    TRANSACTION_RECORDS,
    UnknownKind,
    read_record,
)
from moldau.records.batch import BatchHeader, Buffer, whole_headers
from moldau.records.batch_codec import ControlType, Record, decode_batch, decode_marker
from moldau.wire.primitives import DecodeError

Key = tuple[str, str, int]
"""Group, topic, partition."""
Committed = tuple[int, int, str]
"""Offset, leader epoch, metadata."""
Settle = Callable[[int, int], bool]
"""Whether the open transaction of a producer id and epoch was committed."""


def batches_in(
    chunk: Buffer, timestamp_end: int | None = None
) -> Iterator[tuple[BatchHeader, list[Record]]]:
    for position, header in whole_headers(chunk):
        records = decode_batch(chunk, position)
        if timestamp_end is not None:
            records = [record for record in records if record.timestamp < timestamp_end]
        yield header, records


class GroupFold:
    """Of one partition of `__consumer_offsets`."""

    def __init__(self, kept: Mapping[str, Any] | None = None) -> None:
        kept = kept or {"committed": [], "pending": []}
        self.committed: dict[Key, Committed] = {
            (row[0], row[1], row[2]): (row[3], row[4], row[5]) for row in kept["committed"]
        }
        self._pending: dict[int, tuple[int, dict[Key, Committed | None]]] = {}
        """Of each producer id with an open transaction: its epoch, and what it commits."""
        for producer_id, epoch, rows in kept["pending"]:
            changes = {(row[0], row[1], row[2]): _committed(row[3:]) for row in rows}
            self._pending[producer_id] = epoch, changes

    def take(self, header: BatchHeader, records: list[Record]) -> None:
        if header.is_control:
            self._end(header, records)
            return
        changes: dict[Key, Committed | None] = self.committed  # type: ignore[assignment]
        if header.is_transactional:
            known = self._pending.setdefault(header.producer_id, (header.producer_epoch, {}))
            changes = known[1]
        for record in records:
            change = _commit_of(record)
            if change is None:
                continue
            key, value = change
            if value is None and not header.is_transactional:
                self.committed.pop(key, None)
            else:
                changes[key] = value

    def _end(self, header: BatchHeader, records: list[Record]) -> None:
        marker = decode_marker(records[0]) if records else None
        pending = self._pending.pop(header.producer_id, None)
        if marker is not None and pending is not None and marker.kind is ControlType.COMMIT:
            _apply(self.committed, pending[1])

    def settled(self, settle: Settle) -> dict[Key, Committed]:
        """What is committed if the open transactions end so."""
        found = dict(self.committed)
        for producer_id, (epoch, changes) in self._pending.items():
            if settle(producer_id, epoch):
                _apply(found, changes)
        return found

    def kept(self) -> dict[str, Any]:
        return {
            "committed": [[*key, *value] for key, value in sorted(self.committed.items())],
            "pending": [
                [producer_id, epoch, [[*key, *(value or ())] for key, value in changes.items()]]
                for producer_id, (epoch, changes) in self._pending.items()
            ],
        }


def _committed(row: list[Any]) -> Committed | None:
    return (row[0], row[1], row[2]) if row else None


def _apply(committed: dict[Key, Committed], changes: Mapping[Key, Committed | None]) -> None:
    for key, value in changes.items():
        if value is None:
            committed.pop(key, None)
        else:
            committed[key] = value


def _commit_of(record: Record) -> tuple[Key, Committed | None] | None:
    try:
        found = read_record(GROUP_RECORDS, bytes(record.key or b""), _bytes(record.value))
    except (UnknownKind, DecodeError):
        # Of a kind of group that has no offsets of its own here.
        return None
    if found.kind not in (OFFSET_COMMIT, OFFSET_COMMIT_OLD):
        return None
    key, value = found.key, found.value
    place = (key.group, key.topic, key.partition)  # type: ignore[attr-defined]
    if value is None:
        return place, None
    return place, (value.offset, value.leader_epoch, value.metadata)  # type: ignore[attr-defined]


def _bytes(value: Buffer | None) -> bytes | None:
    return None if value is None else bytes(value)


def group_rows(committed: Mapping[Key, Committed]) -> dict[str, tuple[GroupRow, ...]]:
    found: dict[str, list[GroupRow]] = {}
    for (group, topic, partition), value in sorted(committed.items()):
        found.setdefault(group, []).append(GroupRow(topic, partition, *value))
    return {group: tuple(rows) for group, rows in found.items()}


class TransactionState(NamedTuple):
    producer_id: int
    producer_epoch: int
    status: int


class State(IntEnum):
    """As the transaction log numbers them; those that matter here."""

    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


DECIDED = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
COMPLETE = (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


class TransactionFold:
    """The transactions of a cluster as `__transaction_state` has them."""

    def __init__(self, kept: Mapping[str, Any] | None = None) -> None:
        self._states = {name: TransactionState(*row) for name, row in (kept or {}).items()}

    def take(self, header: BatchHeader, records: list[Record]) -> bool:
        """Whether one was decided, or begun after another of the same producer."""
        has_decided = False
        if header.is_control:
            return False
        for record in records:
            found = _state_of(record)
            if found is None:
                continue
            name, state = found
            if state is None:
                self._states.pop(name, None)
                continue
            before = self._states.get(name)
            was_complete = before is not None and before.status in COMPLETE
            begins = state.status == State.ONGOING and was_complete
            has_decided |= state.status in DECIDED or begins
            self._states[name] = state
        return has_decided

    def settle(self) -> Settle:
        """A transaction that is open in a partition was committed if its coordinator has decided
        so and is not done with the markers. Where transactions have epochs of their own (KIP-890),
        that decision has the next one."""
        committing = {
            (state.producer_id, state.producer_epoch)
            for state in self._states.values()
            if state.status == State.PREPARE_COMMIT
        }
        return lambda producer_id, epoch: bool(
            committing & {(producer_id, epoch), (producer_id, epoch + 1)}
        )

    def kept(self) -> dict[str, Any]:
        """Without those that are complete: their markers are before this."""
        return {
            name: list(state)
            for name, state in sorted(self._states.items())
            if state.status not in COMPLETE
        }


def _state_of(record: Record) -> tuple[str, TransactionState | None] | None:
    try:
        found = read_record(TRANSACTION_RECORDS, bytes(record.key or b""), _bytes(record.value))
    except (UnknownKind, DecodeError):
        return None
    name: str = found.key.transactional_id  # type: ignore[attr-defined]
    value: Any = found.value
    if value is None:
        return name, None
    return name, TransactionState(value.producer_id, value.producer_epoch, value.transaction_status)
