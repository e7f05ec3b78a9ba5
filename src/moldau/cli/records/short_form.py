"""What `cat` and `put` have in common: short flags as of kcat, and separators with escapes."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from moldau.cli.command_clients import BOOTSTRAP_VARIABLE, key_values, properties_file
from moldau.cli.command_faults import UsageFault
from moldau.cli.flags import Flag, Given
from moldau.cli.tool import Tool

USUAL_BROKER = "localhost:9092"
ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0"}

BROKER = Flag(
    "--bootstrap-server -b",
    f"The brokers to ask first, as host:port,host:port; without it those in {BOOTSTRAP_VARIABLE},"
    f" or {USUAL_BROKER}.",
    takes="HOST:PORT",
)
SETTING = Flag("--setting -X", "A setting of the client.", takes="KEY=VALUE", repeats=True)
CONFIG = Flag("--command-config -F", "A properties file with settings.", takes="FILE")


def separated(words: Sequence[str], tool: Tool) -> list[str]:
    """`-c5` is `-c 5`, as with kcat."""
    short = {
        name
        for flag in tool.flags
        if flag.takes
        for name in flag.names.split()
        if re.fullmatch("-[a-zA-Z]", name)
    }
    found: list[str] = []
    for word in words:
        if word[:2] in short and len(word) > 2:
            found += [word[:2], word[2:].removeprefix("=")]
        else:
            found.append(word)
    return found


def settings_of(given: Given) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if given.has("command-config"):
        settings |= properties_file(given.text("command-config"))
    settings |= key_values(given.texts("setting"), accepts_missing=False)
    named = given.maybe_text("bootstrap-server") or os.environ.get(BOOTSTRAP_VARIABLE)
    settings["bootstrap.servers"] = named or settings.get("bootstrap.servers") or USUAL_BROKER
    return settings


def unescaped(text: str) -> bytes:
    r"""With \n, \r, \t, \0, \\ and \x2c as what they stand for. Raises UsageFault."""

    def replaced(match: re.Match[bytes]) -> bytes:
        escape = match[1]
        if escape[:1] == b"x" and len(escape) == 3:
            return bytes([int(escape[1:], 16)])
        return LETTERS.get(escape, escape)

    content = os.fsencode(text)
    if content.endswith(b"\\") and not content.endswith(b"\\\\"):
        raise UsageFault(f"{text!r} ends in the middle of an escape")
    return ESCAPE.sub(replaced, content)
