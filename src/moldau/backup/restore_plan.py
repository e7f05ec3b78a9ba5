"""What is to be restored: which topics, up to which offset, how their open transactions end, and
where the groups stand.

A moment of the backup says all of that. For a time or for chosen offsets the coordinators' topics
are read again, up to there.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from moldau.backup.backup_faults import BackupFault
from moldau.backup.batch_scan import OpenTransaction
from moldau.backup.cluster_source import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from moldau.backup.coordinator_folds import (
    GroupFold,
    Settle,
    TransactionFold,
    batches_in,
    group_rows,
)
from moldau.backup.moments import (
    Chain,
    FileRow,
    GroupRow,
    Moment,
    TopicRow,
    data_path,
    place_of,
)
from moldau.backup.verification import checked_chunks


class PlannedPartition(NamedTuple):
    partition: int
    place: str
    """In the backup."""
    files: tuple[FileRow, ...]
    log_start: int
    offset_end: int
    """The cut; what is behind it stays out."""


class PlannedTopic(NamedTuple):
    name: str
    """In the target."""
    original: str
    topic_id: bytes
    """Zero where the target is to draw another."""
    configs: Mapping[str, str]
    partitions: tuple[PlannedPartition, ...]


class Plan(NamedTuple):
    directory: str
    moment: Moment
    topics: tuple[PlannedTopic, ...]
    groups: Mapping[str, tuple[GroupRow, ...]]
    """Under the names that topics have in the target, and not ahead of them."""
    settle: Settle
    """How a transaction ends that is open at the cut."""
    timestamp_end: int | None
    """Records from this time on stay out."""
    closing_ms: int
    """The time that closing markers bear."""

    @property
    def producer_id_last(self) -> int:
        return max(
            (
                row.counts.producer_id_last
                for topic in self.topics
                for partition in topic.partitions
                for row in partition.files
            ),
            default=-1,
        )


class Choice(NamedTuple):
    """What the user asks for."""

    names: tuple[str, ...] = ()
    pattern: str = ""
    renames: Mapping[str, str] = {}
    configs: Mapping[str, str] = {}
    """Instead of what topics had."""
    until_ms: int | None = None
    offsets: Mapping[str, Mapping[str, int]] | None = None
    moment: int | None = None
    with_groups: bool = True


def plan(chain: Chain, choice: Choice) -> Plan:
    """Raises BackupFault."""
    moment = _moment_of(chain, choice)
    files = chain.files(moment.number)
    topics = _topics(chain, moment, choice)
    settle, until_ms = _settle_of(chain.directory, moment, files, choice.until_ms), choice.until_ms
    planned = tuple(
        _planned(topic, files, choice, configs) for topic, configs in _chosen(topics, choice)
    )
    if not planned:
        raise BackupFault(f"{chain.directory} has none of the topics that are to be restored")
    groups = moment.groups
    if until_ms is not None and choice.with_groups:
        groups = _groups_until(chain.directory, moment, files, until_ms, settle)
    return Plan(
        chain.directory,
        moment,
        planned,
        _groups(groups, planned) if choice.with_groups else {},
        settle,
        until_ms,
        moment.moment_ms if until_ms is None else until_ms - 1,
    )


def _moment_of(chain: Chain, choice: Choice) -> Moment:
    """The last one, the one that was named, or the first that has all that was there by a time."""
    if not chain.moments:
        raise BackupFault(f"{chain.directory} has no moment of a backup")
    if choice.moment is not None:
        if not 1 <= choice.moment <= len(chain.moments):
            raise BackupFault(f"the backup has the moments 1 to {len(chain.moments)}")
        return chain.moments[choice.moment - 1]
    if choice.until_ms is None:
        return chain.moments[-1]
    times = [moment.moment_ms for moment in chain.moments]
    index = bisect.bisect_left(times, choice.until_ms)
    if index == len(times):
        raise BackupFault("the backup ends before that time: its last moment may be restored whole")
    return chain.moments[index]


def _topics(chain: Chain, moment: Moment, choice: Choice) -> dict[str, tuple[TopicRow, TopicRow]]:
    """Each with the row that says how far it went and the row that has its settings. Of a time
    both may be of the moment before: a topic may have been deleted or changed since."""
    found = {name: (row, row) for name, row in moment.topics.items()}
    if choice.until_ms is None or moment.number == 1:
        return found
    for name, row in chain.moments[moment.number - 2].topics.items():
        after = moment.topics.get(name)
        is_same = after is not None and after.directory == row.directory
        found[name] = (after, row) if after is not None and is_same else (row, row)
    return found


def _chosen(
    topics: Mapping[str, tuple[TopicRow, TopicRow]], choice: Choice
) -> Iterable[tuple[TopicRow, Mapping[str, str]]]:
    for name in (*choice.names, *choice.renames):
        if name not in topics:
            raise BackupFault(f"the backup has no topic {name}")
    for name, (row, settings) in sorted(topics.items()):
        if choice.names or choice.pattern:
            if name in choice.names or (choice.pattern and re.fullmatch(choice.pattern, name)):
                yield row, settings.configs
        elif not name.startswith("__"):
            yield row, settings.configs


def _planned(
    topic: TopicRow,
    files: Mapping[str, Sequence[FileRow]],
    choice: Choice,
    configs: Mapping[str, str],
) -> PlannedTopic:
    partitions = []
    limits = (choice.offsets or {}).get(topic.name, {})
    for number, row in enumerate(topic.partitions):
        place = place_of(topic, number)
        rows = tuple(files.get(place, ()))
        offset_end = min(row.offset_end, limits.get(str(number), row.offset_end))
        rows = tuple(each for each in rows if each.offset_start < offset_end)
        # Retention may have taken what the backup still has: that is what it is for.
        start = min(row.log_start, rows[0].offset_start) if rows else offset_end
        partitions.append(PlannedPartition(number, place, rows, start, offset_end))
    name = choice.renames.get(topic.name, topic.name)
    topic_id = bytes.fromhex(topic.topic_id) if topic.topic_id else bytes(16)
    return PlannedTopic(
        name,
        topic.name,
        topic_id if name == topic.name else bytes(16),
        {**configs, **choice.configs},
        tuple(partitions),
    )


def _groups(
    groups: Mapping[str, Sequence[GroupRow]], topics: Sequence[PlannedTopic]
) -> dict[str, tuple[GroupRow, ...]]:
    by_name = {topic.original: topic for topic in topics}
    found = {}
    for group, rows in sorted(groups.items()):
        kept = []
        for row in rows:
            topic = by_name.get(row.topic)
            if topic is None or row.partition >= len(topic.partitions):
                continue
            offset = min(row.offset, topic.partitions[row.partition].offset_end)
            kept.append(row._replace(topic=topic.name, offset=offset))
        if kept:
            found[group] = tuple(kept)
    return found


def _settle_of(
    directory: str,
    moment: Moment,
    files: Mapping[str, Sequence[FileRow]],
    until_ms: int | None,
) -> Settle:
    """Of a moment what it says itself; for a time what the coordinators had written by then."""
    if until_ms is None:
        fold = TransactionFold(moment.pending.get("transactions"))
        return fold.settle()
    fold = TransactionFold()
    for path, row in _files_of(directory, moment, files, TRANSACTIONS_TOPIC):
        for chunk in checked_chunks(path, row):
            for header, records in batches_in(chunk, until_ms):
                fold.take(header, records)
    return fold.settle()


def _groups_until(
    directory: str,
    moment: Moment,
    files: Mapping[str, Sequence[FileRow]],
    until_ms: int,
    settle: Settle,
) -> dict[str, tuple[GroupRow, ...]]:
    folds: dict[str, GroupFold] = {}
    for path, row in _files_of(directory, moment, files, GROUPS_TOPIC):
        fold = folds.setdefault(path.rpartition("/")[0], GroupFold())
        for chunk in checked_chunks(path, row):
            for header, records in batches_in(chunk, until_ms):
                if records:
                    fold.take(header, records)
    committed = {}
    for fold in folds.values():
        committed.update(fold.settled(settle))
    return group_rows(committed)


def _files_of(
    directory: str, moment: Moment, files: Mapping[str, Sequence[FileRow]], name: str
) -> Iterable[tuple[str, FileRow]]:
    topic = moment.topics.get(name)
    if topic is None:
        return
    for number in range(len(topic.partitions)):
        place = place_of(topic, number)
        for row in files.get(place, ()):
            yield data_path(directory, place, row.name), row


def is_commit(settle: Settle, transaction: OpenTransaction) -> bool:
    return settle(transaction.producer_id, transaction.producer_epoch)
