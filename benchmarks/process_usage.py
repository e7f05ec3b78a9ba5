"""What the kernel says about a process: processor time and memory (Linux)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads so far."""
    # The command's name may hold spaces and brackets, so fields are counted after its end.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def tree_cpu_seconds(pid: int) -> float:
    """The same with the processes it has started, also those that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ended = (int(fields[13]) + int(fields[14])) / TICKS_PER_SECOND
    return cpu_seconds(pid) + ended + sum(_of_each(children(pid), tree_cpu_seconds))


def tree_resident_bytes(pid: int) -> int:
    """With the processes it has started; what they share counts for each of them."""
    return resident_bytes(pid) + int(sum(_of_each(children(pid), tree_resident_bytes)))


def children(pid: int) -> list[int]:
    return [
        int(child)
        for path in Path(f"/proc/{pid}/task").glob("*/children")
        for child in path.read_text().split()
    ]


def _of_each(pids: list[int], measure: Callable[[int], float]) -> Iterator[float]:
    for pid in pids:
        # One that has just ended.
        with suppress(OSError, LookupError):
            yield measure(pid)


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"process {pid} has no resident memory")
