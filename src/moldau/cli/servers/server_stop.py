"""`moldau server-stop`: asks the brokers on this machine to stop, as kafka-server-stop.sh does."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence

from moldau.cli.answers import row
from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.servers.run_files import running_brokers
from moldau.cli.tool import Tool, run_tool

NOTHING_RUNS = "No kafka server to stop"
KNOWN_FROM_START = ("-daemon", "--daemon")
"""Flags of server-start that stand in runbooks here too."""


class Mistake(CommandFault):
    """The line cannot be meant; says why in one sentence."""


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    wanted, ignored = understand(given.raw)
    for word in ignored:
        out.remark(f"moldau server-stop: {word} has no effect.")
    brokers = [b for b in running_brokers() if wanted is None or b.node_id == wanted]
    if not brokers:
        raise CommandFault(NOTHING_RUNS, told=NOTHING_RUNS)
    for broker in brokers:
        # It may have ended by itself since we looked.
        with contextlib.suppress(ProcessLookupError):
            os.kill(broker.pid, signal.SIGTERM)
    if out.is_json:
        out.json({"stopped": [row(broker._asdict()) for broker in brokers]})


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


TOOL = Tool(
    name="server-stop",
    does="Asks every broker that you run on this machine to stop, or only one of them. Each"
    " finishes what it has begun, closes its logs and ends; the command returns at once.",
    flags=(
        Flag("--node-id", "Only the broker with this number.", takes="ID"),
        Flag("--process-role", "What Kafka's script takes; broker.", takes="ROLE"),
    ),
    main=main,
    own_words=True,
    needs_words=False,
    fault_opening="moldau server-stop: ",
    notes="Other words, as the settings file in some runbooks, change nothing.",
    examples=("moldau server-stop", "moldau server-stop --node-id=2"),
)
