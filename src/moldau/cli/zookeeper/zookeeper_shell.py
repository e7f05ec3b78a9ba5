"""`moldau zookeeper-shell`: look into ZooKeeper, with the shell that comes with it (zkCli.sh).

Takes what zookeeper-shell.sh takes: the server first, then a command or nothing, for many commands
one after the other.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from moldau.cli.servers.server_start import UsageFault
from moldau.cli.zookeeper.zookeeper_server import ZooKeeperFault, jars, java, java_options
from moldau.cli.zookeeper.zookeeper_server_start import become

USAGE = """\
usage: moldau zookeeper-shell HOST:PORT[/path] [command ...]

  HOST:PORT[/path]   the ZooKeeper server, or several separated by commas; with
                     a path everything is seen below it. -server HOST:PORT does
                     as well, and none at all means localhost:2181
  command            one command, for example

    ls /brokers/ids
    get /brokers/ids/0
    get /controller
    get -s /controller_epoch
    get /brokers/topics/orders/partitions/0/state
    deleteall /controller

Without a command it reads commands until `quit`. `help` names them all. It is
Apache ZooKeeper's own shell, in Java 17 or newer; KAFKA_OPTS may name a JAAS
file for it.
"""

MAIN_CLASS = "org.apache.zookeeper.ZooKeeperMain"
SERVER = "localhost:2181"
LOGS_IN_BY_DIGEST = "-Dzookeeper.fips-mode=false"
"""Otherwise ZooKeeper 3.9's client refuses to log in by DIGEST-MD5, and the broker's own user could
not look into its tree."""


def run(arguments: Sequence[str]) -> int:
    if "--help" in arguments or "-h" in arguments:
        print(USAGE, end="")
        return 0
    try:
        server, words = parse(arguments)
        program, class_path, wanted = java(), jars(), java_options()
    except (UsageFault, ZooKeeperFault) as fault:
        print(f"moldau zookeeper-shell: {fault}", file=sys.stderr)
        return 1
    level = os.environ.get("MOLDAU_LOG_LEVEL", "ERROR")
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.level={level}"]
    options += [LOGS_IN_BY_DIGEST, *wanted]
    if not sys.stdin.isatty():
        options.append("-Dorg.jline.terminal.dumb=true")
    command = [program, *options, "-cp", ":".join(map(str, class_path)), MAIN_CLASS]
    return become([*command, "-server", server, "-waitforconnection", *words])


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
