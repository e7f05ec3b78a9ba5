"""`moldau backup`: keep the records, groups and settings of a cluster in a directory; prove it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from moldau.backup.backing_up import AT_ONCE, SEGMENT_BYTES, Backup, Round, Selection
from moldau.backup.backup_faults import BackupFault
from moldau.backup.cluster_source import ClusterSource
from moldau.backup.moments import Moment, read_chain, total
from moldau.backup.spark_copying import on_spark
from moldau.cli.answers import row
from moldau.cli.answers import rows as as_data
from moldau.cli.backup.backup_progress import ByteProgress
from moldau.cli.command_clients import bootstrap_of, client_faults, properties_file, reach
from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Flag, Given, integer, long
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool

DAMAGED = 3
"""The exit code when a backup is not what was written."""
INTERVAL_S = 60
TARGET_DIR = Flag("--target-dir", "The directory of the backup.", takes="DIR", required=True)
TOPICS = Flag("--topics", "Only these topics, separated by commas.", takes="LIST")
TOPICS_REGEX = Flag("--topics-regex", "Only topics of which the whole name matches.", takes="REGEX")
SNAPSHOT = Flag("--snapshot", "End when all is there that was there when it began.")
SEGMENT = Flag(
    "--max-segment-size",
    "How large a file may get, in bytes.",
    takes="BYTES",
    kind=long,
    default=SEGMENT_BYTES,
)
INTERVAL = Flag(
    "--interval",
    "Without --snapshot: the seconds between two moments.",
    takes="SECONDS",
    kind=integer,
    default=INTERVAL_S,
)
PARALLEL = Flag(
    "--parallel",
    "How many partitions are copied at the same time.",
    takes="COUNT",
    kind=integer,
    default=AT_ONCE,
)
MASTER = Flag(
    "--master",
    "Copy on a Spark cluster: its master, as spark-submit takes it. All executors must reach the"
    " directory.",
    takes="URL",
)
DEBUG = Flag("--debug", "What another tool takes.", no_effect="everything is said already")


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def back_up(given: Given, out: Output) -> None:
    settings = settings_of(given, out)
    with client_faults(), backup_faults():
        asyncio.run(_back_up(given, out, settings))


def settings_of(given: Given, out: Output) -> dict[str, str]:
    bootstrap = bootstrap_of(given, out)
    settings = properties_file(given.text("command-config")) if given.has("command-config") else {}
    settings["bootstrap.servers"] = bootstrap
    with client_faults():
        reach(bootstrap, settings, out)
    return settings


async def _back_up(given: Given, out: Output, settings: dict[str, str]) -> None:
    progress = ByteProgress("Copied")
    selection = selection_of(given)
    async with ClusterSource(settings) as source:
        backup = Backup(
            source,
            given.text("target-dir"),
            selection,
            segment_bytes=given.number("max-segment-size"),
            at_once=max(1, given.number("parallel")),
            progress=progress,
            spread=on_spark(given.text("master"), settings) if given.has("master") else None,
        )
        while True:
            done = await backup.round()
            progress.ends()
            say(done, given, out)
            if given.has("snapshot"):
                return
            await asyncio.sleep(max(1, given.number("interval")))


def selection_of(given: Given) -> Selection:
    names = tuple(name.strip() for name in (given.maybe_text("topics") or "").split(","))
    return Selection(tuple(name for name in names if name), given.maybe_text("topics-regex") or "")


def say(done: Round, given: Given, out: Output) -> None:
    moment = done.moment
    if not moment.is_exact:
        out.remark(
            f"Transactions were decided all the time: of those around {at(moment.moment_ms)} some"
            " may be in the backup in part. The next moment may do better."
        )
    if given.has("json"):
        out.json(
            {
                "moment": moment.number,
                "time": at(moment.moment_ms),
                "exact": moment.is_exact,
                "topics": own_topics(moment),
                "groups": len(moment.groups),
                "newRecords": done.new_records,
                "newBytes": done.new_bytes,
                "seconds": round(done.seconds, 3),
            }
        )
    else:
        out.line(
            f"Moment {moment.number}, {at(moment.moment_ms)}: {done.new_records} new records,"
            f" {done.new_bytes} bytes in {done.seconds:.1f} s;"
            f" {own_topics(moment)} topics, {len(moment.groups)} groups."
        )
    out.flush()


def own_topics(moment: Moment) -> int:
    """Those of its users; two of the coordinators are there too."""
    return sum(not name.startswith("__") for name in moment.topics)


def at(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="milliseconds")


class backup_faults:
    """A fault of a backup becomes one of the command."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, value: BaseException | None, at: object) -> None:
        if isinstance(value, BackupFault):
            raise CommandFault(value.sentence) from None


