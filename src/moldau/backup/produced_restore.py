"""Restoring onto a cluster that is not Moldau's: committed records are produced, in order, without
doubles; offsets become others, and the mapping from old to new is kept.

All of the backup is read before anything is made. A fault takes the topics away again that this
restore has made; a kill leaves them: delete them, and begin anew.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.backup.backup_faults import BackupFault
from moldau.backup.cluster_source import PATIENCE_S, ClusterSource, gather_some
from moldau.backup.committed_batches import (
    AbortedRanges,
    RecordSum,
    as_produced,
    committed,
    offsets_of,
)
from moldau.backup.moments import GroupRow
from moldau.backup.progress import Progress
from moldau.backup.raw_restore import first_fault, move_groups
from moldau.backup.restore_plan import Plan, PlannedPartition, PlannedTopic
from moldau.backup.restored_batches import RestoredBatches
from moldau.client.admin.admin_results import NewTopic
from moldau.client.shared.client_errors import KafkaError, error_for
from moldau.model.names import TopicPartition
from moldau.records.batch import BatchHeader, read_header
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.transactions import InitProducerIdRequest

NAMED_TOPICS_MAX = 12
TIMEOUT_MS = 60_000
NO_LIMIT_MS = 2**31 - 1


class Run(NamedTuple):
    """So many records in a row, here and there."""

    source: int
    target: int
    length: int


class OffsetMapping:
    """From the offsets of one partition of the backup to those of the target."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.target_end = 0

    def add(self, source: int, target: int, count: int) -> None:
        last = self.runs[-1] if self.runs else None
        if (
            last is not None
            and last.source + last.length == source
            and last.target + last.length == target
        ):
            self.runs[-1] = last._replace(length=last.length + count)
        else:
            self.runs.append(Run(source, target, count))
        self.target_end = target + count

    def of(self, source: int) -> int:
        """Where the first record stands that was at `source` or behind it."""
        index = bisect.bisect_right(self.runs, source, key=lambda run: run.source) - 1
        if index >= 0 and source < self.runs[index].source + self.runs[index].length:
            run = self.runs[index]
            return run.target + source - run.source
        return self.runs[index + 1].target if index + 1 < len(self.runs) else self.target_end


class ProducedPartition(NamedTuple):
    place: TopicPartition
    mapping: OffsetMapping
    records: RecordSum
    raw_bytes: int


class Produced(NamedTuple):
    partitions: tuple[ProducedPartition, ...]
    groups: Mapping[str, tuple[GroupRow, ...]]
    not_moved: Mapping[str, str]

    def offsets_json(self) -> dict[str, Any]:
        """For who has stored offsets elsewhere."""
        found: dict[str, Any] = {}
        for each in self.partitions:
            rows = [list(run) for run in each.mapping.runs]
            found.setdefault(each.place.topic, {})[str(each.place.partition)] = {
                "runs": rows,
                "end": each.mapping.target_end,
            }
        return found


async def restore_by_produce(
    target: ClusterSource, plan: Plan, progress: Progress, *, at_once: int
) -> Produced:
    """Raises BackupFault, KafkaError."""
    progress.begins(2 * _records(plan))
    aborted = await asyncio.to_thread(_read_all, plan, progress)
    producer = await _producer_id(target)
    await _create(target, plan)
    is_done = False
    try:
        works = [
            _Producing(target, plan, topic, partition, aborted[key], producer, progress).run
            for topic in plan.topics
            for partition in topic.partitions
            for key in [(topic.name, partition.partition)]
        ]
        try:
            partitions = await gather_some(works, at_once)
        except ExceptionGroup as faults:
            raise first_fault(faults) from None
        is_done = True
    finally:
        if not is_done:
            with contextlib.suppress(KafkaError):
                await target.admin.delete_topics([topic.name for topic in plan.topics])
    mappings = {each.place: each.mapping for each in partitions}
    groups = {
        group: tuple(
            row._replace(
                offset=mappings[TopicPartition(row.topic, row.partition)].of(row.offset),
                leader_epoch=-1,
            )
            for row in rows
        )
        for group, rows in plan.groups.items()
    }
    return Produced(tuple(partitions), groups, await move_groups(target, groups))


