"""Restoring onto Moldau: batches are appended as a follower does, so offsets, epochs, producers and
transactions are the original's.

All topics appear at once when everything is there; before that nobody sees any of it, and a fault
leaves nothing. Then groups get their offsets, and all of it is read back and compared.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from moldau.backup.backup_faults import BackupFault
from moldau.backup.cluster_source import ClusterSource, gather_some
from moldau.backup.moments import GroupRow
from moldau.backup.progress import Progress
from moldau.backup.restore_plan import Plan, PlannedPartition, PlannedTopic
from moldau.backup.restored_batches import RestoredBatches, Sum
from moldau.client.admin.own.restores_admin import TopicToRestore
from moldau.client.consumer.consumer_records import OffsetAndMetadata
from moldau.client.shared.client_errors import KafkaError
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.records.batch import Buffer, whole_headers

APPEND_BYTES = 1024 * 1024
"""The broker's loop takes one request at a time: as much as a follower fetches."""
AT_ONCE = 4


class RestoredPartition(NamedTuple):
    place: TopicPartition
    log_start: int
    offset_end: int
    records: int
    raw_bytes: int
    checksum: int
    committed: int
    """Transactions that were open at the cut and are committed here."""
    aborted: int


class Restored(NamedTuple):
    partitions: tuple[RestoredPartition, ...]
    groups: Mapping[str, tuple[GroupRow, ...]]
    not_moved: Mapping[str, str]
    """Groups whose offsets could not be set, and why."""


async def restore(
    target: ClusterSource, plan: Plan, progress: Progress, *, at_once: int = AT_ONCE
) -> Restored:
    """Raises BackupFault, KafkaError; then there is nothing of it."""
    admin = target.admin
    topics = [
        TopicToRestore(
            topic.name,
            [partition.log_start for partition in topic.partitions],
            topic.configs,
            topic.topic_id,
        )
        for topic in plan.topics
    ]
    progress.begins(_records(plan))
    restore_id = await _begin(target, topics)
    is_done = False
    try:
        works = [
            _Appending(target, restore_id, plan, topic, partition, progress).run
            for topic in plan.topics
            for partition in topic.partitions
        ]
        partitions = await _all(works, at_once)
        await admin.end_restore(restore_id, is_wanted=True, producer_id_last=plan.producer_id_last)
        is_done = True
    finally:
        if not is_done:
            # Should this not arrive, then it goes by itself: it is no topic.
            with contextlib.suppress(KafkaError):
                await admin.end_restore(restore_id, is_wanted=False)
    groups = clamped(plan.groups, {each.place: each.offset_end for each in partitions})
    return Restored(tuple(partitions), groups, await move_groups(target, groups))


async def _begin(target: ClusterSource, topics: list[TopicToRestore]) -> str:
    try:
        return await target.admin.begin_restore(topics)
    except KafkaError as error:
        if error.code is not Error.TOPIC_ALREADY_EXISTS or "topic id" not in error.message:
            raise BackupFault(f"the restore cannot begin: {error.message}") from error
    # The original lives on under another name.
    anew = [topic._replace(topic_id=bytes(16)) for topic in topics]
    try:
        return await target.admin.begin_restore(anew)
    except KafkaError as error:
        raise BackupFault(f"the restore cannot begin: {error.message}") from error


async def _all(works: Iterable[Any], at_once: int) -> list[RestoredPartition]:
    try:
        return await gather_some(works, at_once)
    except ExceptionGroup as faults:
        raise first_fault(faults) from None


def first_fault(faults: ExceptionGroup) -> Exception:
    fault = faults.exceptions[0]
    return first_fault(fault) if isinstance(fault, ExceptionGroup) else fault


def _records(plan: Plan) -> int:
    return sum(
        row.counts.records
        for topic in plan.topics
        for partition in topic.partitions
        for row in partition.files
    )


class _Appending:
    def __init__(
        self,
        target: ClusterSource,
        restore_id: str,
        plan: Plan,
        topic: PlannedTopic,
        partition: PlannedPartition,
        progress: Progress,
    ) -> None:
        self._target = target
        self._id = restore_id
        self._batches = RestoredBatches(plan, partition)
        self._partition = partition
        self._place = TopicPartition(topic.name, partition.partition)
        self._progress = progress

    async def run(self) -> RestoredPartition:
        chunks, total = self._batches.chunks(), Sum()
        appended = asyncio.create_task(asyncio.sleep(0, self._partition.log_start))
        while True:
            chunk = await asyncio.to_thread(_next, chunks, total)
            end = await appended
            if chunk is None:
                break
            appended = asyncio.create_task(self._append(chunk, end))
        scan, batches = self._batches.scan, self._batches
        if end != batches.offset_end:
            raise BackupFault(
                f"{self._place} ends at {end} in the target, not {batches.offset_end}"
            )
        return RestoredPartition(
            self._place,
            self._partition.log_start,
            end,
            scan.counts.records,
            scan.counts.raw_bytes,
            total.value,
            batches.committed,
            batches.aborted,
        )

    async def _append(self, chunk: Buffer, end: int) -> int:
        for piece in _pieces(chunk):
            end = await self._target.admin.append_restored(self._id, self._place, piece)
            self._progress.copied(len(piece))
        self._progress.copied(0, sum(header.record_count for _, header in whole_headers(chunk)))
        return end


def _next(chunks: Iterator[Buffer], total: Sum) -> Buffer | None:
    chunk = next(chunks, None)
    if chunk is not None:
        total.take(chunk)
    return chunk


def _pieces(chunk: Buffer) -> Iterator[memoryview]:
    """Whole batches, about so many bytes in a request."""
    view = memoryview(chunk)
    start = end = 0
    for position, header in whole_headers(view):
        if position > start and position + header.size_bytes - start > APPEND_BYTES:
            yield view[start:position]
            start = position
        end = position + header.size_bytes
    yield view[start:end]


def clamped(
    groups: Mapping[str, tuple[GroupRow, ...]], ends: Mapping[TopicPartition, int]
) -> dict[str, tuple[GroupRow, ...]]:
    """No group is ahead of the records."""
    return {
        group: tuple(
            row._replace(offset=min(row.offset, ends[TopicPartition(row.topic, row.partition)]))
            for row in rows
        )
        for group, rows in groups.items()
    }


async def move_groups(
    target: ClusterSource, groups: Mapping[str, tuple[GroupRow, ...]]
) -> dict[str, str]:
    """Those that could not be moved, with the reason."""
    faults = {}
    for group, rows in groups.items():
        offsets: dict[TopicPartition, OffsetAndMetadata | int] = {
            TopicPartition(row.topic, row.partition): OffsetAndMetadata(
                row.offset, row.metadata, row.leader_epoch
            )
            for row in rows
        }
        try:
            outcomes = await target.admin.alter_group_offsets(group, offsets)
        except KafkaError as error:
            faults[group] = error.message
            continue
        for place, outcome in outcomes.items():
            if isinstance(outcome, KafkaError):
                faults[group] = f"{place}: {outcome.message}"
    return faults
