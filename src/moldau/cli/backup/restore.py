"""`moldau restore`: bring topics and groups back from a backup, and prove that it worked."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from moldau.backup.access_rules import restore_access
from moldau.backup.cluster_source import ClusterSource
from moldau.backup.moments import read_chain
from moldau.backup.raw_restore import AT_ONCE, Restored, restore
from moldau.backup.restore_plan import Choice, Plan, plan
from moldau.backup.restore_report import Report, compare
from moldau.cli.backup.backup import (
    DEBUG,
    PARALLEL,
    TOPICS,
    TOPICS_REGEX,
    backup_faults,
    settings_of,
)
from moldau.cli.backup.backup_progress import ByteProgress
from moldau.cli.command_clients import client_faults, json_file, key_values
from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Flag, Given, integer
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool

DIFFERENT = 3
"""The exit code when the target is not what the backup has."""


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def bring_back(given: Given, out: Output) -> int:
    choice = choice_of(given)
    settings = settings_of(given, out)
    with client_faults(), backup_faults():
        chain = read_chain(given.text("source-dir"))
        return asyncio.run(_bring_back(plan(chain, choice), given, out, settings))


def choice_of(given: Given) -> Choice:
    names = tuple(name.strip() for name in (given.maybe_text("topics") or "").split(","))
    offsets = None
    if given.has("as-of"):
        found = json_file(given.text("as-of"))
        if not isinstance(found, dict):
            raise CommandFault(f"{given.text('as-of')} is not topics with partitions and offsets")
        offsets = found
    return Choice(
        tuple(name for name in names if name),
        given.maybe_text("topics-regex") or "",
        key_values(given.texts("rename"), accepts_missing=False),
        key_values(given.texts("topic-config"), accepts_missing=False),
        milliseconds(given.text("until")) if given.has("until") else None,
        offsets,
        given.maybe_number("moment"),
        not given.has("no-groups"),
    )


def milliseconds(text: str) -> int:
    """Of a time as people write it, or of a number of milliseconds."""
    if re.fullmatch(r"\d{10,}", text):
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise CommandFault(
            f"{text} is no time: write 2026-11-19T18:30:00+00:00, or milliseconds since 1970"
        ) from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


async def _bring_back(planned: Plan, given: Given, out: Output, settings: dict[str, str]) -> int:
    progress, started = ByteProgress("Restored"), time.monotonic()
    at_once = max(1, given.number("parallel"))
    async with ClusterSource(settings) as target:
        restored = await restore(target, planned, progress, at_once=at_once)
        progress.ends()
        seconds = time.monotonic() - started
        comparing = ByteProgress("Compared")
        report = await compare(target, restored, comparing, at_once)
        comparing.ends()
        if given.has("with-access"):
            for sentence in await restore_access(target.admin, planned.moment.access):
                out.remark(f"{sentence}.")
    return say(planned, restored, report, seconds, given, out)


def say(
    planned: Plan, restored: Restored, report: Report, seconds: float, given: Given, out: Output
) -> int:
    counts = {
        "topics": len(planned.topics),
        "partitions": len(restored.partitions),
        "groups": len(restored.groups),
        "records": sum(each.records for each in restored.partitions),
        "bytes": sum(each.raw_bytes for each in restored.partitions),
        "aborted": sum(each.aborted for each in restored.partitions),
        "seconds": round(seconds, 3),
    }
    if given.has("report"):
        path = Path(given.text("report"))
        path.write_text(json.dumps({**counts, **report.as_json()}, indent=2) + os.linesep)
    if given.has("json"):
        out.json({**counts, **report.as_json()})
    else:
        for row in report.differences:
            out.line(f"{row.name}: {row.found}, and not {row.expected}.")
        differences = len(report.differences)
        found = f"{differences} differences" if differences else "everything is the same"
        out.line(
            f"Restored {counts['topics']} topics with {counts['partitions']} partitions,"
            f" {counts['records']} records, {counts['bytes']} bytes and {counts['groups']} groups"
            f" in {seconds:.1f} s. Compared with the backup: {found}."
        )
    return DIFFERENT if report.differences else 0


TOOL = Tool(
    name="restore",
    does="Brings topics and groups back from a backup: onto Moldau with the offsets, transactions"
    f" and producers of the original. Reads all of it back and exits with {DIFFERENT} if anything"
    " differs.",
    flags=(
        BOOTSTRAP,
        Flag(
            "--source-dir --target-dir",
            "The directory of the backup.",
            takes="DIR",
            required=True,
        ),
        TOPICS,
        TOPICS_REGEX,
        Flag(
            "--until",
            "Only what was there before that time: 2026-11-19T18:30:00+00:00, or milliseconds.",
            takes="TIME",
        ),
        Flag(
            "--as-of",
            'Only what is before these offsets: a file like {"orders": {"0": 1500}}.',
            takes="FILE",
        ),
        Flag("--moment", "The moment of that number, not the last.", takes="N", kind=integer),
        Flag("--rename", "Restore a topic under another name.", takes="OLD=NEW", repeats=True),
        Flag(
            "--topic-config",
            "A setting that restored topics get instead of their own.",
            takes="KEY=VALUE",
            repeats=True,
        ),
        Flag("--no-groups", "Leave the offsets of groups as they are."),
        Flag("--with-access", "Access rules and quotas too."),
        Flag("--report", "Write the comparison to this file, as JSON.", takes="FILE"),
        PARALLEL._replace(default=AT_ONCE),
        COMMAND_CONFIG,
        DEBUG,
        JSON,
    ),
    main=bring_back,
    examples=(
        "moldau restore --bootstrap-server localhost:9092 --source-dir /backups/prod",
        "moldau restore --bootstrap-server localhost:9092 --source-dir /backups/prod"
        " --topics orders --rename orders=orders-yesterday --until 2026-11-18T18:00:00+00:00",
    ),
)
