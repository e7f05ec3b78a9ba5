"""`moldau zookeeper-server-status`: what the ZooKeeper servers of this machine do."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from moldau.cli.zookeeper.zookeeper_server import running_zookeepers
from moldau.config.properties import PropertiesError, parse_properties

USAGE = """\
usage: moldau zookeeper-server-status [zookeeper.properties]

Asks the server of that file, or every ZooKeeper server that you run on this
machine, and prints its mode: standalone, leader or follower. Ends with 1 if
none answers.
"""

ANSWER_SECONDS_MAX = 5.0
EVERYWHERE = ("0.0.0.0", "::", "")
"""Addresses that are no place to call."""


def run(arguments: Sequence[str]) -> int:
    if "--help" in arguments or "-h" in arguments:
        print(USAGE, end="")
        return 0
    files = [Path(word) for word in arguments] or [each.config for each in running_zookeepers()]
    if not files:
        print("No zookeeper server runs on this machine.", file=sys.stderr)
        return 1
    answered = [show(file) for file in files]
    return 0 if all(answered) else 1


def show(file: Path) -> bool:
    print(f"Using config: {file}")
    try:
        settings = parse_properties(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, PropertiesError) as fault:
        print(f"Error contacting service: {file} cannot be read ({fault}).")
        return False
    port = settings.get("clientPort", "2181").strip()
    host = settings.get("clientPortAddress", "").strip()
    host = "localhost" if host in EVERYWHERE else host
    print(f"Client port found: {port}. Client address: {host}.")
    mode = mode_of(host, int(port)) if port.isdigit() else None
    print("Error contacting service. It is probably not running." if mode is None else mode)
    return mode is not None


def mode_of(host: str, port: int) -> str | None:
    """The line that starts with `Mode:` in the answer to the four letters `srvr`."""
    try:
        with socket.create_connection((host, port), ANSWER_SECONDS_MAX) as server:
            server.settimeout(ANSWER_SECONDS_MAX)
            server.sendall(b"srvr")
            answer = b"".join(iter(lambda: server.recv(4096), b"")).decode(errors="replace")
    except OSError:
        return None
    return next((line for line in answer.splitlines() if line.startswith("Mode:")), None)
