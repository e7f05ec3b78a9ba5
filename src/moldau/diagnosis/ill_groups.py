"""Diagnosis of who reads and writes: groups and their offsets, transactions, empty topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from shlex import quote

from moldau.diagnosis.evidence import (
    Evidence,
    Finding,
    GroupSight,
    Limits,
    Severity,
    duration,
    few,
    plural,
)
from moldau.model.names import TopicPartition

MINUTE_MS = 60_000


def diagnose_groups(seen: Evidence, limits: Limits) -> Iterator[Finding]:
    for group in seen.groups:
        if group.is_stuck:
            yield Finding(
                Severity.WARNING,
                "group-rebalancing",
                f"group {group.name} does not get out of its rebalance ({group.state})",
                f"The coordinator waits for one of {plural(group.members_count, 'member')} that"
                " does not join again: it is busy between two polls (max.poll.interval.ms), or"
                " hangs. Until then nobody in the group reads.",
                "Find the member that does not poll; let it take fewer records at once"
                " (max.poll.records) or give it more time.",
                seen.command(f"consumer-groups --describe --group {quote(group.name)} --members"),
            )
        yield from diagnose_offsets(seen, group)
        yield from diagnose_lag(seen, group, limits)
        idle = sum(1 for count in group.partitions_assigned if not count)
        if idle and group.state == "Stable":
            yield Finding(
                Severity.NOTE,
                "group-idle-members",
                f"group {group.name}: {plural(idle, 'member')} of {group.members_count} without a"
                " partition",
                "A partition is read by one member only, and there are more members.",
                "Stop them, or add partitions to the topics.",
                seen.command(f"consumer-groups --describe --group {quote(group.name)} --members"),
            )


def diagnose_lag(seen: Evidence, group: GroupSight, limits: Limits) -> Iterator[Finding]:
    lags = {
        partition: log.offset_end - max(offset, log.offset_start)
        for partition, offset in group.committed.items()
        if (log := seen.logs.get(partition)) is not None and offset <= log.offset_end
    }
    total = sum(lags.values())
    most = sorted(lags, key=lambda partition: -lags[partition])[:3]
    where = few(f"{partition} {lags[partition]}" for partition in most if lags[partition])
    describe = seen.command(f"consumer-groups --describe --group {quote(group.name)}")
    if not group.members_count and total > 0:
        yield Finding(
            Severity.WARNING,
            "group-without-members",
            f"group {group.name} has no members and {plural(total, 'record')} to read ({where})",
            "Its consumers are stopped, crashed or were expelled, so nobody reads for it.",
            "Start its consumers; if the group is no longer used, delete it.",
            describe,
        )
    elif total > limits.lag:
        yield Finding(
            Severity.WARNING,
            "group-lagging",
            f"group {group.name} is {plural(total, 'record')} behind ({where})",
            f"Its {plural(group.members_count, 'member')} read more slowly than producers write, or"
            " do not commit what they have read.",
            "Add members, up to one per partition, or make their work between two polls shorter.",
            describe,
        )


def diagnose_offsets(seen: Evidence, group: GroupSight) -> Iterator[Finding]:
    """Offsets that point to nothing: too old, too new, or at a topic that is gone."""
    known = {topic.name for topic in seen.topics}
    gone = sorted({each.topic for each in group.committed if each.topic not in known})
    if gone:
        yield Finding(
            Severity.NOTE,
            "group-topic-gone",
            f"group {group.name} has offsets for {few(gone)}, which does not exist",
            "The topic was deleted, or has another name now.",
            "Delete the offsets.",
            seen.command(
                f"consumer-groups --delete-offsets --group {quote(group.name)}"
                f" --topic {quote(gone[0])}"
            ),
        )
    expired: dict[str, list[TopicPartition]] = defaultdict(list)
    beyond: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition, offset in group.committed.items():
        log = seen.logs.get(partition)
        if log is not None and offset < log.offset_start:
            expired[partition.topic].append(partition)
        elif log is not None and offset > log.offset_end:
            beyond[partition.topic].append(partition)
    for topic, partitions in expired.items():
        lost = sum(seen.logs[each].offset_start - group.committed[each] for each in partitions)
        yield Finding(
            Severity.WARNING,
            "group-offset-expired",
            f"group {group.name} stands before the first record of {few(partitions)}:"
            f" {plural(lost, 'record')} deleted before it read them",
            "retention.ms, retention.bytes or delete-records removed them while the group was"
            " behind. Its next fetch is out of range, and auto.offset.reset decides.",
            "Start the group at the first record that is left, and lengthen the retention.",
            reset(seen, group, topic, "--to-earliest"),
        )
    for topic, partitions in beyond.items():
        yield Finding(
            Severity.ERROR,
            "group-offset-beyond-end",
            f"group {group.name} stands after the last record of {few(partitions)}",
            "The topic was deleted and made again, or a replica that was behind became leader"
            " (unclean election). The group's fetches are out of range.",
            "Reset the group's offsets.",
            reset(seen, group, topic, "--to-latest"),
        )


def reset(seen: Evidence, group: GroupSight, topic: str, where: str) -> str:
    return seen.command(
        f"consumer-groups --reset-offsets --group {quote(group.name)} --topic {topic} {where}"
        " --execute"
    )


def diagnose_transactions(seen: Evidence, limits: Limits) -> Iterator[Finding]:
    for each in seen.transactions:
        where = f"{each.partition} from offset {each.offset_start}"
        if each.transactional_id:
            if each.open_ms <= min(limits.transaction_ms, max(each.timeout_ms, 1)):
                continue
            yield Finding(
                Severity.WARNING,
                "transaction-open",
                f"transaction of {each.transactional_id} open for {duration(each.open_ms)} in"
                f" {where}",
                "The producer neither commits nor aborts: it works, hangs or is dead. Until then"
                " readers with read_committed see nothing after that offset.",
                f"Wait for its time-out ({duration(each.timeout_ms)}), or end it by force; the"
                " producer is fenced then.",
                seen.command(
                    f"transactions forceTerminateTransaction --transactionalId"
                    f" {quote(each.transactional_id)}"
                ),
            )
        elif each.open_ms > limits.transaction_ms:
            yield Finding(
                Severity.ERROR,
                "transaction-hanging",
                f"hanging transaction of producer {each.producer_id} in {where}, for"
                f" {duration(each.open_ms)}",
                "No coordinator has it open, so nobody will ever end it (a write that came after"
                " the marker). Readers with read_committed see nothing after that offset, and"
                " compaction stops there.",
                "Abort it in this partition.",
                seen.command(
                    f"transactions abort --topic {each.partition.topic} --partition"
                    f" {each.partition.partition} --start-offset {each.offset_start}"
                ),
            )


def diagnose_empty_topics(seen: Evidence) -> Iterator[Finding]:
    for topic in seen.topics:
        logs = [
            log
            for each in topic.partitions
            if (log := seen.logs.get(TopicPartition(topic.name, each.partition))) is not None
        ]
        if topic.is_internal or not logs or any(log.offset_end > log.offset_start for log in logs):
            continue
        had_some = any(log.offset_end for log in logs)
        yield Finding(
            Severity.NOTE,
            "topic-expired" if had_some else "topic-empty",
            f"{topic.name} has no records" + (" left" if had_some else ""),
            "All were deleted by retention or delete-records."
            if had_some
            else "Nothing was ever written to it: no producer, or one that uses another name.",
            "Lengthen retention.ms if readers still need them."
            if had_some
            else "Send a record to try it.",
            seen.command(
                f"configs --describe --topic {topic.name} --all"
                if had_some
                else f"console-producer --topic {topic.name}"
            ),
        )
