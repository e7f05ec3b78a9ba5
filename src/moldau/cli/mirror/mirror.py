"""`moldau mirror`: repeat topics of another cluster; see how far; change over, and back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from moldau.cli.answers import place
from moldau.cli.answers import row as in_camel_case
from moldau.cli.command_clients import client_faults, properties_file
from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Flag, Given
from moldau.cli.mirror.mirror_progress import MirrorProgress
from moldau.cli.output import Output
from moldau.cli.tool import JSON, Tool, run_tool
from moldau.mirroring.mirror import Mirror
from moldau.mirroring.mirror_faults import MirrorFault
from moldau.mirroring.mirror_file import MirrorFile

T = TypeVar("T")
STOPPED = 3
"""The exit code when something is not mirrored as it should be."""
REVERSE = Flag("--reverse", "In the other direction: the file's target is the source.")
ONCE = Flag("--once", "End when all is mirrored that the source had when it began.")
NOW = Flag("--now", "Also while the source has records that are not mirrored, or does not answer.")
EXECUTE = Flag("--execute", "Do it; without it is only said what would go.")
FILE = "FILE"


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


class mirror_faults:
    """A fault of a mirror becomes one of the command."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, value: BaseException | None, at: object) -> None:
        if isinstance(value, MirrorFault):
            raise CommandFault(value.sentence) from None


def file_of(given: Given) -> MirrorFile:
    if not given.words:
        raise CommandFault("Name the mirror's file")
    file = MirrorFile.parse(properties_file(given.words[0]))
    return file.reversed() if given.has("reverse") else file


def with_mirror(file: MirrorFile, out: Output, work: Callable[[Mirror], Awaitable[T]]) -> T:
    async def work_with_it() -> T:
        async with Mirror(file, out.remark) as mirror:
            return await work(mirror)

    with client_faults():
        return asyncio.run(work_with_it())


def go_on(given: Given, out: Output) -> int:
    async def work(mirror: Mirror) -> int:
        progress = MirrorProgress(mirror.mirrors)
        once = given.has("once")

        def is_over() -> bool:
            progress.look()
            return once and is_level(mirror)

        await mirror.run(is_over)
        await mirror.copy_groups_once_more()
        progress.ends()
        stopped = [each for each in mirror.mirrors.partitions() if each.stopped]
        copied = sum(each.records for each in mirror.mirrors.partitions())
        topics = len(list(mirror.mirrors))
        if given.has("json"):
            faults = [{**place(each.place), "reason": each.stopped} for each in stopped]
            faults += [
                {"topic": name, "partition": None, "reason": reason}
                for name, reason in mirror.mirrors.stopped.items()
            ]
            out.json({"records": copied, "topics": topics, "stopped": faults})
        else:
            out.line(f"Mirrored {copied} records of {topics} topics.")
        return STOPPED if stopped or mirror.mirrors.stopped else 0

    with mirror_faults():
        return with_mirror(file_of(given), out, work)


def is_level(mirror: Mirror) -> bool:
    """Everything is there that the source told of."""
    if not mirror.has_judged:
        return False
    return all(each.is_level or each.stopped for each in mirror.mirrors.partitions())


def say_status(given: Given, out: Output) -> int:
    from moldau.mirroring.mirror_status import status

    with mirror_faults():
        rows = with_mirror(file_of(given), out, status)
    if given.has("json"):
        out.json({"topics": [in_camel_case(row._asdict()) for row in rows]})
    else:
        cells = [
            (row.source, row.target, row.partitions, "?" if row.lag < 0 else row.lag, row.state)
            for row in rows
        ]
        out.table(("SOURCE", "TARGET", "PARTITIONS", "LAG", "STATE"), cells)
    return 0 if all(row.state == "mirrored" for row in rows) else STOPPED


def promote(given: Given, out: Output) -> int:
    from moldau.mirroring.promotion import promote_all

    with client_faults(), mirror_faults():
        done = asyncio.run(promote_all(file_of(given), out.remark, is_forced=given.has("now")))
    if given.has("json"):
        rows = [{"topic": name, "aborted": aborted} for name, aborted in done.items()]
        out.json({"promoted": rows})
    else:
        for name, aborted in done.items():
            out.line(f"Promoted {name}: {aborted} open transactions aborted.")
        if not done:
            out.line("There is nothing to promote.")
    return 0


def fail_back(given: Given, out: Output) -> int:
    from moldau.mirroring.failback import Cut, planned

    async def work(mirror: Mirror) -> list[Cut]:
        cuts = await planned(mirror)
        if given.has("execute"):
            for cut in cuts:
                await mirror.target.demote_to_mirror(cut.topic, cut.source.text, cut.offset_ends)
        return cuts

    with mirror_faults():
        # The file says who was the source: it is to repeat the other now.
        cuts = with_mirror(file_of(given).reversed(), out, work)
    verb = "is cut by" if given.has("execute") else "would be cut by"
    if given.has("json"):
        rows = [{"topic": cut.topic, "ends": cut.offset_ends, "lost": cut.lost} for cut in cuts]
        out.json({"executed": given.has("execute"), "topics": rows})
        return 0
    for cut in cuts:
        out.line(f"{cut.topic} {verb} {cut.lost} records, and repeats {cut.source.text}.")
    if not cuts:
        out.line("There is nothing to cut.")
    elif not given.has("execute"):
        out.line("Nothing was done: take a snapshot of that cluster, then add --execute.")
    return 0


EXAMPLES = (
    "moldau mirror run dr.properties",
    "moldau mirror status dr.properties",
    "moldau mirror promote dr.properties",
    "moldau mirror failback dr.properties --execute",
    "moldau mirror run dr.properties --reverse",
)
RUN = Tool(
    name="mirror run",
    does="Repeats topics of another cluster with the same offsets, byte for byte, until it is"
    " stopped. It goes on where the target ends, however it was ended.",
    flags=(ONCE, REVERSE, JSON),
    main=go_on,
    words_max=1,
    words_usage=FILE,
    examples=EXAMPLES[:1],
)
STATUS = Tool(
    name="mirror status",
    does=f"Says how far each topic is. Exits with {STOPPED} if one is not mirrored.",
    flags=(REVERSE, JSON),
    main=say_status,
    words_max=1,
    words_usage=FILE,
    examples=EXAMPLES[1:2],
)
PROMOTE = Tool(
    name="mirror promote",
    does="Makes topics of their own of the mirrors: transactions that are open are aborted, leader"
    " epochs rise, producers may write.",
    flags=(NOW, REVERSE, JSON),
    main=promote,
    words_max=1,
    words_usage=FILE,
    examples=EXAMPLES[2:3],
)
FAILBACK = Tool(
    name="mirror failback",
    does="Makes mirrors of the topics that were the originals, cut to where both clusters agree;"
    " then `mirror run FILE --reverse` fills them.",
    flags=(EXECUTE, REVERSE, JSON),
    main=fail_back,
    words_max=1,
    words_usage=FILE,
    examples=EXAMPLES[3:],
)
TOOL = Tool(
    name="mirror",
    does="Repeats topics of another cluster in Moldau: the same records at the same offsets, with"
    " settings, access rules and the offsets of groups. Changes over to them, and back.",
    flags=(),
    main=lambda given, out: 0,
    examples=EXAMPLES,
    commands=(RUN, STATUS, PROMOTE, FAILBACK),
)
