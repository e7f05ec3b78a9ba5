"""`moldau fork`: a broker of its own that begins with everything another one holds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, integer
from moldau.cli.output import Output
from moldau.cli.snapshots.fork_broker import ForkedBroker
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool

if TYPE_CHECKING:
    from moldau.storage.snapshots.forking import Fork
    from moldau.storage.snapshots.snapshot_files import Manifest


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    from moldau.storage.storage_faults import CorruptFile, StorageFault

    target = Path(given.text("dir"))
    if target.exists() and any(target.iterdir()):
        raise CommandFault(f"{target} is not empty: a fork needs a folder of its own")
    try:
        manifest, made_for_it = snapshot_of(given, out)
        check_secured(given, manifest)
        forked = take(manifest, target, out)
    except (CorruptFile, StorageFault) as fault:
        raise CommandFault(f"{fault}. A fork is made on the broker's machine.") from fault
    if made_for_it:
        drop(given, out, manifest.name)
    broker = ForkedBroker(
        target, manifest, forked, base=given.text("config") if given.has("config") else None
    )
    broker.write_settings(given.maybe_number("port"))
    if not given.has("no-start"):
        broker.start()
    if given.has("json"):
        out.json(broker.as_row())
        return
    count, size_bytes = len(manifest.partitions), manifest.size_bytes
    out.line(f"Forked {count} partitions with {size_bytes} bytes into {target}.")
    if given.has("no-start"):
        out.line(f"Start it with: moldau server-start {broker.settings_path}")
    else:
        out.line(f"It serves at {broker.bootstrap}; end it with: kill {broker.pid}")


def snapshot_of(given: Given, out: Output) -> tuple[Manifest, bool]:
    """What to fork, and whether it was made for nothing else."""
    from moldau.cli.snapshots.snapshot import find, name_of_now
    from moldau.storage.snapshots.snapshot_files import names_in, read_manifest

    if given.has("from-dir"):
        directory = os.path.abspath(given.text("from-dir"))
        names = names_in(directory)
        name = given.text("snapshot") if given.has("snapshot") else names[-1] if names else ""
        if not name:
            raise CommandFault(f"there is no snapshot of {directory}")
        return read_manifest(directory, name), False
    if given.has("snapshot"):
        name = given.text("snapshot")
        return read_manifest(find(given, out, name).directories[0], name), False
    from moldau.cli.command_clients import open_admin

    name = f"fork-{name_of_now()}"
    with open_admin(given, out) as admin:
        made = admin.create_snapshot(name)
    return read_manifest(made.directories[0], name), True


def drop(given: Given, out: Output, name: str) -> None:
    """The fork has the files by now."""
    from moldau.cli.command_clients import open_admin

    with open_admin(given, out) as admin:
        admin.delete_snapshot(name)


def check_secured(given: Given, manifest: Manifest) -> None:
    if manifest.is_secured and not given.has("config") and not given.has("open"):
        raise UsageFault(
            "the original is secured, and its locks are not in a snapshot: name its settings with "
            "--config FILE, or say --open to let everybody on this machine in"
        )


def take(manifest: Manifest, target: Path, out: Output) -> Fork:
    from moldau.broker.forked_directories import fork_directories

    total = manifest.size_bytes
    said = copied = 0

    def has_copied(count: int) -> None:
        nonlocal said, copied
        copied += count
        if copied - said >= 1 << 30:
            said = copied
            out.remark(f"{copied} of {total} bytes copied: the fork is on another disk")

    return fork_directories(manifest, os.path.abspath(target), has_copied)


TOOL = Tool(
    name="fork",
    does="Starts a broker that begins with everything another one holds at this moment, or held "
    "when a snapshot was taken. The two share files, but nothing that one does is seen by the "
    "other.",
    flags=(
        BOOTSTRAP,
        COMMAND_CONFIG,
        Flag("--snapshot", "Begin with this snapshot, not with now.", takes="NAME"),
        Flag(
            "--from-dir",
            "The first log directory of a broker that has snapshots, instead of asking the broker: "
            "it need not run. The last snapshot by name is taken unless --snapshot says which.",
            takes="DIR",
        ),
        Flag("--dir", "Where the fork lives; a new folder.", takes="DIR", required=True),
        Flag("--port", "Of the fork; a free one if nothing is said.", takes="P", kind=integer),
        Flag(
            "--config",
            "A settings file for the fork; addresses, directories and id are its own.",
            takes="FILE",
        ),
        Flag("--open", "Let everybody on this machine in, though the original is secured."),
        Flag("--no-start", "Only make the folder; start the broker later."),
        JSON,
    ),
    main=main,
    examples=(
        "moldau fork --bootstrap-server localhost:9092 --dir /tmp/experiment --port 9192",
        "moldau fork --from-dir data --snapshot before-release --dir /tmp/before",
    ),
)
