"""`moldau zookeeper-server-stop`: asks the ZooKeeper servers on this machine to stop."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence

from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Given
from moldau.cli.output import Output
from moldau.cli.tool import Tool, run_tool
from moldau.cli.zookeeper.zookeeper_server import running_zookeepers

NOTHING_RUNS = "No zookeeper server to stop"


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    flag = next((word for word in given.raw if word.startswith("-")), None)
    if flag is not None:
        raise CommandFault(f"there is no option {flag}; see --help. Nothing was stopped.")
    for word in given.raw:
        out.remark(f"moldau zookeeper-server-stop: {word} has no effect.")
    servers = running_zookeepers()
    if not servers:
        raise CommandFault(NOTHING_RUNS, told=NOTHING_RUNS)
    for server in servers:
        # It may have ended by itself since we looked.
        with contextlib.suppress(ProcessLookupError):
            os.kill(server.pid, signal.SIGTERM)
    if out.is_json:
        out.json({"stopped": [{"pid": each.pid, "config": str(each.config)} for each in servers]})


TOOL = Tool(
    name="zookeeper-server-stop",
    does="Asks every ZooKeeper server that you run on this machine to stop, and returns at once.",
    flags=(),
    main=main,
    own_words=True,
    needs_words=False,
    fault_opening="moldau zookeeper-server-stop: ",
    examples=("moldau zookeeper-server-stop",),
)
