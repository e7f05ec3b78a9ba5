"""What the brokers of a test run told of their event loops, and which of it is explained.

`tests/conftest.py` has every broker process watched (see `moldau/net/loop_watch.py`), and at the
end of the run gathers what they wrote. A callback that held a loop for more than 50 ms is named,
unless a row of `EXPLAINED` says why nobody had to wait for it. It fails the run if it did so by
its own work (`failing`): that is judged so that no load of the machine can fail a run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from moldau.net.loop_watch import HELD_MS_MAX

LINES_SHOWN = 12
IMPORTS = "<frozen importlib._bootstrap>:"
NEARLY_ALL = 0.7
SLOWER_MAX = 4
"""Work counts as more processor time where others share the core and its caches: up to a third
more was seen with six others at work on two cores. The rest is room."""
FAILING_WORK_MS = HELD_MS_MAX * SLOWER_MAX
FAILING_LOOKS = 3
"""How often the looking thread must have seen it. A machine that stands still may count that as
work, but nobody looks on meanwhile."""


class Explanation(NamedTuple):
    reason: str
    phases: frozenset[str] = frozenset()
    """Of the broker; empty for any."""
    function: str = ""
    """The end of a line of the stack, "file.py function"; empty for any."""
    collects: bool = False
    """Nearly all of it was a collection of garbage."""
    waits: bool = False
    """The thread hardly worked: it waited for the system."""
    imports: bool = False
    """Modules were loaded in most of the looks."""

    def holds_for(self, told: Hold) -> bool:
        if self.phases and told.phase not in self.phases:
            return False
        if self.collects and told.collecting_ms < told.held_ms * NEARLY_ALL:
            return False
        if self.waits and told.cpu_ms > told.held_ms * (1 - NEARLY_ALL):
            return False
        if self.imports and not told.is_importing:
            return False
        return not self.function or any(told.is_in(self.function, line) for line in told.lines)


class Hold(NamedTuple):
    held_ms: float
    cpu_ms: float
    collecting_ms: float
    phase: str
    folder: str
    callback: str
    stacks: Sequence[Sequence[str]]
    """The innermost line first: "/path/file.py:12 function"."""

    @property
    def lines(self) -> Iterable[str]:
        return (line for stack in self.stacks for line in stack)

    @property
    def own_work_ms(self) -> float:
        """What the callback itself computed. Not in it: waiting for a processor, for the disk, for
        other threads, and collections of garbage."""
        return self.cpu_ms - self.collecting_ms

    @property
    def is_importing(self) -> bool:
        importing = [any(IMPORTS in line for line in stack) for stack in self.stacks]
        return bool(importing) and sum(importing) >= len(importing) * NEARLY_ALL

    @staticmethod
    def is_in(function: str, line: str) -> bool:
        place, _, name = line.rpartition(" ")
        file, _, _ = place.rpartition(":")
        return f"{file} {name}".endswith(f"/{function}")

    @property
    def place(self) -> str:
        """The innermost line of Moldau's in most of its stacks: holds at one place are one."""
        places = Counter(
            next((_short(line) for line in stack if "/moldau/" in line), self.callback)
            for stack in self.stacks
        )
        return places.most_common(1)[0][0] if places else self.callback


EXPLAINED = [
    Explanation(
        "the broker starts: nobody is served yet",
        phases=frozenset({"NotRunning", "Starting", "RecoveringFromUncleanShutdown"}),
    ),
    Explanation(
        "the broker stops: whoever is still connected is told to go elsewhere, or cut off next",
        phases=frozenset({"ShuttingDown"}),
    ),
    Explanation(
        "Python looks for garbage in all that lives, and stops everybody for it; the thresholds and"
        " the freezing in `broker/process.py` keep that rare",
        collects=True,
    ),
    Explanation(
        "a part of the broker is loaded when the first client needs it, once in a broker's life;"
        " loading everything at the start would make every start slower",
        imports=True,
    ),
    *(
        Explanation(
            "one small file is made, renamed or removed, and the file system lets it wait while"
            " somebody flushes: alone it takes some microseconds",
            function=function,
            waits=True,
        )
        for function in (
            "storage/log_files.py write_whole",
            "storage/log/segment_indexes.py create",
            "storage/log/segment_file.py __init__",
        )
    ),
    Explanation(
        "a new thread is awaited that the machine does not let run yet",
        function="threading.py start",
        waits=True,
    ),
]


def told_in(folder: Path, since_ns: int = 0) -> list[Hold]:
    """What all processes wrote of callbacks that began since then; half a line may come from one
    that was killed."""
    found: dict[tuple[str, int], Hold] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if row["begun_ns"] < since_ns:
                continue
            # What had not ended when it was first told of is told again when it has.
            found[path.name, row["begun_ns"]] = _hold_of(row)
    return list(found.values())


def _hold_of(row: dict[str, Any]) -> Hold:
    return Hold(
        row["held_ms"],
        row.get("cpu_ms", 0.0),
        row.get("collecting_ms", 0.0),
        row["phase"],
        row["folder"],
        row.get("callback", "?"),
        [sample["stack"] for sample in row["stacks"]],
    )


def unexplained(holds: Iterable[Hold]) -> list[Hold]:
    return [hold for hold in holds if not any(row.holds_for(hold) for row in EXPLAINED)]


def failing(holds: Iterable[Hold]) -> list[Hold]:
    """Those that are certainly the broker's own doing, whatever else the machine did."""
    return [
        hold
        for hold in unexplained(holds)
        if hold.own_work_ms >= FAILING_WORK_MS and len(hold.stacks) >= FAILING_LOOKS
    ]


def summary(holds: Sequence[Hold]) -> list[str]:
    """Lines for people: one for each place, with the stack of its longest hold."""
    lines = []
    of_place: dict[str, list[Hold]] = {}
    for hold in holds:
        of_place.setdefault(hold.place, []).append(hold)
    for place, ones in sorted(of_place.items(), key=lambda item: -len(item[1])):
        longest = max(ones)
        lines.append(
            f"{len(ones)} × {place}: at most {longest.held_ms:.0f} ms"
            f" ({longest.cpu_ms:.0f} ms working, {longest.collecting_ms:.0f} ms collecting garbage)"
            f" while {longest.phase}, in {longest.folder}"
        )
        if longest.stacks:
            middle = longest.stacks[len(longest.stacks) // 2]
            lines += [f"    {_short(line)}" for line in middle[:LINES_SHOWN]]
    return lines


def _short(line: str) -> str:
    place, _, name = line.rpartition(" ")
    return f"{place.rpartition('/moldau/')[2]} {name}"
