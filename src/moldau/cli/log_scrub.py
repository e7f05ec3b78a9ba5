"""`moldau log-scrub`: read closed segments again and name what the disk has damaged.

It changes nothing, so it may run beside the broker; the segment being written is left out then.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from moldau.cli.faults import CommandFault
from moldau.cli.flags import Flag, Given, integer
from moldau.cli.output import Output
from moldau.cli.tool import JSON, Tool, run_tool
from moldau.storage.faults import StorageFault
from moldau.storage.scrubbing import Damage, partitions_in, scrub_partition

DAMAGED = 3
"""The exit code when something is damaged."""
PROGRESS_S = 5.0


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> int:
    directories = [path for text in given.texts("log-dir") for path in text.split(",") if path]
    pace = Pace(given.maybe_number("bytes-per-second"), out)
    damages: list[Damage] = []
    files = size = 0
    try:
        for directory in directories:
            for partition, path in partitions_in(directory):
                if given.has("topic") and partition.topic not in given.texts("topic"):
                    continue
                closed_only = given.has("closed-only")
                for scrubbed in scrub_partition(
                    partition, path, with_last=not closed_only, has_read=pace.has_read
                ):
                    files, size = files + 1, size + scrubbed.size_bytes
                    damages += scrubbed.damages
                    for damage in scrubbed.damages:
                        if not given.has("json"):
                            out.line(sentence(damage))
    except (StorageFault, OSError) as fault:
        raise CommandFault(str(fault)) from fault
    if given.has("json"):
        rows = [{**damage._asdict(), "partition": str(damage.partition)} for damage in damages]
        out.json({"files": files, "bytes": size, "damaged": rows})
    else:
        found = f"{len(damages)} damaged" if damages else "none damaged"
        out.line(f"Read {files} files, {size} bytes: {found}.")
    return DAMAGED if damages else 0


def sentence(damage: Damage) -> str:
    where = f"bytes {damage.position} to {damage.position_end}"
    if damage.offset < damage.offset_end:
        where += f", offsets {damage.offset} to {damage.offset_end - 1}"
    return f"{damage.path} is damaged at {where}: {damage.reason}."


class Pace:
    """Waits so that no more than so many bytes are read in a second, and says how far it is."""

    def __init__(self, bytes_per_second: int | None, out: Output) -> None:
        self._bytes_per_second = bytes_per_second
        self._out = out
        self._bytes = 0
        self._started = self._said = time.monotonic()

    def has_read(self, count: int) -> None:
        self._bytes += count
        now = time.monotonic()
        if self._bytes_per_second:
            ahead = self._bytes / self._bytes_per_second - (now - self._started)
            if ahead > 0:
                time.sleep(ahead)
        if now - self._said >= PROGRESS_S:
            self._said = now
            self._out.remark(f"{self._bytes} bytes read")


TOOL = Tool(
    name="log-scrub",
    does="Checks every batch, index and snapshot in log directories, and names damaged ranges. "
    f"Exits with {DAMAGED} if anything is damaged.",
    flags=(
        Flag("--log-dir", "A log directory.", takes="DIR", repeats=True, required=True),
        Flag("--topic", "Look at this topic only.", takes="TOPIC", repeats=True),
        Flag("--closed-only", "Leave out the last segments: a broker is writing to them."),
        Flag("--bytes-per-second", "Read no faster than this.", takes="BYTES", kind=integer),
        JSON,
    ),
    main=main,
    examples=("moldau log-scrub --log-dir data --closed-only --bytes-per-second 20000000",),
)
