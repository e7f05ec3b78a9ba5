"""One round of a backup: choose the moment, copy up to it, write it down.

A backup is a directory; a round adds to it what came since the last one. Nothing counts before its
moment is written, so a round that was cut off is simply done again, and takes over what it finds.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from moldau.backup.access_rules import read_access
from moldau.backup.backup_faults import BackupFault
from moldau.backup.batch_scan import OpenTransaction
from moldau.backup.cluster_source import (
    GROUPS_TOPIC,
    TRANSACTIONS_TOPIC,
    ClusterSource,
    SourceTopic,
    gather_some,
)
from moldau.backup.coordinator_folds import (
    GroupFold,
    Settle,
    TransactionFold,
    batches_in,
    group_rows,
)
from moldau.backup.copying import Copied, PartitionCopy, Wanted
from moldau.backup.moment_choice import Cut, choose
from moldau.backup.moments import (
    Chain,
    Closing,
    Moment,
    PartitionRow,
    TopicRow,
    data_path,
    directory_of,
    read_chain,
)
from moldau.backup.progress import Progress
from moldau.backup.spark_copying import Spread
from moldau.model.names import TopicPartition

SEGMENT_BYTES = 1 << 30
AT_ONCE = 4
COORDINATORS = (TRANSACTIONS_TOPIC, GROUPS_TOPIC)
"""Topics that are looked into while they are copied."""


class Selection(NamedTuple):
    """Which topics; both empty: all but internal ones."""

    names: tuple[str, ...] = ()
    pattern: str = ""

    def of(self, topics: Mapping[str, SourceTopic]) -> list[SourceTopic]:
        missing = [name for name in self.names if name not in topics]
        if missing:
            raise BackupFault(f"there is no topic {missing[0]}")
        if self.names:
            return [topics[name] for name in sorted(set(self.names))]
        matches = re.compile(self.pattern).fullmatch if self.pattern else None
        return [
            topic
            for topic in topics.values()
            if not topic.is_internal and (matches is None or matches(topic.name))
        ]


class Round(NamedTuple):
    """What a round has done."""

    moment: Moment
    new_records: int
    new_bytes: int
    seconds: float
    tries: int


class Backup:
    def __init__(
        self,
        source: ClusterSource,
        directory: str,
        selection: Selection,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        at_once: int = AT_ONCE,
        progress: Progress,
        spread: Spread | None = None,
    ) -> None:
        """`spread` copies what need not be looked at, elsewhere."""
        self._source = source
        self._directory = directory
        self._selection = selection
        self._segment_bytes = segment_bytes
        self._at_once = at_once
        self._progress = progress
        self._spread = spread
        self._chain: Chain | None = None

    async def round(self) -> Round:
        """Raises BackupFault, KafkaError."""
        started = time.monotonic()
        chain = self._chain
        if chain is None:
            chain = self._chain = await asyncio.to_thread(read_chain, self._directory)
        last = chain.last
        if last is not None and last.cluster_id != self._source.cluster_id:
            raise BackupFault(
                f"{self._directory} is a backup of the cluster {last.cluster_id}, not of"
                f" {self._source.cluster_id}"
            )
        topics = await self._source.topics()
        chosen = self._selection.of(topics)
        own = [topics[name] for name in COORDINATORS if name in topics]
        configs = await self._source.configs([topic.name for topic in chosen])
        access = await read_access(self._source.admin)
        work = _Work(self, chain, [*own, *chosen])
        cut = await choose(
            self._source,
            work.places(TRANSACTIONS_TOPIC),
            work.places(GROUPS_TOPIC),
            [place for topic in chosen for place in work.places(topic.name)],
        )
        moment_ms = time.time_ns() // 1_000_000
        copied = await work.copy(cut)
        moment = work.moment(cut, copied, moment_ms, configs, access)
        await asyncio.to_thread(chain.add, moment)
        counts = [row.counts for rows in moment.files.values() for row in rows]
        return Round(
            moment,
            sum(each.records for each in counts),
            sum(each.raw_bytes for each in counts),
            time.monotonic() - started,
            cut.tries,
        )


class _Work:
    """What one round goes by."""

    def __init__(self, backup: Backup, chain: Chain, topics: Sequence[SourceTopic]) -> None:
        self._backup = backup
        self._chain = chain
        self._topics = {topic.name: topic for topic in topics}
        self._files = chain.files()
        self._pending: Mapping[str, Any] = chain.last.pending if chain.last else {}
        self._transactions = TransactionFold(self._pending.get("transactions"))
        self._groups: dict[TopicPartition, GroupFold] = {}
        self._starts: dict[TopicPartition, int] = {}

    def places(self, name: str) -> list[TopicPartition]:
        topic = self._topics.get(name)
        return [] if topic is None else [TopicPartition(name, n) for n in range(topic.partitions)]

    async def copy(self, cut: Cut) -> dict[TopicPartition, Copied]:
        source = self._backup._source
        self._starts = await source.starts(cut.ends)
        wanted = [self._wanted(place, offset_end) for place, offset_end in cut.ends.items()]
        progress = self._backup._progress
        progress.begins(sum(max(0, each.offset_end - each.offset_start) for each in wanted))
        spread = self._backup._spread
        own = [each for each in wanted if spread is None or each.place.topic in COORDINATORS]
        works = [PartitionCopy(source, each, self._look(each.place), progress).run for each in own]
        try:
            copied = await gather_some(works, self._backup._at_once)
        except* BackupFault as faults:
            raise _first(faults) from None
        if spread is not None:
            others = [each for each in wanted if each.place.topic not in COORDINATORS]
            copied += await asyncio.to_thread(spread, others)
        return {each.place: each for each in copied}

    def _wanted(self, place: TopicPartition, offset_end: int) -> Wanted:
        name = self._name(place)
        files = self._files.get(name, [])
        start = self._starts[place]
        if files:
            start = max(files[-1].offset_end, self._known_end(name))
        elif (known := self._known_end(name)) >= 0:
            start = known
        if offset_end < start and files:
            raise BackupFault(
                f"{place} ends at {offset_end}, and this backup has it up to {start}: its leader"
                " has lost records. Begin another backup in a new directory"
            )
        rows = self._pending.get("open", {}).get(name, ())
        return Wanted(
            place,
            data_path(self._backup._directory, name),
            start,
            max(offset_end, start),
            [OpenTransaction(*row) for row in rows],
            self._backup._segment_bytes,
        )

    def _name(self, place: TopicPartition) -> str:
        topic = self._topics[place.topic]
        return f"{directory_of(topic.name, topic.topic_id)}/{place.partition}"

    def _known_end(self, name: str) -> int:
        last = self._chain.last
        topic_name, _, partition = name.rpartition("/")
        if last is None:
            return -1
        for topic in last.topics.values():
            if topic.directory == topic_name and int(partition) < len(topic.partitions):
                return topic.partitions[int(partition)].offset_end
        return -1

    def _look(self, place: TopicPartition) -> Callable[[memoryview], None] | None:
        if place.topic == TRANSACTIONS_TOPIC:
            return partial(_feed, self._transactions)
        if place.topic == GROUPS_TOPIC:
            kept = self._pending.get("groups", {}).get(str(place.partition))
            fold = self._groups[place] = GroupFold(kept)
            return partial(_feed, fold)
        return None

    def moment(
        self,
        cut: Cut,
        copied: Mapping[TopicPartition, Copied],
        moment_ms: int,
        configs: Mapping[str, Mapping[str, str]],
        access: Mapping[str, Any],
    ) -> Moment:
        settle = self._transactions.settle()
        committed = {}
        for fold in self._groups.values():
            committed.update(fold.settled(settle))
        last = self._chain.last
        return Moment(
            number=len(self._chain.moments) + 1,
            moment_ms=moment_ms,
            cluster_id=self._backup._source.cluster_id,
            is_exact=cut.is_exact,
            topics={
                name: self._topic_row(topic, cut, copied, configs.get(name, {}), settle)
                for name, topic in self._topics.items()
            },
            files={self._name(each.place): each.files for each in copied.values() if each.files},
            groups=group_rows(committed),
            pending={
                "transactions": self._transactions.kept(),
                "groups": {str(p.partition): fold.kept() for p, fold in self._groups.items()},
                "open": {
                    self._name(each.place): [list(row) for row in each.open]
                    for each in copied.values()
                    if each.open
                },
            },
            access=access,
            before=self._chain.checksum if last is not None else 0,
        )

    def _topic_row(
        self,
        topic: SourceTopic,
        cut: Cut,
        copied: Mapping[TopicPartition, Copied],
        configs: Mapping[str, str],
        settle: Settle,
    ) -> TopicRow:
        return TopicRow(
            topic.name,
            topic.topic_id,
            directory_of(topic.name, topic.topic_id),
            tuple(
                PartitionRow(
                    cut.ends[place],
                    self._starts[place],
                    tuple(
                        Closing(*each, settle(each.producer_id, each.producer_epoch))
                        for each in copied[place].open
                    ),
                )
                for place in self.places(topic.name)
            ),
            configs,
        )


def _feed(fold: TransactionFold | GroupFold, chunk: memoryview) -> None:
    for header, records in batches_in(chunk):
        fold.take(header, records)


def _first(faults: ExceptionGroup[BackupFault]) -> BackupFault:
    fault = faults.exceptions[0]
    return _first(fault) if isinstance(fault, ExceptionGroup) else fault
