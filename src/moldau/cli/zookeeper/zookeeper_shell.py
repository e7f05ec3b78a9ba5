"""`moldau zookeeper-shell`: look into ZooKeeper, with the shell that comes with it (zkCli.sh).

Takes what zookeeper-shell.sh takes: the server first, then a command or nothing, for many commands
one after the other.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.servers.server_start import UsageFault
from moldau.cli.tool import Tool, run_tool
from moldau.cli.zookeeper.zookeeper_server import ZooKeeperFault, jars, java, java_options
from moldau.cli.zookeeper.zookeeper_server_start import become

MAIN_CLASS = "org.apache.zookeeper.ZooKeeperMain"
SERVER = "localhost:2181"
ASIDE = ("Connecting to ", "WATCHER::", "WatchedEvent ")
LOGS_IN_BY_DIGEST = "-Dzookeeper.fips-mode=false"
"""Otherwise ZooKeeper 3.9's client refuses to log in by DIGEST-MD5, and the broker's own user could
not look into its tree."""


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> int:
    server, words = parse(given.raw)
    try:
        program, class_path, wanted = java(), jars(), java_options()
    except ZooKeeperFault as fault:
        raise CommandFault(str(fault)) from None
    level = os.environ.get("MOLDAU_LOG_LEVEL", "ERROR")
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.level={level}"]
    options += [LOGS_IN_BY_DIGEST, *wanted]
    if not sys.stdin.isatty():
        options.append("-Dorg.jline.terminal.dumb=true")
    command = [program, *options, "-cp", ":".join(map(str, class_path)), MAIN_CLASS]
    command += ["-server", server, "-waitforconnection", *words]
    if not out.is_json:
        return become(command)
    if not words:
        raise CommandFault("with --json one command is to be named: what is typed has no end.")
    return answered(command, server, words, out)


def answered(command: Sequence[str], server: str, words: Sequence[str], out: Output) -> int:
    """The lines of ZooKeeper's shell as data; the shell itself knows no other form."""
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    lines = answer_in(ran.stdout)
    if ran.returncode:
        told = ran.stderr.strip().splitlines() or lines or ["the shell ended without a word"]
        raise CommandFault(told[-1])
    out.json({"server": server, "command": " ".join(words), "lines": lines})
    return 0


def answer_in(printed: str) -> list[str]:
    """Without what the shell says of its connection."""
    return [line for line in printed.splitlines() if line.strip() and not line.startswith(ASIDE)]


def parse(arguments: Sequence[str]) -> tuple[str, list[str]]:
    words = list(arguments)
    if not words:
        return SERVER, []
    if words[0] == "-server":
        if len(words) < 2:
            raise UsageFault("-server needs the server's address, HOST:PORT.")
        return words[1], words[2:]
    if words[0].startswith("-"):
        raise UsageFault(f"there is no option {words[0]}; see --help.")
    if ":" not in words[0]:
        raise UsageFault(f"name the server first, as HOST:PORT: {words[0]} is none.")
    return words[0], words[1:]


TOOL = Tool(
    name="zookeeper-shell",
    does="Looks into ZooKeeper, where a cluster keeps its brokers, topics and leaders, with Apache"
    " ZooKeeper's own shell. Needs Java 17 or newer. Without a command it reads commands until"
    " `quit`; `help` names them all.",
    flags=(Flag("-server", "The server, instead of the first word.", takes="HOST:PORT"),),
    main=main,
    own_words=True,
    words_usage="HOST:PORT[/path] [command ...]",
    needs_words=False,
    fault_opening="moldau zookeeper-shell: ",
    notes="Several servers are separated by commas; with a path everything is seen below it; none"
    " at all means localhost:2181. KAFKA_OPTS may name a JAAS file for it.",
    examples=(
        "moldau zookeeper-shell localhost:2181 ls /brokers/ids",
        "moldau zookeeper-shell localhost:2181 get /controller",
        "moldau zookeeper-shell localhost:2181 get /brokers/topics/orders/partitions/0/state",
    ),
)
