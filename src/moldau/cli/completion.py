"""`moldau completion bash|zsh|fish`: lets the shell complete commands, flags, topics and groups.

The script asks `moldau completion words ...` for what may follow, so it never gets old. Names of
topics and groups are asked of the brokers that the line names, or MOLDAU_BOOTSTRAP_SERVER; a shell
that waits is worse than one that knows nothing, so they have a second to answer.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.tool import Tool, run_tool

if TYPE_CHECKING:
    from moldau.client.admin.blocking_admin import Admin

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
FISH = """\
function __moldau_words
    moldau completion words (commandline -opc) (commandline -ct) 2>/dev/null
end
function __moldau_knows
    set -l found (__moldau_words)
    test (count $found) -gt 0
end
for each in moldau %s
    complete -c $each -n __moldau_knows -f -a '(__moldau_words)'
end
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
ANSWER_MS = 1000
NAMES_MAX = 1000
"""More than that nobody reads, and shells ask whether to show them."""


def run(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["words"]:
        # Asked by the shell at every tab; the words are those of another command.
        print("\n".join(following(rejoined(arguments[1:]))))
        return 0
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    shell = given.words[0] if given.words else ""
    if shell not in SCRIPTS:
        raise UsageFault(f"Name the shell: {', '.join(SCRIPTS)}")
    script = SCRIPTS[shell] % scripts()
    if out.is_json:
        out.json({"shell": shell, "script": script})
    else:
        out.write(script)


def scripts() -> str:
    return " ".join(f"kafka-{name}.sh" for name in commands() if name != "completion")


def commands() -> dict[str, tuple[str, str]]:
    from moldau.cli.catalogue import COMMANDS

    return COMMANDS


def rejoined(line: Sequence[str]) -> list[str]:
    """bash hands `localhost:9092` over as three words."""
    words: list[str] = []
    for word in line:
        if words and (word == ":" or (words[-1].endswith(":") and word)):
            words[-1] += word
        else:
            words.append(word)
    return words


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
    if words[0] not in known:
        return []
    tool: Tool = import_module(known[words[0]][0]).TOOL
    flags = list(tool.all_flags())
    candidates = list(SCRIPTS) if tool.name == "completion" else []
    for command in tool.commands:
        short = command.name.split()[-1]
        candidates.append(short)
        if short in words[1:-1]:
            flags += command.flags
    chosen = next((flag for flag in flags if words[-2] in flag.names.split()), None)
    if chosen is not None and chosen.takes:
        found = values_of(chosen, flags, words[:-1])
    else:
        found = [*candidates, *shown_names(flags)]
    return sorted({each for each in found if each.startswith(begun)})[:NAMES_MAX]


def shown_names(flags: Iterable[Flag]) -> list[str]:
    return [name for flag in flags if not flag.hidden for name in flag.names.split()]


def values_of(flag: Flag, flags: Iterable[Flag], words: Sequence[str]) -> list[str]:
    if flag.one_of:
        return list(flag.one_of)
    if not {"--topic", "--group"} & set(flag.names.split()):
        return []
    with contextlib.suppress(CommandFault, OSError, ValueError), asked(flags, words) as admin:
        if "--topic" in flag.names.split():
            return list(admin.list_topics(timeout=ANSWER_MS / 1000))
        return [each.group_id for each in admin.list_groups(timeout=ANSWER_MS / 1000)]
    return []


@contextlib.contextmanager
def asked(flags: Iterable[Flag], words: Sequence[str]) -> Iterator[Admin]:
    """The cluster that the line names so far. Raises CommandFault if there is none."""
    from moldau.cli.command_clients import (
        BOOTSTRAP_VARIABLE,
        address_of,
        client_faults,
        properties_file,
        refusal,
    )

    bootstrap = value_in(flags, words, "bootstrap-server") or os.environ.get(BOOTSTRAP_VARIABLE)
    if not bootstrap:
        raise CommandFault("no broker is named")
    if all(refusal(*address_of(each)) for each in bootstrap.split(",")):
        raise CommandFault("no broker answers")
    file = value_in(flags, words, "command-config")
    settings = properties_file(file) if file else {}
    limits = {"request.timeout.ms": ANSWER_MS, "default.api.timeout.ms": ANSWER_MS}
    with client_faults():
        from moldau.client.admin.blocking_admin import Admin

        with Admin({**settings, **limits, "bootstrap.servers": bootstrap}) as admin:
            yield admin


def value_in(flags: Iterable[Flag], words: Sequence[str], key: str) -> str:
    names = {name for flag in flags if flag.key == key for name in flag.names.split()}
    for before, word in itertools.pairwise(words):
        if before in names:
            return word
        name, equals, value = word.partition("=")
        if equals and name in names:
            return value
    return ""


def plain_name(script: str) -> str:
    return script.removeprefix("kafka-").removesuffix(".sh")


TOOL = Tool(
    name="completion",
    does="Prints a script that completes moldau's commands and flags in the shell, with the names"
    " of topics and groups, also under the names of Apache Kafka's scripts.",
    flags=(),
    main=main,
    words_max=1,
    words_usage="bash|zsh|fish",
    notes="In ~/.bashrc or ~/.zshrc stands the first or second line below; in"
    " ~/.config/fish/config.fish the third. Topics and groups are asked of the brokers that the"
    " line names with --bootstrap-server, or of those in MOLDAU_BOOTSTRAP_SERVER.",
    examples=(
        'eval "$(moldau completion bash)"',
        'eval "$(moldau completion zsh)"',
        "moldau completion fish | source",
    ),
)
