"""`moldau completion bash|zsh`: lets the shell complete commands and flags.

The script asks `moldau completion words ...` for what may follow, so it never gets old.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

USAGE = """\
usage: moldau completion bash|zsh

Prints a script that completes moldau's commands and flags, also under the names of
Apache Kafka's scripts. In ~/.bashrc or ~/.zshrc:
  eval "$(moldau completion bash)"
  eval "$(moldau completion zsh)"
"""
BASH = """\
_moldau() {
  local IFS=$'\\n'
  COMPREPLY=($(moldau completion words "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null))
}
complete -o default -F _moldau moldau %s
"""
ZSH = """\
autoload -Uz compinit && compinit
_moldau() {
  local -a found
  found=(${(f)"$(moldau completion words "${words[@]:0:$CURRENT}" 2>/dev/null)"})
  compadd -a found
  (( ${#found} )) || _files
}
compdef _moldau moldau %s
"""


def run(arguments: Sequence[str]) -> int:
    match list(arguments):
        case ["bash"]:
            print(BASH % scripts(), end="")
        case ["zsh"]:
            print(ZSH % scripts(), end="")
        case ["words", *line]:
            print("\n".join(following(line)))
        case ["--help"] | ["-h"]:
            print(USAGE, end="")
        case _:
            print(USAGE, end="", file=sys.stderr)
            return 1
    return 0


def scripts() -> str:
    return " ".join(f"kafka-{name}.sh" for name in commands() if name != "completion")


def commands() -> dict[str, tuple[str, str]]:
    from moldau.cli.catalogue import COMMANDS

    return COMMANDS


def following(line: Sequence[str]) -> list[str]:
    """What may stand in place of the last word."""
    if not line:
        return []
    first = line[0].rpartition("/")[2]
    words = list(line[1:]) if first == "moldau" else [plain_name(first), *line[1:]]
    begun = words[-1] if words else ""
    known = commands()
    if len(words) <= 1:
        return [name for name in known if name.startswith(begun)]
    tool = getattr(import_module(known[words[0]][0]), "TOOL", None) if words[0] in known else None
    if tool is None:
        return []
    flags = list(tool.all_flags())
    names = []
    for command in tool.commands:
        short = command.name.split()[-1]
        names.append(short)
        if short in words[1:-1]:
            flags += command.flags
    candidates = [*names, *(n for flag in flags if not flag.hidden for n in flag.names.split())]
    before = words[-2]
    chosen = next((flag for flag in flags if before in flag.names.split()), None)
    if chosen is not None and chosen.takes:
        candidates = list(chosen.one_of)
    return sorted({each for each in candidates if each.startswith(begun)})


def plain_name(script: str) -> str:
    return script.removeprefix("kafka-").removesuffix(".sh")