def _records(plan: Plan) -> int:
    return sum(
        row.counts.records
        for topic in plan.topics
        for partition in topic.partitions
        for row in partition.files
    )


def _read_all(plan: Plan, progress: Progress) -> dict[tuple[str, int], AbortedRanges]:
    """So a file that is missing or damaged is found before there is anything of it."""
    found = {}
    for topic in plan.topics:
        for partition in topic.partitions:
            batches = RestoredBatches(plan, partition)
            key = topic.name, partition.partition
            found[key] = AbortedRanges(batches.chunks())
            progress.copied(0, batches.scan.counts.records)
    return found


async def _producer_id(target: ClusterSource) -> tuple[int, int]:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=NO_LIMIT_MS)
    answer = await target.admin._from_any(request)
    return answer.producer_id, answer.producer_epoch


async def _create(target: ClusterSource, plan: Plan) -> None:
    """All or none."""
    wanted = [
        NewTopic(topic.name, len(topic.partitions), -1, dict(topic.configs))
        for topic in plan.topics
    ]
    for validate_only in (True, False):
        made = await target.admin.create_topics(wanted, validate_only=validate_only)
        for name, outcome in made.items():
            if isinstance(outcome, KafkaError):
                reason = f"topic {name} cannot be made: {outcome.message}"
                raise BackupFault(f"the restore cannot begin: {reason}")


class _Producing:
    def __init__(
        self,
        target: ClusterSource,
        plan: Plan,
        topic: PlannedTopic,
        partition: PlannedPartition,
        aborted: AbortedRanges,
        producer: tuple[int, int],
        progress: Progress,
    ) -> None:
        self._target = target
        self._batches = RestoredBatches(plan, partition)
        self._place = TopicPartition(topic.name, partition.partition)
        self._aborted = aborted
        self._producer = producer
        self._progress = progress
        self._mapping = OffsetMapping()
        self._sum = RecordSum()
        self._sequence = self._raw_bytes = 0

    async def run(self) -> ProducedPartition:
        batches = committed(self._batches.chunks(), self._aborted)
        while (found := await asyncio.to_thread(next, batches, None)) is not None:
            await self._send(*found)
        return ProducedPartition(self._place, self._mapping, self._sum, self._raw_bytes)

    async def _send(self, batch: memoryview, header: BatchHeader) -> None:
        sent = as_produced(batch, header, *self._producer, self._sequence)
        offset = await self._until_there(sent)
        for first, count in offsets_of(batch, header):
            self._mapping.add(first, offset, count)
            offset += count
        self._sum.take(sent, read_header(sent))
        self._raw_bytes += len(sent)
        # As in a header: behind 2^31 - 1 comes 0.
        self._sequence = (self._sequence + header.record_count) & 0x7FFFFFFF
        self._progress.copied(len(sent), header.record_count)

    async def _until_there(self, sent: bytes) -> int:
        """Sent again it is there once: it bears its producer's sequence."""
        deadline, failures = time.monotonic() + PATIENCE_S, 0
        while True:
            try:
                return await self._send_once(sent)
            except KafkaError as error:
                if not error.retriable or time.monotonic() >= deadline:
                    reason = f"records cannot be written to {self._place}: {error.message}"
                    raise BackupFault(reason) from error
            failures += 1
            await self._target.admin.network.pause(failures)
            with contextlib.suppress(KafkaError):
                await self._target.admin.cluster.refresh([self._place.topic])

    async def _send_once(self, sent: bytes) -> int:
        admin, place = self._target.admin, self._place
        leader = admin.cluster.leader(*place)
        if leader is None:
            await admin.cluster.refresh([place.topic], allow_auto_create=False)
            leader = admin.cluster.leader(*place)
            if leader is None:
                raise admin._no_leader(place)
        data = PartitionProduceData(index=place.partition, records=sent)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=place.topic, partition_data=[data])],
        )
        answer = await admin.network.call(leader[0], request, version_max=NAMED_TOPICS_MAX)
        row = answer.responses[0].partition_responses[0]
        if row.error_code:
            raise error_for(row.error_code, row.error_message)
        offset: int = row.base_offset
        return offset
