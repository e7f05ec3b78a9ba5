"""Plans of `reassign-partitions`: read, written and made up. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moldau.cli.faults import CommandFault
from moldau.model.names import TopicPartition

Plan = dict[TopicPartition, list[int]]


def topics_of(content: object) -> list[str]:
    if not isinstance(content, dict) or not isinstance(content.get("topics"), list):
        raise CommandFault('the file must hold {"topics": [{"topic": "..."}], "version": 1}')
    try:
        names = [str(row["topic"]) for row in content["topics"]]
    except (KeyError, TypeError):
        raise CommandFault('every one of "topics" must have a "topic"') from None
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CommandFault(
            f"List of topics to reassign contains duplicate entries: {','.join(twice)}"
        )
    return names


def plan_of(content: object) -> Plan:
    if not isinstance(content, dict) or not isinstance(content.get("partitions"), list):
        raise CommandFault('the file must hold {"version": 1, "partitions": [...]}')
    if content.get("version", 1) != 1:
        raise CommandFault(f"Not supported version field value {content.get('version')}")
    plan: Plan = {}
    for row in content["partitions"]:
        try:
            tp = TopicPartition(str(row["topic"]), int(row["partition"]))
            replicas = [int(each) for each in row["replicas"]]
        except (KeyError, TypeError, ValueError):
            raise CommandFault(f"{row} must have topic, partition and replicas") from None
        if tp in plan:
            raise CommandFault(f"Partition reassignment contains duplicate topic partitions: {tp}")
        if len(set(replicas)) < len(replicas):
            raise CommandFault(
                f"Partition replica lists may not contain duplicate entries: {tp} {replicas}"
            )
        plan[tp] = replicas
    if not plan:
        raise CommandFault("Partition reassignment list cannot be empty")
    return plan


def assignment_json(
    plan: Mapping[TopicPartition, Sequence[int]],
    directories: Mapping[tuple[TopicPartition, int], str],
) -> dict[str, Any]:
    return {
        "version": 1,
        "partitions": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "replicas": list(replicas),
                "log_dirs": [directories.get((tp, broker), "any") for broker in replicas],
            }
            for tp, replicas in sorted(plan.items())
        ],
    }


def assign(
    partitions: int, factor: int, brokers: Sequence[int], random_below: Callable[[int], int]
) -> list[list[int]]:
    """Round robin from a random broker; the followers' distance grows with every round, so that
    the partitions of one broker do not all have their copies on the same other."""
    count = len(brokers)
    start, shift = random_below(count), random_below(count)
    rows = []
    for partition in range(partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        row = [brokers[first]]
        for number in range(factor - 1):
            distance = 1 + (shift + number) % (count - 1)
            row.append(brokers[(first + distance) % count])
        rows.append(row)
    return rows


def throttled_topics(wanted: Plan, current: Plan) -> dict[str, tuple[str, str]]:
    """Per topic the replicas that send and those that receive, as `partition:broker` lists."""
    leading: dict[str, set[str]] = {}
    following: dict[str, set[str]] = {}
    for tp, replicas in wanted.items():
        now = current[tp]
        leading.setdefault(tp.topic, set()).update(f"{tp.partition}:{b}" for b in now)
        new = [b for b in replicas if b not in now]
        following.setdefault(tp.topic, set()).update(f"{tp.partition}:{b}" for b in new)
    return {
        topic: (",".join(sorted(leading[topic])), ",".join(sorted(following[topic])))
        for topic in leading
    }
