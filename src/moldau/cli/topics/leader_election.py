"""`moldau leader-election`: let replicas lead again, as kafka-leader-election.sh does.

`preferred-replica-election` is its forerunner, with other flags and the same work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.cli.answers import place, placed
from moldau.cli.command_clients import ZOOKEEPER, java_name, json_file, open_admin
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, integer
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool
from moldau.model.names import TopicPartition


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def run_preferred(arguments: Sequence[str]) -> int:
    return run_tool(PREFERRED_TOOL, arguments)


def main(given: Given, out: Output) -> int:
    if not given.has("election-type"):
        raise UsageFault("Missing required option(s): election-type")
    chosen = [k for k in ("topic", "all-topic-partitions", "path-to-json-file") if given.has(k)]
    if len(chosen) != 1:
        raise UsageFault(
            "One and only one of the following options is required: topic, all-topic-partitions,"
            " path-to-json-file"
        )
    if given.has("topic") != given.has("partition"):
        raise UsageFault("Missing required option(s): --topic and --partition go together")
    partitions = None
    if given.has("topic"):
        partitions = [TopicPartition(given.text("topic"), given.number("partition"))]
    elif given.has("path-to-json-file"):
        partitions = partitions_of(json_file(given.text("path-to-json-file")))
    return elect(given, out, given.text("election-type").upper(), partitions)


def preferred(given: Given, out: Output) -> int:
    partitions = None
    if given.has("path-to-json-file"):
        partitions = partitions_of(json_file(given.text("path-to-json-file")))
    return elect(given, out, "PREFERRED", partitions)


def partitions_of(content: object) -> list[TopicPartition]:
    if not isinstance(content, dict) or not isinstance(content.get("partitions"), list):
        raise CommandFault('Replica election data is missing "partitions" field')
    rows: list[Any] = content["partitions"]
    try:
        found = [TopicPartition(str(row["topic"]), int(row["partition"])) for row in rows]
    except (KeyError, TypeError, ValueError):
        raise CommandFault('every one of "partitions" must have a topic and a partition') from None
    twice = sorted({str(each) for each in found if found.count(each) > 1})
    if twice:
        raise CommandFault(
            f"Replica election data contains duplicate partitions: {','.join(twice)}"
        )
    return found


def elect(given: Given, out: Output, kind: str, partitions: list[TopicPartition] | None) -> int:
    from moldau.client.admin.admin_results import ElectionType
    from moldau.client.shared.client_errors import UnsupportedVersionError
    from moldau.model.errors import Error

    key = "admin.config" if given.has("admin.config") else "command-config"
    with open_admin(given, out, config_key=key) as admin:
        try:
            results = admin.elect_leaders(
                ElectionType[kind], partitions, raise_errors=False
            ).outcomes
        except UnsupportedVersionError:
            raise CommandFault(
                "the brokers do not serve elections; a lone broker leads all its partitions already"
            ) from None
    elected = [tp for tp, result in results.items() if result is None]
    needless, failed = [], {}
    for tp, result in results.items():
        if isinstance(result, Exception):
            if result.code is Error.ELECTION_NOT_NEEDED:
                needless.append(tp)
            else:
                failed[tp] = result
    if given.has("json"):
        out.json(
            {
                "elected": [place(tp) for tp in elected],
                "notNeeded": [place(tp) for tp in needless],
                "failed": placed(failed, "error"),
            }
        )
        return 1 if failed else 0
    if elected:
        out.line(f"Successfully completed leader election ({kind}) for partitions {names(elected)}")
    if needless:
        out.line(f"Valid replica already elected for partitions {names(needless)}")
    for tp, error in failed.items():
        out.line(
            f"Error completing leader election ({kind}) for partition: {tp}:"
            f" {java_name(error)}: {error}"
        )
    if failed:
        raise CommandFault(f"{len(failed)} replica(s) could not be elected")
    return 0


def names(partitions: list[TopicPartition]) -> str:
    return ", ".join(str(each) for each in partitions)


JSON_FILE = Flag(
    "--path-to-json-file",
    'The partitions: {"partitions": [{"topic": "orders", "partition": 0}]}',
    takes="FILE",
)
ADMIN_CONFIG = Flag("--admin.config", takes="FILE", hidden=True)

TOOL = Tool(
    name="leader-election",
    does="Elects leaders of partitions: the preferred replica, or any that lives.",
    flags=(
        BOOTSTRAP,
        Flag(
            "--election-type",
            "Who may lead: the preferred replica, or with unclean any that lives, which may"
            " lose records.",
            takes="TYPE",
            one_of=("preferred", "unclean"),
        ),
        Flag("--all-topic-partitions", "All partitions that need it."),
        Flag("--topic", "The topic of one partition.", takes="NAME"),
        Flag("--partition", "The number of that partition.", takes="N", kind=integer),
        JSON_FILE,
        ADMIN_CONFIG,
        COMMAND_CONFIG,
        JSON,
    ),
    main=main,
    examples=(
        "moldau leader-election --bootstrap-server localhost:9092 --election-type preferred"
        " --all-topic-partitions",
    ),
)
PREFERRED_TOOL = Tool(
    name="preferred-replica-election",
    does="Lets the preferred replicas lead again; now part of leader-election.",
    flags=(BOOTSTRAP, JSON_FILE, ZOOKEEPER, ADMIN_CONFIG, COMMAND_CONFIG, JSON),
    main=preferred,
    examples=("moldau preferred-replica-election --bootstrap-server localhost:9092",),
)
