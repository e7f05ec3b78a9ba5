"""`moldau zookeeper-server-stop`: asks the ZooKeeper servers on this machine to stop."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence

from moldau.cli.zookeeper.zookeeper_server import running_zookeepers

USAGE = """\
usage: moldau zookeeper-server-stop

Sends SIGTERM to every ZooKeeper server that you run on this machine and returns
at once, as zookeeper-server-stop.sh does.
"""


def run(arguments: Sequence[str]) -> int:
    if "--help" in arguments or "-h" in arguments:
        print(USAGE, end="")
        return 0
    flag = next((word for word in arguments if word.startswith("-")), None)
    if flag is not None:
        message = f"there is no option {flag}; see --help. Nothing was stopped."
        print(f"moldau zookeeper-server-stop: {message}", file=sys.stderr)
        return 1
    for word in arguments:
        print(f"moldau zookeeper-server-stop: {word} has no effect.", file=sys.stderr)
    servers = running_zookeepers()
    if not servers:
        print("No zookeeper server to stop")
        return 1
    for server in servers:
        # It may have ended by itself since we looked.
        with contextlib.suppress(ProcessLookupError):
            os.kill(server.pid, signal.SIGTERM)
    return 0
