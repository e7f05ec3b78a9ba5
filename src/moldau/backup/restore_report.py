"""What a restore proves itself by: every partition and every group is read back from the target and
compared with what was taken from the backup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from moldau.backup.batch_scan import BatchScan, whole_batches
from moldau.backup.cluster_source import ClusterSource, gather_some
from moldau.backup.committed_batches import RecordSum
from moldau.backup.moments import GroupRow
from moldau.backup.produced_restore import Produced, ProducedPartition
from moldau.backup.progress import Progress
from moldau.backup.raw_restore import Restored, RestoredPartition
from moldau.backup.restored_batches import Sum
from moldau.client.shared.client_errors import KafkaError
from moldau.model.names import TopicPartition
from moldau.records.batch import whole_headers


class Row(NamedTuple):
    name: str
    expected: str
    found: str

    @property
    def is_good(self) -> bool:
        return self.expected == self.found


class Report(NamedTuple):
    partitions: tuple[Row, ...]
    groups: tuple[Row, ...]

    @property
    def differences(self) -> list[Row]:
        return [row for row in (*self.partitions, *self.groups) if not row.is_good]

    def as_json(self) -> dict[str, object]:
        return {
            "partitions": [{**row._asdict(), "good": row.is_good} for row in self.partitions],
            "groups": [{**row._asdict(), "good": row.is_good} for row in self.groups],
            "differences": len(self.differences),
        }


async def compare(
    target: ClusterSource, restored: Restored, progress: Progress, at_once: int
) -> Report:
    """Of a raw restore: the same batches, byte for byte."""
    progress.begins(sum(each.records for each in restored.partitions))
    places = [each.place for each in restored.partitions]
    starts, ends = await target.starts(places), await target.ends(places)
    works = [
        _Comparing(target, each, starts[each.place], ends[each.place], progress).run
        for each in restored.partitions
    ]
    return Report(
        tuple(await gather_some(works, at_once)),
        await compare_groups(target, restored.groups, restored.not_moved),
    )


class _Comparing:
    def __init__(
        self,
        target: ClusterSource,
        restored: RestoredPartition,
        start: int,
        end: int,
        progress: Progress,
    ) -> None:
        self._target = target
        self._restored = restored
        self._start = start
        self._end = end
        self._progress = progress

    async def run(self) -> Row:
        restored, total, scan = self._restored, Sum(), BatchScan()
        offset, limit = self._start, min(self._end, restored.offset_end)
        while offset < limit:
            fetched = await self._target.fetch(restored.place, offset, limit)
            batches, offset_next = whole_batches(fetched, offset, limit)
            if not len(batches):
                break
            total.take(batches)
            scan.take(batches)
            offset = offset_next
            self._progress.copied(len(batches))
        self._progress.copied(0, scan.counts.records)
        return Row(
            str(restored.place),
            _words(
                restored.log_start,
                restored.offset_end,
                restored.records,
                restored.raw_bytes,
                restored.checksum,
            ),
            # Producers may have gone on already: what came since is not looked at.
            _words(
                self._start,
                min(self._end, restored.offset_end),
                scan.counts.records,
                scan.counts.raw_bytes,
                total.value,
            ),
        )


async def compare_produced(
    target: ClusterSource, produced: Produced, progress: Progress, at_once: int
) -> Report:
    """Of a restore by produce: the same records, in the same order."""
    progress.begins(sum(each.records.records for each in produced.partitions))
    places = [each.place for each in produced.partitions]
    starts, ends = await target.starts(places), await target.ends(places)

    async def one(each: ProducedPartition) -> Row:
        total = RecordSum()
        offset, limit = starts[each.place], min(ends[each.place], each.mapping.target_end)
        while offset < limit:
            fetched = await target.fetch(each.place, offset, limit)
            batches, offset_next = whole_batches(fetched, offset, limit)
            if not len(batches):
                break
            for position, header in whole_headers(batches):
                total.take(batches[position : position + header.size_bytes], header)
            progress.copied(len(batches), offset_next - offset)
            offset = offset_next
        return Row(str(each.place), str(each.records), str(total))

    works = [partial(one, each) for each in produced.partitions]
    return Report(
        tuple(await gather_some(works, at_once)),
        await compare_groups(target, produced.groups, produced.not_moved),
    )


def _words(start: int, end: int, records: int, raw_bytes: int, checksum: int) -> str:
    return f"offsets {start}..{end}, {records} records, {raw_bytes} bytes, sum {checksum:08x}"


async def compare_groups(
    target: ClusterSource, groups: Mapping[str, Iterable[GroupRow]], not_moved: Mapping[str, str]
) -> tuple[Row, ...]:
    rows: list[Row] = []
    for group, wanted in groups.items():
        found = (await target.admin.list_group_offsets([group]))[group]
        for row in wanted:
            place = TopicPartition(row.topic, row.partition)
            said = not_moved.get(group, "")
            if isinstance(found, KafkaError):
                said = found.message
            elif (offset := found.get(place)) is not None:
                said = str(offset.offset)
            rows.append(Row(f"{group} at {place}", str(row.offset), said or "no offset"))
    return tuple(rows)
