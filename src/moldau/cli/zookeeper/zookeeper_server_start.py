"""`moldau zookeeper-server-start`: runs the real Apache ZooKeeper, alone or in an ensemble.

Takes what zookeeper-server-start.sh takes. The file is ZooKeeper's own: with server.N lines it is
an ensemble, without them a server alone.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from moldau.cli.servers.server_start import UsageFault, detach
from moldau.cli.zookeeper.zookeeper_server import ZooKeeperFault, jars, java, java_command

USAGE = """\
usage: moldau zookeeper-server-start [-daemon] [zookeeper.properties]

  zookeeper.properties   settings, as for Apache ZooKeeper (zoo.cfg); without a
                         file the server listens on 127.0.0.1:2181 and keeps
                         its data in ./data/zookeeper
  -daemon                run in the background and return at once; the log goes
                         to zookeeper.out in $LOG_DIR, or in ./logs

Runs the Apache ZooKeeper that comes inside the pyspark package, in Java 17 or
newer. For an ensemble give each server a file with the same server.N lines and
a file `myid` with its number in its dataDir:

    tickTime=2000
    initLimit=10
    syncLimit=5
    dataDir=data/zookeeper-1
    clientPort=2181
    server.1=127.0.0.1:2888:3888
    server.2=127.0.0.1:2889:3889
    server.3=127.0.0.1:2890:3890

Stop it with Ctrl-C, SIGTERM or `moldau zookeeper-server-stop`.
"""

WITHOUT_A_FILE = """\
dataDir=data/zookeeper
clientPort=2181
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
"""
CONSOLE_FILE = "zookeeper.out"


def run(arguments: Sequence[str]) -> int:
    if "--help" in arguments or "-h" in arguments:
        print(USAGE, end="")
        return 0
    try:
        file, daemon = parse(arguments)
        program, class_path = java(), jars()
        config = settings_file(file)
        command = java_command(config, class_path, program=program)
        if daemon and not detach(os.environ, CONSOLE_FILE):
            return 0
    except (UsageFault, ZooKeeperFault) as fault:
        print(f"moldau zookeeper-server-start: {fault}", file=sys.stderr)
        return 1
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
