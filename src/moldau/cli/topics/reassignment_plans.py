"""Plans of `reassign-partitions`: read, written and made up. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.cli.command_faults import CommandFault
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
