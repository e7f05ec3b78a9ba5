"""Copying records: fetched from one broker of the source, appended to the target.

While what came is appended, the next is fetched: two answers at a time for each broker, and no
more. What fails is asked for again from where the target says that it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moldau.client.admin.admin_core import AdminCore
from moldau.client.admin.own.mirrors_admin import MirroredBatches
from moldau.client.shared.client_errors import KafkaError
from moldau.mirroring.batch_proof import is_same, last_batches
from moldau.mirroring.partition_mirror import (
    Append,
    Fetched,
    LookAgain,
    LookUpOffsets,
    PartitionMirror,
)
from moldau.mirroring.source_cluster import SourceCluster
from moldau.mirroring.topic_mirrors import TopicMirrors
from moldau.model.errors import Error
from moldau.model.names import TopicPartition

APPEND_BYTES = 1024 * 1024
"""The target's loop takes one request at a time."""
PAUSE_S = 0.5
IDLE_S = 0.05
FINAL = {
    Error.INVALID_REQUEST,
    Error.UNKNOWN_TOPIC_ID,
    Error.UNKNOWN_TOPIC_OR_PARTITION,
    Error.RECORD_LIST_TOO_LARGE,
}
"""What the target says when the topic is no mirror of this any more, or cannot take the records."""


class Work(NamedTuple):
    partition: PartitionMirror
    step: Append


