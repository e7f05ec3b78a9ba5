"""A broker whose disk takes its time: flushes of one partition wait until a file says go.

Run as a module instead of `moldau.main`; MOLDAU_HELD names a directory, MOLDAU_HELD_LOG the
partition, `slow-0` unless it says otherwise. A flush that has begun makes the file `begun` there
and waits for the file `go`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from moldau.main import main
from moldau.storage.log import log_flushing
from moldau.storage.log_files import sync_file

HELD = "MOLDAU_HELD"
HELD_LOG = "MOLDAU_HELD_LOG"
SECONDS_MAX = 60
PAUSE_SECONDS = 0.01


def tamper(directory: Path, partition: str) -> None:
    def held(path: str) -> None:
        if f"/{partition}/" in path:
            (directory / "begun").touch()
            deadline = time.monotonic() + SECONDS_MAX
            while not (directory / "go").exists() and time.monotonic() < deadline:
                time.sleep(PAUSE_SECONDS)
        sync_file(path)

    log_flushing.__dict__["sync_file"] = held


if __name__ == "__main__":
    tamper(Path(os.environ[HELD]), os.environ.get(HELD_LOG, "slow-0"))
    sys.exit(main())
