"""`moldau zookeeper-server-status`: what the ZooKeeper servers of this machine do."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from moldau.cli.answers import fault as as_data
from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Given
from moldau.cli.output import Output
from moldau.cli.tool import Tool, run_tool
from moldau.cli.zookeeper.zookeeper_server import running_zookeepers
from moldau.config.properties import PropertiesError, parse_properties

ANSWER_SECONDS_MAX = 5.0
NO_ANSWER = "Error contacting service. It is probably not running."
EVERYWHERE = ("0.0.0.0", "::", "")
"""Addresses that are no place to call."""


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> int:
    flag = next((word for word in given.raw if word.startswith("-")), None)
    if flag is not None:
        raise CommandFault(f"there is no option {flag}; see --help.")
    files = [Path(word) for word in given.raw] or [each.config for each in running_zookeepers()]
    if not files:
        raise CommandFault("No zookeeper server runs on this machine.")
    shown = [show(file, out) for file in files]
    if out.is_json:
        out.json(shown)
    return 0 if all(each["mode"] for each in shown) else 1


def show(file: Path, out: Output) -> dict[str, object]:
    out.line(f"Using config: {file}")
    answer: dict[str, object] = {"config": str(file), "host": None, "port": None, "mode": None}
    try:
        settings = parse_properties(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, PropertiesError) as fault:
        out.line(f"Error contacting service: {file} cannot be read ({fault}).")
        return {**answer, "error": as_data(f"{file} cannot be read ({fault})")}
    port = settings.get("clientPort", "2181").strip()
    host = settings.get("clientPortAddress", "").strip()
    host = "localhost" if host in EVERYWHERE else host
    out.line(f"Client port found: {port}. Client address: {host}.")
    mode = mode_of(host, int(port)) if port.isdigit() else None
    out.line(NO_ANSWER if mode is None else mode)
    answer |= {"host": host, "port": int(port) if port.isdigit() else port}
    if mode is None:
        return {**answer, "error": as_data(NO_ANSWER)}
    return {**answer, "mode": mode.partition(":")[2].strip()}


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


TOOL = Tool(
    name="zookeeper-server-status",
    does="Asks the ZooKeeper server of a settings file, or every one that you run on this machine,"
    " what it does: it stands alone, leads, or follows. Exits with 1 if one does not answer.",
    flags=(),
    main=main,
    own_words=True,
    words_usage="[zookeeper.properties]",
    needs_words=False,
    examples=(
        "moldau zookeeper-server-status",
        "moldau zookeeper-server-status config/zookeeper.properties",
    ),
)
