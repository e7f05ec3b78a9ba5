"""Principals on a command line: `User:name`."""

from __future__ import annotations

from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Given


def principals(given: Given, key: str) -> list[str]:
    """All that were named by the flag, each once."""
    found = list(dict.fromkeys(text.strip() for text in given.texts(key)))
    for text in found:
        kind, colon, _ = text.partition(":")
        if not colon or not kind:
            raise CommandFault(
                f"expected a string in format principalType:principalName but got {text}"
            )
    return found
