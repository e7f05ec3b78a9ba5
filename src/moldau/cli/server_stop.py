"""`moldau server-stop`: asks the brokers on this machine to stop, as kafka-server-stop.sh does."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence

from moldau.cli.run_files import running_brokers

USAGE = """\
usage: moldau server-stop [--node-id=N]

Sends SIGTERM to every broker that you run on this machine, or to the one with
that number. Each finishes what it has begun, closes its logs and ends. Returns
at once; what else is on the line is ignored, as by kafka-server-stop.sh.
"""


def run(arguments: Sequence[str]) -> int:
    if "--help" in arguments or "-h" in arguments:
        print(USAGE, end="")
        return 0
    try:
        wanted = node_id_of(arguments)
    except ValueError as fault:
        print(f"moldau server-stop: {fault}", file=sys.stderr)
        return 1
    brokers = [b for b in running_brokers() if wanted is None or b.node_id == wanted]
    if not brokers:
        print("No kafka server to stop")
        return 1
    for broker in brokers:
        # It may have ended by itself since we looked.
        with contextlib.suppress(ProcessLookupError):
            os.kill(broker.pid, signal.SIGTERM)
    return 0


def node_id_of(arguments: Sequence[str]) -> int | None:
    words = list(arguments)
    for index, word in enumerate(words):
        text = None
        if word.startswith("--node-id="):
            text = word.partition("=")[2]
        elif word == "--node-id":
            text = words[index + 1] if index + 1 < len(words) else ""
        if text is not None:
            if not text.isdigit():
                raise ValueError(f"--node-id needs the number of a broker, not {text!r}")
            return int(text)
    return None
