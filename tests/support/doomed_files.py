"""Moldau's command in a process that kills itself at a chosen change of its files.

Run as a module instead of `moldau.main`. It counts the calls named in MOLDAU_DOOM_CALLS whose path
matches MOLDAU_DOOM_AT, from the moment the file MOLDAU_DOOM_WHEN exists (at once if there is no
such variable), and ends by SIGKILL right before the one whose number MOLDAU_DOOM holds, counted
from 0. Of a call with two paths either may match.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

DOOM, AT, CALLS, WHEN = "MOLDAU_DOOM", "MOLDAU_DOOM_AT", "MOLDAU_DOOM_CALLS", "MOLDAU_DOOM_WHEN"
MAIN = "tests.support.doomed_files"
ROOT = str(Path(__file__).parents[2])


def doom(number: int, at: str, calls: str, when: Path | None = None) -> Mapping[str, str]:
    """The environment of such a process."""
    path = os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    chosen = {DOOM: str(number), AT: at, CALLS: calls, "PYTHONPATH": path}
    return chosen if when is None else {**chosen, WHEN: str(when)}


class _Doom:
    def __init__(self) -> None:
        self.left = int(os.environ[DOOM])
        self.at = re.compile(os.environ[AT])
        self.when = os.environ.get(WHEN)

    def watch(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            if any(self.at.search(path) for path in map(_path, arguments[:2])):
                self._strike()
            return change(*arguments, **options)

        return watched

    def _strike(self) -> None:
        if self.when is not None and not os.path.exists(self.when):
            return
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


def _path(argument: Any) -> str:
    if isinstance(argument, str):
        return argument
    if isinstance(argument, int):
        try:
            return os.readlink(f"/proc/self/fd/{argument}")
        except OSError:
            return ""
    return ""


if __name__ == "__main__":
    struck = _Doom()
    # Before anything of Moldau is loaded: some modules keep what `os` had then.
    for name in os.environ[CALLS].split(","):
        setattr(os, name, struck.watch(getattr(os, name)))
    from moldau.main import main

    sys.exit(main())
