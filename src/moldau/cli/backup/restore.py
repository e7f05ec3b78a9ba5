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
from moldau.backup.raw_restore import AT_ONCE, restore
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

OFFSETS_FILE = "restore.offsets"
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
    started = time.monotonic()
    async with ClusterSource(settings) as target:
        if given.text("by") == "append" or (
            given.text("by") == "auto" and await target.admin.can_restore()
        ):
            counts, report = await _append(target, planned, given)
        else:
            counts, report = await _produce(target, planned, given, out)
        if given.has("with-access"):
            for sentence in await restore_access(target.admin, planned.moment.access):
                out.remark(f"{sentence}.")
    counts["seconds"] = round(time.monotonic() - started, 3)
    return say({"topics": len(planned.topics), **counts}, report, given, out)


async def _append(
    target: ClusterSource, planned: Plan, given: Given
) -> tuple[dict[str, float], Report]:
    progress, comparing = ByteProgress("Restored"), ByteProgress("Compared")
    at_once = max(1, given.number("parallel"))
    restored = await restore(target, planned, progress, at_once=at_once)
    progress.ends()
    report = await compare(target, restored, comparing, at_once)
    comparing.ends()
    counts: dict[str, float] = {
        "partitions": len(restored.partitions),
        "groups": len(restored.groups),
        "records": sum(each.records for each in restored.partitions),
        "bytes": sum(each.raw_bytes for each in restored.partitions),
        "aborted": sum(each.aborted for each in restored.partitions),
    }
    return counts, report


async def _produce(
    target: ClusterSource, planned: Plan, given: Given, out: Output
) -> tuple[dict[str, float], Report]:
    from moldau.backup.produced_restore import restore_by_produce
    from moldau.backup.restore_report import compare_produced

    progress, comparing = ByteProgress("Restored"), ByteProgress("Compared")
    at_once = max(1, given.number("parallel"))
    produced = await restore_by_produce(target, planned, progress, at_once=at_once)
    progress.ends()
    path = given.maybe_text("offset-file") or os.path.join(planned.directory, OFFSETS_FILE)
    Path(path).write_text(json.dumps(produced.offsets_json()) + "\n")
    out.remark(f"Records have other offsets now: {path} says which.")
    report = await compare_produced(target, produced, comparing, at_once)
    comparing.ends()
    counts: dict[str, float] = {
        "partitions": len(produced.partitions),
        "groups": len(produced.groups),
        "records": sum(each.records.records for each in produced.partitions),
        "bytes": sum(each.raw_bytes for each in produced.partitions),
    }
    return counts, report


def say(counts: dict[str, float], report: Report, given: Given, out: Output) -> int:
    if given.has("report"):
        path = Path(given.text("report"))
        path.write_text(json.dumps({**counts, **report.as_json()}, indent=2) + "\n")
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
            f" in {counts['seconds']:.1f} s. Compared with the backup: {found}."
        )
    return DIFFERENT if report.differences else 0


TOOL = Tool(
    name="restore",
    does="Brings topics and groups back from a backup: onto Moldau with the offsets, transactions"
    " and producers of the original, onto other clusters by producing what was committed. Reads all"
    f" of it back and exits with {DIFFERENT} if anything differs.",
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
        Flag(
            "--by",
            "How records come back: append keeps offsets and transactions, onto Moldau only;"
            " produce writes committed records, anywhere. By default whatever the target can.",
            takes="WAY",
            default="auto",
            one_of=("auto", "append", "produce"),
        ),
        Flag(
            "--offset-file",
            f"Where a restore by produce writes the new offsets; {OFFSETS_FILE} in the backup by"
            " default.",
            takes="FILE",
        ),
        Flag(
            "--batch-size",
            "What another tool takes.",
            takes="BYTES",
            no_effect="batches stay as they were",
        ),
        Flag("--no-groups", "Leave the offsets of groups as they are."),
        Flag("--with-access", "Bring back access rules and quotas too."),
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
