"""`moldau get-offsets`: the offsets of partitions by position or time, as kafka-get-offsets.sh."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from moldau.cli.answers import placed
from moldau.cli.command_clients import open_admin
from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool
from moldau.model.names import TopicPartition

if TYPE_CHECKING:
    from moldau.client.admin.blocking_admin import Admin

TIMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
TOPIC_PARTITIONS = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")

Wanted = Callable[[str, int], bool]


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> int:
    time = time_of(given.text("time"))
    if given.has("topic-partitions") and (given.has("topic") or given.has("partitions")):
        raise CommandFault("--topic-partitions cannot be used with --topic or --partitions")
    wanted = filter_of(given)
    with open_admin(given, out) as admin:
        partitions = matching(admin, given, wanted)
        if not partitions:
            raise CommandFault("Could not match any topic-partitions with the specified filters")
        offsets = admin.list_offsets(dict.fromkeys(partitions, time), raise_errors=False).outcomes
    found = []
    for partition, result in offsets.items():
        if isinstance(result, Exception):
            out.remark(
                f"Skip getting offsets for topic-partition {partition} due to error: {result}"
            )
        elif result.offset >= 0:
            found.append((partition, result.offset))
    failed = {tp: each for tp, each in offsets.items() if isinstance(each, Exception)}
    if out.is_json:
        out.json(placed({**dict(found), **failed}, "offset"))
    for partition, offset in found:
        out.line(f"{partition.topic}:{partition.partition}:{offset}")
    return 1 if failed else 0


def time_of(text: str) -> int:
    if text in TIMES:
        return TIMES[text]
    try:
        return int(text)
    except ValueError:
        names = " / ".join(f"{number} or {name}" for name, number in TIMES.items())
        raise CommandFault(
            f"Malformed time argument {text}. Please use {names}, or a specified long format"
            " timestamp"
        ) from None


def matching(admin: Admin, given: Given, wanted: Wanted) -> list[TopicPartition]:
    topics = admin.list_topics(include_internal=not given.has("exclude-internal-topics"))
    names = [name for name in topics if wanted(name, -1)]
    described = admin.describe_topics(names).check() if names else {}
    return sorted(
        TopicPartition(name, row.partition)
        for name, topic in described.items()
        for row in topic.partitions
        if wanted(name, row.partition)
    )


def filter_of(given: Given) -> Wanted:
    """Partition -1 asks whether any partition of the topic might be wanted."""
    if given.has("topic-partitions"):
        rules = [rule_of(part) for part in given.text("topic-partitions").split(",")]
        return lambda topic, partition: any(rule(topic, partition) for rule in rules)
    pattern = pattern_of(given.maybe_text("topic") or ".*")
    numbers = given.maybe_text("partitions")
    chosen = None if not numbers else {number_of(each) for each in numbers.split(",")}
    return lambda topic, partition: (
        bool(pattern.fullmatch(topic)) and (chosen is None or partition in chosen or partition < 0)
    )


def rule_of(text: str) -> Wanted:
    """topic1:1, topic2:0-3, topic4:5-, topic5:-3"""
    match = TOPIC_PARTITIONS.fullmatch(text.strip())
    if match is None:
        raise CommandFault(f"Invalid rule: {text}")
    pattern = pattern_of(match[1] or ".*")
    if match[2]:
        low, high = int(match[2]), int(match[2]) + 1
    else:
        low = int(match[3]) if match[3] else 0
        high = int(match[4]) if match[4] else 2**31
    return lambda topic, partition: (
        bool(pattern.fullmatch(topic)) and (partition < 0 or low <= partition < high)
    )


def pattern_of(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text.strip())
    except re.error as fault:
        raise CommandFault(f"{text} is an invalid regex: {fault}") from None


def number_of(text: str) -> int:
    if not text.strip().isdigit():
        raise CommandFault(f"--partitions expects a list of numeric partition ids, not {text!r}")
    return int(text)


TOOL = Tool(
    name="get-offsets",
    does="Shows offsets of partitions: the end, the start, or the first record of a time.",
    flags=(
        BOOTSTRAP._replace(names="--bootstrap-server --broker-list"),
        Flag("--topic", "A topic or a pattern; without it all.", takes="NAME"),
        Flag("--partitions", "Only these, as 0,1,2.", takes="LIST"),
        Flag(
            "--topic-partitions",
            "Topics and ranges of partitions, as a:1,b:0-3,c:5-.",
            takes="LIST",
        ),
        Flag(
            "--time",
            "latest, earliest, max-timestamp, or milliseconds since 1970: then the first record"
            " that is not older.",
            takes="TIME",
            default="latest",
        ),
        Flag("--exclude-internal-topics", "Leave out internal topics."),
        COMMAND_CONFIG,
        JSON,
    ),
    main=main,
    examples=(
        "moldau get-offsets --bootstrap-server localhost:9092 --topic orders",
        "moldau get-offsets --bootstrap-server localhost:9092 --topic orders --time earliest",
        "moldau get-offsets --bootstrap-server localhost:9092 --topic-partitions orders:0-3",
    ),
    fault_opening="Error occurred: ",
)
