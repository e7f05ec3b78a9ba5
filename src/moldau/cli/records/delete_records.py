"""`moldau delete-records`: cut the beginning off partitions, as kafka-delete-records.sh does."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.cli.answers import placed
from moldau.cli.command_clients import json_file, open_admin
from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool
from moldau.model.names import TopicPartition


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> int:
    wanted = offsets_of(json_file(given.text("offset-json-file")))
    with open_admin(given, out) as admin:
        out.line("Executing records delete operation")
        results = admin.delete_records(wanted, raise_errors=False).outcomes
    if out.is_json:
        out.json(placed(results, "lowWatermark"))
    out.line("Records delete operation completed:")
    for partition, result in results.items():
        if isinstance(result, Exception):
            out.line(f"partition: {partition}\terror: {result}")
        else:
            out.line(f"partition: {partition}\tlow_watermark: {result}")
    return 1 if any(isinstance(each, Exception) for each in results.values()) else 0


def offsets_of(content: object) -> dict[TopicPartition, int]:
    if not isinstance(content, dict) or not isinstance(content.get("partitions"), list):
        raise CommandFault("Missing partitions field")
    if content.get("version", 1) != 1:
        raise CommandFault(f"Not supported version field value {content.get('version')}")
    wanted: dict[TopicPartition, int] = {}
    for row in content["partitions"]:
        try:
            partition = TopicPartition(str(row["topic"]), int(row["partition"]))
            offset = int(row["offset"])
        except (KeyError, TypeError, ValueError):
            raise CommandFault(f"{row} must have topic, partition and offset") from None
        if partition in wanted:
            raise CommandFault(
                "Offset json file contains duplicate topic partitions: " + str(partition)
            )
        wanted[partition] = offset
    return wanted


TOOL = Tool(
    name="delete-records",
    does="Deletes the records before an offset, partition by partition. -1 deletes all.",
    flags=(
        BOOTSTRAP,
        Flag(
            "--offset-json-file",
            'The offsets: {"partitions": [{"topic": "orders", "partition": 0, "offset": 1000}],'
            ' "version": 1}',
            takes="FILE",
            required=True,
        ),
        COMMAND_CONFIG,
        JSON,
    ),
    main=main,
    examples=(
        "moldau delete-records --bootstrap-server localhost:9092 --offset-json-file offsets.json",
    ),
)
