"""`moldau server-stop`: asks the brokers on this machine to stop, as kafka-server-stop.sh does."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence

from moldau.cli.servers.run_files import running_brokers

USAGE = """\
usage: moldau server-stop [--node-id=N] [--process-role=broker]

Sends SIGTERM to every broker that you run on this machine, or to the one with
that number. Each finishes what it has begun, closes its logs and ends. Returns
at once. Other words, as the settings file in some runbooks, change nothing.
"""


KNOWN_FROM_START = ("-daemon", "--daemon")
"""Flags of server-start that stand in runbooks here too."""


class Mistake(Exception):
    """The line cannot be meant; says why in one sentence."""


def run(arguments: Sequence[str]) -> int:
    if "--help" in arguments or "-h" in arguments:
        print(USAGE, end="")
        return 0
    try:
        wanted, ignored = understand(arguments)
    except Mistake as mistake:
        print(f"moldau server-stop: {mistake}", file=sys.stderr)
        return 1
    for word in ignored:
        print(f"moldau server-stop: {word} has no effect.", file=sys.stderr)
    brokers = [b for b in running_brokers() if wanted is None or b.node_id == wanted]
    if not brokers:
        print("No kafka server to stop")
        return 1
    for broker in brokers:
        # It may have ended by itself since we looked.
        with contextlib.suppress(ProcessLookupError):
            os.kill(broker.pid, signal.SIGTERM)
    return 0


def understand(arguments: Sequence[str]) -> tuple[int | None, list[str]]:
    """The broker that is meant, None for all, and the words that say nothing. A flag that nobody
    knows is a mistake: it may have been meant to spare the others."""
    wanted, ignored = None, []
    words = list(arguments)
    while words:
        flag, equals, text = words.pop(0).partition("=")
        if flag not in ("--node-id", "--process-role"):
            if flag.startswith("-") and flag not in KNOWN_FROM_START:
                raise Mistake(f"there is no option {flag}; see --help. Nothing was stopped.")
            ignored.append(flag + equals + text)
            continue
        if not equals:
            text = words.pop(0) if words else ""
        if flag == "--process-role":
            if text != "broker":
                raise Mistake(f"--process-role {text!r} has no processes here, only broker has.")
        elif not text.isdigit():
            raise Mistake(f"--node-id needs the number of a broker, not {text!r}")
        else:
            wanted = int(text)
    return wanted, ignored
