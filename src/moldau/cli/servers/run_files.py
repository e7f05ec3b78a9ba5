"""Which brokers run on this machine: each leaves a small file while it does.

A file is named after the process and says who runs there; a process that died without removing
it is recognized by its command line, or by being gone. MOLDAU_RUN_DIR moves the folder, and
then only the brokers that were started with the same value are seen.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER_VARIABLE = "MOLDAU_RUN_DIR"
PROCESSES = Path("/proc")
COMMAND = "server-start"


class RunningBroker(NamedTuple):
    pid: int
    node_id: int | None
    """None if the broker left no file and is known by its command line only."""


def run_folder() -> Path:
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    base = os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("TMPDIR") or "/tmp"
    return Path(base) / f"moldau-{os.getuid()}"


def announce(node_id: int) -> Path:
    """Leave this process's file; the caller removes it. Raises OSError."""
    folder = run_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{os.getpid()}.pid"
    path.write_text(f"{os.getpid()} {node_id}\n")
    return path


def running_brokers() -> list[RunningBroker]:
    found = {broker.pid: broker for broker in _announced()}
    if not os.environ.get(FOLDER_VARIABLE):
        for pid in looking_like_brokers():
            found.setdefault(pid, RunningBroker(pid, None))
    return sorted(found.values())


def _announced() -> Iterator[RunningBroker]:
    folder = run_folder()
    with contextlib.suppress(OSError):
        if folder.stat().st_uid != os.getuid():
            return  # somebody else's folder under our name: nothing in it is to be trusted
    for path in sorted(folder.glob("*.pid")):
        try:
            pid, node_id = map(int, path.read_text().split())
        except (OSError, ValueError):
            continue
        if is_broker(pid):
            yield RunningBroker(pid, node_id)
        else:
            path.unlink(missing_ok=True)


def is_broker(pid: int) -> bool:
    """Whether the process lives and, where that can be seen, was started as a broker."""
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError):
        return False
    return not PROCESSES.is_dir() or _is_broker_command(pid)


def looking_like_brokers() -> Iterator[int]:
    if not PROCESSES.is_dir():
        return
    for entry in PROCESSES.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if entry.stat().st_uid == os.getuid() and _is_broker_command(int(entry.name)):
                yield int(entry.name)


def _is_broker_command(pid: int) -> bool:
    """`moldau server-start ...` or `python -m moldau.main server-start ...`."""
    try:
        words = (PROCESSES / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    for before, word in itertools.pairwise(words):
        if word == COMMAND and Path(before).name in ("moldau", "moldau.main", "main.py"):
            return True
    return False
