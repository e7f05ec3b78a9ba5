"""`moldau snapshot`: keep what a broker holds at this moment; list, check and delete that."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from moldau.cli.answers import row
from moldau.cli.command_clients import open_admin
from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool

if TYPE_CHECKING:
    from moldau.admin import SnapshotInfo
    from moldau.storage.snapshots.snapshot_verification import Verified

DAMAGED = 3
"""The exit code when a snapshot is not what was written."""
PROGRESS_S = 5.0
NAME = Flag("--name", "The name of the snapshot.", takes="NAME")
REQUIRED_NAME = Flag("--name", "The name of the snapshot.", takes="NAME", required=True)
LOG_DIR = Flag(
    "--log-dir",
    "The broker's first log directory, instead of asking the broker: it need not run.",
    takes="DIR",
)
REACH = (BOOTSTRAP, COMMAND_CONFIG)
COLUMNS = ("NAME", "CREATED", "PARTITIONS", "BYTES", "NODE", "CLUSTER")


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def name_of_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")[:-3] + "Z"


def create(given: Given, out: Output) -> None:
    name = given.text("name") if given.has("name") else name_of_now()
    with open_admin(given, out) as admin:
        snapshot = admin.create_snapshot(name)
    if given.has("json"):
        out.json(as_row(snapshot))
        return
    out.line(
        f"Created snapshot {name}: {snapshot.partitions} partitions, {snapshot.size_bytes} bytes."
    )


def list_all(given: Given, out: Output) -> None:
    with open_admin(given, out) as admin:
        found = admin.describe_snapshots()
    if given.has("json"):
        out.json({"snapshots": [as_row(each) for each in found]})
        return
    out.table(COLUMNS, [cells(each) for each in sorted(found, key=lambda each: each.created_ms)])


def describe(given: Given, out: Output) -> None:
    snapshot = find(given, out, given.text("name"))
    if given.has("json"):
        out.json(as_row(snapshot))
        return
    for title, cell in zip(COLUMNS, cells(snapshot), strict=True):
        out.line(f"{title.capitalize()}: {cell}")
    for directory in paths_of(snapshot):
        out.line(f"Directory: {directory}")


def delete(given: Given, out: Output) -> None:
    name = given.text("name")
    with open_admin(given, out) as admin:
        admin.delete_snapshot(name)
    if given.has("json"):
        out.json({"deleted": name})
    else:
        out.line(f"Deleted snapshot {name}. Forks of it go on.")


def verify(given: Given, out: Output) -> int:
    from moldau.storage.snapshots.cluster_forking import parts_of
    from moldau.storage.snapshots.snapshot_files import read_manifest
    from moldau.storage.snapshots.snapshot_verification import verify as verify_all
    from moldau.storage.storage_faults import CorruptFile, StorageFault

    name = given.text("name")
    if given.has("log-dir"):
        directory = given.text("log-dir")
    else:
        directory = find(given, out, name).directories[0]
    progress = Progress(out)
    faults: list[str] = []
    rows: list[Verified] = []
    try:
        manifest = read_manifest(directory, name)
        parts = parts_of(manifest)
        progress.total = sum(part.size_bytes for part in parts)
        for part in parts:
            for verified in verify_all(part, progress.has_read):
                rows.append(verified)
                faults += verified.faults
    except (CorruptFile, StorageFault) as fault:
        raise CommandFault(f"{fault}. `verify` runs on the broker's machine.") from fault
    count = sum(len(part.partitions) for part in parts)
    if given.has("json"):
        out.json({"name": name, "partitions": count, "faults": faults})
    else:
        for sentence in faults:
            out.line(f"{sentence}.")
        found = f"{len(faults)} faults" if faults else "nothing is missing or damaged"
        size = sum(verified.size_bytes for verified in rows)
        out.line(f"Read {count} partitions, {size} bytes: {found}.")
    return DAMAGED if faults else 0


def find(given: Given, out: Output, name: str) -> SnapshotInfo:
    with open_admin(given, out) as admin:
        found = admin.describe_snapshots()
    for snapshot in found:
        if snapshot.name == name:
            return snapshot
    names = ", ".join(sorted(each.name for each in found)[-5:]) or "none"
    raise CommandFault(f"there is no snapshot {name}; the newest are: {names}")


def paths_of(snapshot: SnapshotInfo) -> list[str]:
    from moldau.storage.snapshots.snapshot_files import data_of

    return [data_of(directory, snapshot.name) for directory in snapshot.directories]


def as_row(snapshot: SnapshotInfo) -> dict[str, object]:
    return {**row(snapshot._asdict()), "created": created(snapshot)}


def cells(snapshot: SnapshotInfo) -> tuple[object, ...]:
    return (
        snapshot.name,
        created(snapshot),
        snapshot.partitions,
        snapshot.size_bytes,
        snapshot.node_id,
        snapshot.cluster_id,
    )


def created(snapshot: SnapshotInfo) -> str:
    return datetime.fromtimestamp(snapshot.created_ms / 1000, UTC).isoformat(
        timespec="milliseconds"
    )


class Progress:
    def __init__(self, out: Output) -> None:
        self._out = out
        self._read = 0
        self._said = time.monotonic()
        self.total = 0

    def has_read(self, count: int) -> None:
        self._read += count
        now = time.monotonic()
        if now - self._said >= PROGRESS_S:
            self._said = now
            percent = 100 * self._read // max(1, self.total)
            self._out.remark(f"{self._read} of {self.total} bytes read ({min(percent, 100)} %)")


def refuse(given: Given, out: Output) -> None:
    raise CommandFault("Name what to do: snapshot create, list, describe, verify or delete")


EXAMPLES = (
    "moldau snapshot create --bootstrap-server localhost:9092 --name before-release",
    "moldau snapshot list --bootstrap-server localhost:9092",
    "moldau snapshot verify --bootstrap-server localhost:9092 --name before-release",
)

TOOL = Tool(
    name="snapshot",
    does="Keeps what a broker holds at one moment: every record, group, transaction and setting.",
    flags=(),
    main=refuse,
    commands=(
        Tool(
            name="snapshot create",
            does="Takes a snapshot while clients go on. It shares the files of the broker, so it "
            "needs room only for what the broker deletes later.",
            flags=(*REACH, NAME, JSON),
            main=create,
            examples=EXAMPLES[:1],
        ),
        Tool(
            name="snapshot list",
            does="Lists the snapshots of a broker.",
            flags=(*REACH, JSON),
            main=list_all,
            examples=EXAMPLES[1:2],
        ),
        Tool(
            name="snapshot describe",
            does="Shows one snapshot, and where its files are on the broker's machine.",
            flags=(*REACH, REQUIRED_NAME, JSON),
            main=describe,
            examples=(
                "moldau snapshot describe --bootstrap-server localhost:9092 --name before-release",
            ),
        ),
        Tool(
            name="snapshot verify",
            does="Reads every byte of a snapshot and names what is missing or damaged; on the "
            f"broker's machine. Exits with {DAMAGED} if anything is.",
            flags=(*REACH, LOG_DIR, REQUIRED_NAME, JSON),
            main=verify,
            examples=EXAMPLES[2:],
        ),
        Tool(
            name="snapshot delete",
            does="Removes a snapshot; forks of it go on.",
            flags=(*REACH, REQUIRED_NAME, JSON),
            main=delete,
            examples=(
                "moldau snapshot delete --bootstrap-server localhost:9092 --name before-release",
            ),
        ),
    ),
    examples=EXAMPLES,
)