def verify(given: Given, out: Output) -> int:
    from moldau.backup.verification import verify as verify_all

    directory = given.words[0] if given.words else ""
    if not directory:
        raise CommandFault("Name the directory: moldau backup verify DIR")
    started = time.monotonic()
    progress = ByteProgress("Read")
    found = verify_all(directory, progress)
    progress.ends()
    if given.has("json"):
        out.json({**row(found._asdict()), "directory": directory})
    else:
        for sentence in found.faults:
            out.line(f"{sentence}.")
        result = f"{len(found.faults)} faults" if found.faults else "nothing is missing or damaged"
        out.line(
            f"Read {found.moments} moments, {found.files} files, {found.records} records,"
            f" {found.raw_bytes} bytes in {time.monotonic() - started:.1f} s: {result}."
        )
    return DAMAGED if found.faults else 0


def list_moments(given: Given, out: Output) -> None:
    directory = given.words[0] if given.words else ""
    with backup_faults():
        chain = read_chain(directory)
    if not chain.moments:
        raise CommandFault(f"there is no backup in {directory or 'the directory: name it'}")
    rows = []
    for moment in chain.moments:
        counts = total(row for files in moment.files.values() for row in files)
        rows.append(
            (
                moment.number,
                at(moment.moment_ms),
                "yes" if moment.is_exact else "no",
                own_topics(moment),
                len(moment.groups),
                counts.records,
                counts.raw_bytes,
            )
        )
    titles = ("MOMENT", "TIME", "EXACT", "TOPICS", "GROUPS", "NEW RECORDS", "NEW BYTES")
    if out.is_json:
        out.json(as_data(titles, ((*r[:2], r[2] == "yes", *r[3:]) for r in rows)))
    else:
        out.table(titles, rows)


def to_parquet(given: Given, out: Output) -> None:
    from moldau.backup.parquet_export import export
    from moldau.backup.restore_plan import Choice, plan

    directory = given.words[0] if given.words else ""
    selection = selection_of(given)
    progress = ByteProgress("Exported")
    with backup_faults():
        choice = Choice(selection.names, selection.pattern, with_groups=False)
        chosen = plan(read_chain(directory), choice)
        count = export(chosen, given.text("to"), progress)
    progress.ends()
    moment = at(chosen.moment.moment_ms)
    if out.is_json:
        out.json({"records": count, "moment": moment, "directory": given.text("to")})
    out.line(f"Wrote {count} committed records of {moment} to {given.text('to')}.")


EXAMPLES = (
    "moldau backup --bootstrap-server localhost:9092 --target-dir /backups/prod --snapshot",
    "moldau backup --bootstrap-server localhost:9092 --target-dir /backups/prod --topics orders",
    "moldau backup verify /backups/prod",
)

VERIFY = Tool(
    name="backup verify",
    does="Reads every byte of a backup and names what is missing or damaged. Exits with"
    f" {DAMAGED} if anything is.",
    flags=(JSON,),
    main=verify,
    words_max=1,
    words_usage="DIR",
    examples=("moldau backup verify /backups/prod",),
)
LIST = Tool(
    name="backup list",
    does="Lists the moments of a backup: to each of them it can be brought back.",
    flags=(JSON,),
    main=list_moments,
    words_max=1,
    words_usage="DIR",
    examples=("moldau backup list /backups/prod",),
)
PARQUET = Tool(
    name="backup parquet",
    does="Writes the committed records of the last moment as Parquet files, for queries: a folder"
    " for each topic, a file for each partition.",
    flags=(
        Flag("--to", "The directory for the files.", takes="DIR", required=True),
        TOPICS,
        TOPICS_REGEX,
    ),
    main=to_parquet,
    words_max=1,
    words_usage="DIR",
    examples=("moldau backup parquet /backups/prod --to /tmp/orders",),
)

TOOL = Tool(
    name="backup",
    does="Copies records as they are, with groups, settings and access rules, of a moment at which"
    " every transaction is whole or absent. Run again, it adds what is new; without --snapshot it"
    " goes on until it is stopped.",
    flags=(
        BOOTSTRAP,
        TARGET_DIR,
        TOPICS,
        TOPICS_REGEX,
        SNAPSHOT,
        SEGMENT,
        INTERVAL,
        PARALLEL,
        MASTER,
        COMMAND_CONFIG,
        DEBUG,
        JSON,
    ),
    main=back_up,
    beside=(VERIFY, LIST, PARQUET),
    examples=EXAMPLES,
)
