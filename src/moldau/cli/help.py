"""The text of --help: what a command does, its flags in groups, and lines to copy.

docs/reference/commands.md is made of the same rows, by `make docs`.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable

from moldau.cli.flags import Flag
from moldau.cli.tool import Tool

LEFT_COLUMN = 34
WIDTH_MAX = 100
CLUSTER = {
    *("bootstrap-server", "bootstrap-controller", "command-config", "command-property"),
    *("zookeeper", "zookeeper.connect", "zk-tls-config-file"),
}
ANSWER = {"json", "help", "version"}


def groups_of(tool: Tool) -> list[tuple[str, list[Flag]]]:
    """The flags that are shown, under what they are for; in the order of their rows."""
    actions = {action.flag for action in tool.actions}
    shown = [flag for flag in tool.all_flags() if not flag.hidden]
    title = "what to do" if len(actions) < 2 else "what to do, one of"
    named = (actions, CLUSTER - actions, ANSWER)
    found = [[flag for flag in shown if flag.key in keys] for keys in named]
    rest = [flag for flag in shown if not any(flag in group for group in found)]
    what, cluster, answer = found
    groups = [(title, what), ("flags", rest), ("the cluster", cluster), ("the answer", answer)]
    return [(title, flags) for title, flags in groups if flags]


def help_text(tool: Tool, has_colours: bool = False) -> str:
    width = min(shutil.get_terminal_size((88, 24)).columns, WIDTH_MAX)
    usage = f"usage: moldau {tool.name}"
    if tool.commands:
        usage += " <command>"
    usage += " [flags]" + (f" {tool.words_usage}" if tool.words_usage else "")
    parts = [usage, "", *textwrap.wrap(tool.does, width)]
    commands = (*tool.commands, *tool.beside)
    if commands:
        parts += ["", heading("commands:", has_colours)]
        for command in commands:
            parts += row(command.name.split()[-1], command.does, width)
        parts += ["", f"`moldau {tool.name} <command> --help` shows the flags of one."]
    for title, flags in groups_of(tool):
        parts += ["", heading(f"{title}:", has_colours)]
        for flag in flags:
            parts += row(left_of(flag), right_of(flag, tool), width)
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


def right_of(flag: Flag, tool: Tool) -> str:
    text = flag.help
    if flag.one_of:
        text += f" One of {', '.join(flag.one_of)}."
    if flag.repeats:
        text += " May be repeated."
    if flag.default not in (None, (), ""):
        default = flag.default if not isinstance(flag.default, tuple) else ", ".join(flag.default)
        text += f" Default {default}."
    return ("Required. " if flag.required else "") + text + belongs_to(flag, tool)


def belongs_to(flag: Flag, tool: Tool) -> str:
    """What an action cannot do without, and which actions a flag has a meaning with."""
    for action in tool.actions:
        if action.flag == flag.key and action.needs:
            return f" Needs {spoken(action.needs, 'and')}."
    names = [action.flag for action in tool.actions if flag.key in (action.allows or ())]
    if not names or len(names) == len(tool.actions) or flag.help.startswith(("With --", "For --")):
        return ""
    return f" With {spoken(names, 'or')}."


def spoken(names: Iterable[str], word: str) -> str:
    *first, last = (f"--{name}" for name in names)
    return f"{', '.join(first)} {word} {last}" if first else last


def row(left: str, right: str, width: int) -> list[str]:
    lines = textwrap.wrap(right, max(width - LEFT_COLUMN, 30)) or [""]
    if len(left) > LEFT_COLUMN - 4:
        return [f"  {left}", *(" " * LEFT_COLUMN + line for line in lines)]
    first = f"  {left:<{LEFT_COLUMN - 2}}{lines[0]}"
    return [first, *(" " * LEFT_COLUMN + line for line in lines[1:])]