class Lane:
    """All partitions that one broker of the source leads."""

    def __init__(
        self, node: int, source: SourceCluster, target: AdminCore, mirrors: TopicMirrors
    ) -> None:
        self._node = node
        self._source = source
        self._target = target
        self._mirrors = mirrors
        self._appending: asyncio.Task[None] | None = None
        self._answers = 0

    async def run(self) -> None:
        try:
            while True:
                await self._turn()
        finally:
            if self._appending is not None:
                self._appending.cancel()
                with contextlib.suppress(asyncio.CancelledError, KafkaError):
                    await self._appending

    async def _turn(self) -> None:
        now = asyncio.get_running_loop().time()
        mine = [
            each
            for each in self._mirrors.partitions()
            if not each.stopped
            and each.resume_at <= now
            and self._source.leader(each.place) == self._node
        ]
        if any(each.position < 0 for each in mine):
            await self._settled()
            await self._locate([each for each in mine if each.position < 0])
        unproven = [each for each in mine if each.position >= 0 and not each.is_proven]
        if unproven:
            await self._settled()
            await self._prove(unproven)
        wanted = [each for each in mine if each.is_proven and each.position >= 0]
        if not wanted:
            await asyncio.sleep(IDLE_S)
            return
        wanted.sort(key=lambda each: each.served)
        asked = [(each, each.generation) for each in wanted]
        try:
            rows = await self._source.fetch(self._node, wanted)
        except KafkaError as error:
            await self._settled()
            for each in wanted:
                # Another state of the source may come back.
                each.is_unknown()
            self._put_off(wanted, error.message)
            await self._look_again(wanted)
            return
        work = await self._judge(asked, rows)
        await self._settled()
        self._appending = asyncio.create_task(self._append(work)) if work else None

    async def _judge(
        self, asked: Sequence[tuple[PartitionMirror, int]], rows: Mapping[TopicPartition, Fetched]
    ) -> list[Work]:
        work = []
        moved = []
        self._answers += 1
        for partition, generation in asked:
            row = rows.get(partition.place)
            if row is None:
                continue
            match partition.fetched(row, generation):
                case Append() as step:
                    partition.trouble, partition.served = "", self._answers
                    work.append(Work(partition, step))
                case LookAgain(code):
                    self._put_off([partition], Error(code).name)
                    moved.append(partition)
                case LookUpOffsets():
                    await self._look_up(partition, generation)
        if moved:
            await self._look_again(moved)
        return work

    async def _look_up(self, partition: PartitionMirror, generation: int) -> None:
        try:
            start, end = await self._source.offsets(partition.place)
        except KafkaError as error:
            self._put_off([partition], error.message)
            return
        partition.looked_up(start, end, generation)

    async def _look_again(self, partitions: Sequence[PartitionMirror]) -> None:
        with contextlib.suppress(KafkaError):
            # Asked for again with the next turn.
            await self._source.look_again({each.place.topic for each in partitions})

    def _put_off(self, partitions: Sequence[PartitionMirror], reason: str) -> None:
        resume_at = asyncio.get_running_loop().time() + PAUSE_S
        for each in partitions:
            each.resume_at, each.trouble = resume_at, reason

    async def _settled(self) -> None:
        appending, self._appending = self._appending, None
        if appending is not None:
            await appending

    async def _locate(self, partitions: Sequence[PartitionMirror]) -> None:
        topics = [topic for each in partitions if (topic := self._mirrors.of(each)) is not None]
        names = {topic.target_name for topic in topics}
        if not names:
            return
        try:
            infos = await self._target.describe_mirrors(sorted(names))
        except KafkaError as error:
            self._put_off(partitions, f"the target does not answer: {error.message}")
            return
        self._mirrors.located(infos, {each.place for each in partitions})
        self._put_off([each for each in partitions if each.position < 0], "not at the target")

    async def _prove(self, partitions: Sequence[PartitionMirror]) -> None:
        """That the source still has what was mirrored last, and not something else."""
        of = self._mirrors.of
        pairs = [(each, topic) for each in partitions if (topic := of(each)) is not None]
        at_target = {
            each.place: TopicPartition(topic.target_name, each.place.partition)
            for each, topic in pairs
        }
        ends = {each.place: each.position for each, _ in pairs}
        try:
            names = {topic.target_name for _, topic in pairs}
            await self._target.cluster.refresh(names, allow_auto_create=False)
            there = await last_batches(
                self._source.admin, {each.place.topic: each.topic_id for each, _ in pairs}, ends
            )
            here = await last_batches(
                self._target,
                {topic.target_name: topic.target_id for _, topic in pairs},
                {at_target[place]: end for place, end in ends.items()},
            )
        except KafkaError as error:
            self._put_off(partitions, error.message)
            await self._look_again(partitions)
            return
        for each, _ in pairs:
            place, end = each.place, ends[each.place]
            try:
                each.is_proven = is_same(there.get(place, b""), here.get(at_target[place], b""))
            except KafkaError as error:
                self._put_off([each], error.message)
                continue
            if not each.is_proven:
                each.stop(
                    f"the source has another batch before offset {end} than the target: it lost"
                    " records, or was put back to an earlier state"
                )

    # Appending

    async def _append(self, work: Sequence[Work]) -> None:
        try:
            await self._raise_epochs(work)
        except KafkaError as error:
            self._failed(work, error)
            return
        await asyncio.gather(*(self._send(part) for part in parts_of(work)))

    async def _raise_epochs(self, work: Sequence[Work]) -> None:
        """Where a batch is of a newer leader than the target's partition knows."""
        newer: dict[str, dict[int, int]] = {}
        for partition, step in work:
            if step.leader_epoch > partition.leader_epoch:
                topic, number = partition.place
                newer.setdefault(topic, {})[number] = step.leader_epoch
        for partition, _ in work:
            epochs = newer.pop(partition.place.topic, None)
            topic_mirror = self._mirrors.of(partition)
            if epochs and topic_mirror is not None:
                await self._target.raise_mirror_epochs(
                    topic_mirror.target_id, topic_mirror.source, epochs
                )
        for partition, step in work:
            partition.leader_epoch = max(partition.leader_epoch, step.leader_epoch)

    async def _send(self, part: Sequence[Work]) -> None:
        rows, part = [], [each for each in part if self._mirrors.of(each.partition) is not None]
        for partition, step in part:
            topic = self._mirrors.of(partition)
            assert topic is not None
            rows.append(
                MirroredBatches(
                    topic.target_id,
                    topic.source,
                    partition.place.partition,
                    step.offset,
                    step.log_start,
                    step.records,
                )
            )
        try:
            outcomes = await self._target.append_mirrored(rows)
        except KafkaError as error:
            self._failed(part, error)
            return
        for each, outcome in zip(part, outcomes, strict=True):
            if isinstance(outcome, KafkaError):
                self._failed([each], outcome)
            else:
                each.partition.appended(outcome, each.step.log_start)

    def _failed(self, work: Sequence[Work], error: KafkaError) -> None:
        """Where the target stands now is asked with the next turn."""
        for partition, _ in work:
            if error.code in FINAL:
                partition.stop(f"the target takes no more: {error.message}")
            else:
                partition.is_unknown()
                if error.code is not Error.OFFSET_OUT_OF_RANGE:
                    self._put_off([partition], error.message)


def parts_of(work: Sequence[Work]) -> list[list[Work]]:
    parts: list[list[Work]] = []
    size = 0
    for each in work:
        if not parts or size + len(each.step.records) > APPEND_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(each)
        size += len(each.step.records)
    return parts
