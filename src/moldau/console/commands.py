"""The `moldau` command that does the same as a page, for who would rather type or keep it."""

from __future__ import annotations

import shlex

from moldau.console.page import Asked


def command(asked: Asked, tool: str, *words: str) -> str:
    """Ready for a shell; the file with the user's log-in is for him to name."""
    login = ("--command-config", "FILE") if asked.settings.client else ()
    given = (
        "moldau",
        *tool.split(),
        "--bootstrap-server",
        asked.settings.bootstrap,
        *login,
        *words,
    )
    return " ".join(shlex.quote(word) for word in given)
