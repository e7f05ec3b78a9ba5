"""`moldau log-dirs`: how much of each directory partitions take, as kafka-log-dirs.sh tells."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.cli.command_clients import java_name, open_admin
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.files.java_hash_order import hash_order
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, actions_of, run_tool
from moldau.model.names import TopicPartition


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    if not given.has("describe"):
        raise UsageFault('Missing required argument "[describe]"')
    topics = {name for name in given.text("topic-list").split(",") if name}
    with open_admin(given, out) as admin:
        known = sorted(node.id for node in admin.describe_cluster().nodes)
        wanted = brokers_of(given.text("broker-list"), known)
        if not given.has("json"):
            out.line("Querying brokers for log directories information")
        found = admin.describe_log_dirs(wanted).check()
    if not given.has("json"):
        brokers = ",".join(str(each) for each in wanted)
        out.line(f"Received log directory information from brokers {brokers}")
    answer = {
        "brokers": [
            {"broker": broker, "logDirs": [directory(d, topics) for d in found[broker].values()]}
            for broker in wanted
        ],
        "version": 1,
    }
    if given.has("json"):
        out.json(answer)
    else:
        out.line(json.dumps(answer, separators=(",", ":")))


def brokers_of(text: str, known: list[int]) -> list[int]:
    try:
        wanted = [int(each) for each in text.split(",") if each.strip()]
    except ValueError:
        raise CommandFault(f"--broker-list takes broker ids, as 0,1,2, not {text}") from None
    missing = [each for each in wanted if each not in known]
    if missing:
        raise CommandFault(
            f"ERROR: The given brokers do not exist from --broker-list: {commas(missing)}."
            f" Current existent brokers: {commas(known)}"
        )
    return wanted or known


def commas(numbers: list[int]) -> str:
    return ",".join(str(number) for number in numbers)


def directory(described: Any, topics: set[str]) -> dict[str, Any]:
    return {
        "partitions": [
            {
                "partition": str(partition),
                "size": replica.size_bytes,
                "offsetLag": replica.offset_lag,
                "isFuture": replica.is_future,
            }
            for partition, replica in chosen(described.replicas, topics).items()
        ],
        "error": None if described.error is None else java_name(described.error),
        "logDir": described.path,
    }


def chosen(replicas: Mapping[TopicPartition, Any], topics: set[str]) -> dict[TopicPartition, Any]:
    """Kafka's tool puts all in a map and what it shows in another."""
    ordered = hash_order(replicas)
    shown = hash_order(each for each in ordered if not topics or each.topic in topics)
    return {partition: replicas[partition] for partition in shown}


TOOL = Tool(
    name="log-dirs",
    does="Shows the log directories of brokers and the size of each partition in them, as JSON.",
    flags=(
        BOOTSTRAP,
        Flag("--describe", "What this command does; Kafka wants it said."),
        Flag("--broker-list", "Only these brokers, as 0,1,2.", takes="LIST", default=""),
        Flag("--topic-list", "Only these topics, separated by commas.", takes="LIST", default=""),
        COMMAND_CONFIG,
        JSON,
    ),
    main=main,
    actions=actions_of(("describe",)),
    examples=("moldau log-dirs --bootstrap-server localhost:9092 --describe --topic-list orders",),
)
