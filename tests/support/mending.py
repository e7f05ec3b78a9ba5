"""Replicas of one partition as directories, one of which can be asked for its batches as brokers
are, and the repair of another with what it says."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from moldau.model.errors import ApiError
from moldau.model.names import BrokerId
from moldau.records.compression import Codec
from moldau.replication.segment_repair import mend
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.scrubbing.scrub_producers import base_offsets
from moldau.storage.scrubbing.scrub_repair import begin_mending, in_groups, plan_repair
from moldau.storage.scrubbing.segment_scrubbing import ClosedSegment, Damage, scrub_partition
from moldau.wire.messages.fetch import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
)
from moldau.wire.schema import Message
from tests.support.logs import PARTITION, LogBench, SmallSettings, batch, region_bytes

STARTED_MS = 1_700_000_000_000
T = TypeVar("T")


class Replicas:
    """Other brokers, by number; each has a log, and all of it is committed."""

    def __init__(self, **logs: PartitionLog) -> None:
        self._logs = {int(name.removeprefix("broker_")): log for name, log in logs.items()}
        self.asked: list[BrokerId] = []

    async def call(
        self,
        broker: BrokerId,
        request: Message,
        *,
        timeout_ms: int,
        lane: str = "",
        version: int | None = None,
    ) -> Any:
        assert isinstance(request, FetchRequest)
        self.asked.append(broker)
        log = self._logs[broker]
        wanted = request.topics[0].partitions[0]
        row = FetchablePartitionResponse(high_watermark=log.offset_end, records=b"")
        try:
            region, _ = log.read(wanted.fetch_offset, wanted.partition_max_bytes, log.offset_end)
        except ApiError as refusal:
            row.error_code = refusal.error
        else:
            row.records = b"" if region is None else region_bytes(region)
        topic = FetchableTopicResponse(topic=PARTITION.topic, partitions=[row])
        return FetchResponse(responses=[topic])

    def forget(self, broker: BrokerId) -> None:
        pass


def filled(root: Path) -> LogBench:
    """Closed segments with several codecs, epochs and transactions, and an empty one."""
    root.mkdir(exist_ok=True)
    bench = LogBench(root, SmallSettings(segment_bytes=1_500, index_interval_bytes=200))
    for number in range(24):
        epoch, at = number // 10, STARTED_MS + number
        bench.append(batch(3, timestamp=at, codec=Codec(number % 5)), epoch)
        if number % 4 == 1:
            data = batch(
                2,
                timestamp=at,
                producer_id=7,
                epoch=0,
                sequence=number // 2,
                transactional=True,
            )
            bench.append(data, epoch)
        if number % 4 == 3:
            bench.mark(7, 0, commit=number % 8 == 3, leader_epoch=epoch)
    bench.log.roll()
    bench.log.close()
    assert len(bench.files(".log")) > 4
    return bench


def twin(bench: LogBench, root: Path) -> LogBench:
    """Another replica with the very same files."""
    shutil.copytree(bench.root, root)
    return LogBench(root, bench.settings)


def contents(bench: LogBench) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in bench.directory.iterdir()}


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


def damages(bench: LogBench) -> list[Damage]:
    return [
        damage
        for scrubbed in scrub_partition(
            PARTITION, str(bench.directory), with_last=False, has_read=lambda count: None
        )
        for damage in scrubbed.damages
    ]


def closed_segments(bench: LogBench) -> list[ClosedSegment]:
    bases = base_offsets(str(bench.directory))
    return [
        ClosedSegment(PARTITION, str(bench.directory), base, following)
        for base, following in itertools.pairwise(bases)
    ]


def mended(
    bench: LogBench,
    others: Replicas,
    sources: Sequence[BrokerId],
    put_in_place: Callable[[list[int]], object],
    *,
    may_have_gaps: bool = False,
    cleaned_end: int = 0,
) -> tuple[list[int], set[BrokerId | None]]:
    """What is damaged is written anew and given to `put_in_place`, group by group, by the base
    offsets. All of those, and who was the source."""
    plans = plan_repair(
        closed_segments(bench),
        damages(bench),
        may_have_gaps=may_have_gaps,
        cleaned_end=cleaned_end,
    )
    bases: list[int] = []
    whence: set[BrokerId | None] = set()
    for group in in_groups(plans):
        begin = partial(
            begin_mending,
            group,
            may_have_gaps=may_have_gaps,
            index_interval_bytes=bench.settings.index_interval_bytes,
            has_read=lambda count: None,
        )
        source, mendings = asyncio.run(mend(PARTITION, begin, sources, others, at_once))
        whence.add(source)
        bases += [mending.segment.base_offset for mending in mendings]
        put_in_place(bases[-len(mendings) :])
    return bases, whence


async def at_once(work: Callable[[], T]) -> T:
    return work()
