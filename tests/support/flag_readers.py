"""Who reads which flag of a command, found in the source: for the test that no flag is ignored.

A flag is read where its key stands as a text in the command's own module or in one that it imports
from the commands, other than where the flag is declared (there its name has dashes before it).
--json is read by the frame. A command that reads its words itself names the flag twice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from moldau.cli.catalogue import COMMANDS
from moldau.cli.flags import Flag
from moldau.cli.tool import Tool

SOURCE = Path(__file__).parent.parent.parent / "src"
PREFIX = "moldau.cli."
FRAME = {"moldau.cli.tool", "moldau.cli.flags", "moldau.cli.help", "moldau.cli.command_faults"}
"""Around every command: knows flags by their rows only."""


def tools() -> Iterator[tuple[str, Tool]]:
    """Every command that has flags, and its sub-commands, with the module it is in."""
    for module, _ in COMMANDS.values():
        tool = getattr(import_module(module), "TOOL", None)
        if tool is not None:
            yield module, tool
            for command in tool.commands:
                yield module, command


def unread(module: str, tool: Tool) -> Iterator[Flag]:
    if tool.own_words:
        said = [node for node in ast.walk(_tree(module)) if isinstance(node, ast.Constant)]
        for flag in tool.flags:
            names = flag.names.split()
            uses = sum(node.value in names for node in said) - (len(names) == 1)
            if flag.key != "json" and not uses:
                yield flag
        return
    texts = frozenset().union(*(_texts(each) for each in _closure(module)))
    for flag in tool.flags:
        if flag.key not in texts and flag.key != "json":
            yield flag


def _closure(module: str) -> set[str]:
    found, todo = set(), [module]
    while todo:
        name = todo.pop()
        if name not in found and name not in FRAME:
            found.add(name)
            todo += _imported(name)
    return found


def _tree(module: str) -> ast.Module:
    return ast.parse((SOURCE / f"{module.replace('.', '/')}.py").read_text())


def _imported(module: str) -> list[str]:
    return [
        node.module
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PREFIX)
        if node.module is not None
    ]


def _texts(module: str) -> frozenset[str]:
    return frozenset(
        node.value
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
