"""`moldau zookeeper-server-start`: runs the real Apache ZooKeeper, alone or in an ensemble.

Takes what zookeeper-server-start.sh takes. The file is ZooKeeper's own: with server.N lines it is
an ensemble, without them a server alone.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.servers.server_start import UsageFault, beside_the_log, detach
from moldau.cli.tool import JSON, Tool, run_tool
from moldau.cli.zookeeper.zookeeper_server import ZooKeeperFault, jars, java, java_command

WITHOUT_A_FILE = """\
dataDir=data/zookeeper
clientPort=2181
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
"""
CONSOLE_FILE = "zookeeper.out"


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> int:
    file, daemon = parse(given.raw)
    try:
        program, class_path = java(), jars()
    except ZooKeeperFault as fault:
        raise CommandFault(str(fault)) from None
    config = settings_file(file)
    command = java_command(config, class_path, program=program)
    if daemon and not detach(os.environ, CONSOLE_FILE, answer=out if out.is_json else None):
        return 0
    if out.is_json and not daemon:
        answers = beside_the_log()
        answers.json({"pid": os.getpid(), "config": str(config.absolute())})
        answers.flush()
    # This process becomes ZooKeeper: signals reach it directly, and Python costs no memory.
    return become(command)


def become(command: list[str]) -> NoReturn:
    os.execvp(command[0], command)


def parse(arguments: Sequence[str]) -> tuple[str | None, bool]:
    file, daemon = None, False
    for word in arguments:
        if word in ("-daemon", "--daemon"):
            daemon = True
        elif word.startswith("-"):
            raise UsageFault(f"there is no option {word}; see --help.")
        elif file is not None:
            raise UsageFault(f"one settings file is enough: {file} and {word} were given.")
        else:
            file = word
    return file, daemon


def settings_file(file: str | None) -> Path:
    if file is None:
        handle, name = tempfile.mkstemp(prefix="moldau-zookeeper-", suffix=".cfg")
        with open(handle, "w", encoding="utf-8") as out:
            out.write(WITHOUT_A_FILE)
        return Path(name)
    path = Path(file)
    with contextlib.suppress(OSError):
        if path.is_file():
            return path
    raise UsageFault(f"cannot read {file}: there is no such file.")


TOOL = Tool(
    name="zookeeper-server-start",
    does="Runs the real Apache ZooKeeper, which a cluster of several brokers needs: alone, or as"
    " one server of an ensemble. Needs Java 17 or newer. Without a file it listens on"
    " 127.0.0.1:2181 and keeps its data in ./data/zookeeper.",
    flags=(
        Flag(
            "-daemon --daemon",
            "Run in the background and return at once; the log goes to zookeeper.out in $LOG_DIR,"
            " or in ./logs.",
        ),
        JSON._replace(
            help="Print one JSON document first: the process and its settings file. The log goes"
            " to stderr then."
        ),
    ),
    main=main,
    own_words=True,
    words_usage="[zookeeper.properties]",
    needs_words=False,
    fault_opening="moldau zookeeper-server-start: ",
    notes="The file is ZooKeeper's own (zoo.cfg). For an ensemble give each server a file with the"
    " same server.N lines (server.1=127.0.0.1:2888:3888) and a file `myid` with its number in its"
    " dataDir.\n"
    "Stop it with Ctrl-C, SIGTERM or `moldau zookeeper-server-stop`.",
    examples=(
        "moldau zookeeper-server-start config/zookeeper.properties",
        "moldau zookeeper-server-start -daemon config/zookeeper.properties",
    ),
)
