"""The text of --help: what a command does, its flags, and lines to copy."""

from __future__ import annotations

import shutil
import textwrap

from moldau.cli.flags import Flag
from moldau.cli.tool import Tool

LEFT_COLUMN = 34
WIDTH_MAX = 100


def help_text(tool: Tool, has_colours: bool = False) -> str:
    width = min(shutil.get_terminal_size((88, 24)).columns, WIDTH_MAX)
    usage = f"usage: moldau {tool.name}"
    if tool.commands:
        usage += " <command>"
    usage += " [flags]" + (f" {tool.words_usage}" if tool.words_usage else "")
    parts = [usage, "", *textwrap.wrap(tool.does, width)]
    if tool.commands:
        parts += ["", heading("commands:", has_colours)]
        for command in tool.commands:
            parts += row(command.name.split()[-1], command.does, width)
        parts += ["", f"`moldau {tool.name} <command> --help` shows the flags of one."]
    parts += ["", heading("flags:", has_colours)]
    for flag in tool.all_flags():
        if not flag.hidden:
            parts += row(left_of(flag), right_of(flag), width)
    if tool.notes:
        parts += ["", *(line for text in tool.notes.split("\n") for line in wrapped(text, width))]
    if tool.examples:
        parts += ["", heading("examples:", has_colours), *(f"  {line}" for line in tool.examples)]
    return "\n".join(parts) + "\n"


def wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width) or [""]


def heading(text: str, has_colours: bool) -> str:
    return f"\x1b[1m{text}\x1b[0m" if has_colours else text


def left_of(flag: Flag) -> str:
    names = ", ".join(name for name in flag.names.split())
    if not flag.takes:
        return names
    return (
        f"{names} [{flag.takes}]"
        if flag.bare is not Flag._field_defaults["bare"]
        else (f"{names} {flag.takes}")
    )


def right_of(flag: Flag) -> str:
    text = flag.help
    if flag.one_of:
        text += f" One of {', '.join(flag.one_of)}."
    if flag.repeats:
        text += " May be repeated."
    if flag.default not in (None, (), ""):
        text += f" Default {flag.default}."
    return ("Required. " if flag.required else "") + text


def row(left: str, right: str, width: int) -> list[str]:
    lines = textwrap.wrap(right, max(width - LEFT_COLUMN, 30)) or [""]
    if len(left) > LEFT_COLUMN - 4:
        return [f"  {left}", *(" " * LEFT_COLUMN + line for line in lines)]
    first = f"  {left:<{LEFT_COLUMN - 2}}{lines[0]}"
    return [first, *(" " * LEFT_COLUMN + line for line in lines[1:])]
