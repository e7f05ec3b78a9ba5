"""`moldau log-scrub`: read closed segments again and name what the disk has damaged.

Without --repair it changes nothing, so it may run beside the broker; the segment being written is
left out then. With it the broker must be stopped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.cli.answers import place
from moldau.cli.answers import row as as_data
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, integer
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool
from moldau.model.names import TopicPartition
from moldau.storage.scrubbing.segment_scrubbing import Damage, partitions_in, scrub_partition
from moldau.storage.storage_faults import StorageFault

if TYPE_CHECKING:
    from moldau.cli.files.log_scrub_repair import Outcome
    from moldau.net.peers import PeerSecurity

DAMAGED = 3
"""The exit code when something is damaged, and stays so."""
PROGRESS_S = 5.0


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> int:
    directories = [path for text in given.texts("log-dir") for path in text.split(",") if path]
    if not given.has("repair"):
        damages = look(given, out, directories)
        return report(given, out, damages, {})
    from moldau.cli.files.log_scrub_repair import lock_stopped, repair

    if given.has("closed-only"):
        raise UsageFault("--repair needs a stopped broker, so --closed-only is of no use with it.")
    locked = {}
    try:
        for path in directories:
            directory = lock_stopped(path)
            locked[directory.path] = directory
        damages = look(given, out, list(locked))
        bootstrap = given.text("bootstrap-server") if given.has("bootstrap-server") else ""
        security = how_to_ask(given, bootstrap)
        outcomes = dict(repair(damages.found, locked, bootstrap, security)) if damages.found else {}
    except StorageFault as fault:
        raise CommandFault(str(fault)) from fault
    finally:
        for directory in locked.values():
            directory.unlock()
    return report(given, out, damages, outcomes)


def how_to_ask(given: Given, bootstrap: str) -> PeerSecurity:
    """The other brokers, as any client is told by the file. Raises CommandFault."""
    from moldau.cli.command_clients import client_faults, properties_file
    from moldau.client.network.connection_security import ConnectionSecurity
    from moldau.config.client_settings.admin_settings import AdminConfig
    from moldau.net.peers import PeerSecurity

    if not given.has("command-config"):
        return PeerSecurity()
    settings = properties_file(given.text("command-config"))
    with client_faults():
        config, _ = AdminConfig.parse({**settings, "bootstrap.servers": bootstrap or "none:1"})
        security = ConnectionSecurity.of(config)
    if security is None:
        return PeerSecurity()
    return PeerSecurity(lambda: security.context, lambda: security.login)


class Look(NamedTuple):
    files: int
    size_bytes: int
    found: list[Damage]


def look(given: Given, out: Output, directories: Sequence[str]) -> Look:
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
                            out.line(f"{damage}.")
    except (StorageFault, OSError) as fault:
        raise CommandFault(str(fault)) from fault
    return Look(files, size, damages)


def report(
    given: Given, out: Output, look: Look, outcomes: Mapping[TopicPartition, Outcome]
) -> int:
    repaired = [
        damage
        for damage in look.found
        if damage.partition in outcomes and outcomes[damage.partition].is_repaired
    ]
    if given.has("json"):
        rows = []
        for damage in look.found:
            row: dict[str, object] = {**as_data(damage._asdict()), **place(damage.partition)}
            if damage.partition in outcomes:
                row["repaired"] = damage in repaired
            rows.append(row)
        out.json({"files": look.files, "bytes": look.size_bytes, "damaged": rows})
    else:
        for outcome in outcomes.values():
            out.line(outcome.sentence)
        found = f"{len(look.found)} damaged" if look.found else "none damaged"
        mended = f", {len(repaired)} of them repaired" if outcomes else ""
        out.line(f"Read {look.files} files, {look.size_bytes} bytes: {found}{mended}.")
    return DAMAGED if len(repaired) < len(look.found) else 0


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
    f"Exits with {DAMAGED} if anything is damaged and not repaired.",
    flags=(
        Flag("--log-dir", "The log directory to read.", takes="DIR", repeats=True, required=True),
        Flag("--topic", "Look at this topic only.", takes="TOPIC", repeats=True),
        Flag("--closed-only", "Leave out the last segments: a broker is writing to them."),
        Flag(
            "--repair",
            "Make damaged files anew, of a stopped broker: indexes from the log, records from "
            "another replica in sync, which the brokers named with --bootstrap-server know.",
        ),
        BOOTSTRAP,
        COMMAND_CONFIG,
        Flag(
            "--bytes-per-second",
            "Read no more than so many bytes a second, to leave the disk to others.",
            takes="BYTES",
            kind=integer,
        ),
        JSON,
    ),
    main=main,
    examples=(
        "moldau log-scrub --log-dir data --closed-only --bytes-per-second 20000000",
        "moldau log-scrub --log-dir data --repair --bootstrap-server localhost:9093",
    ),
)
