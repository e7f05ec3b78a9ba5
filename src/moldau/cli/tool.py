"""One command: what it is called, which flags it takes, what it does; and how it is run.

`run_tool` is the frame around every command: help, wrong words, a fault of the cluster, Ctrl-C
and a closed pipe each end in one sentence or in silence and in the exit code that Kafka's tool
has, never in a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, check_required, nearest, parse
from moldau.cli.output import RED, Output

INTERRUPTED = 130
TERMINATED = 143

HELP = Flag("--help -h", "Print this text.")
VERSION = Flag("--version", "Print the version.")
BOOTSTRAP = Flag(
    "--bootstrap-server",
    "The brokers to ask first, as host:port,host:port.",
    takes="HOST:PORT",
)
COMMAND_CONFIG = Flag(
    "--command-config", "A properties file with settings of the client.", takes="FILE"
)
NOTHING_IS_ASKED = "nothing is asked before it is done"
ONE_CONSUMER = "there is no other consumer"
JSON = Flag("--json", "Print the answer as one JSON document, a failure too.")
JSON_LINES = JSON._replace(help="Print a line of JSON for each answer.")


class Action(NamedTuple):
    """One of the things that a command does, where a flag says which."""

    flag: str
    """Without its dashes."""
    needs: tuple[str, ...] = ()
    allows: tuple[str, ...] | None = None
    """The flags that make sense with it; None if nothing is refused."""


def actions_of(
    names: Sequence[str],
    *,
    only_with: Mapping[str, Sequence[str]] | None = None,
    needs: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Action, ...]:
    """From tables as Kafka's tools have them: which actions a flag goes with, what each needs."""
    allowed: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    for flag, actions in (only_with or {}).items():
        for action in actions:
            allowed[action] += (flag,)
    return tuple(Action(name, tuple((needs or {}).get(name, ())), allowed[name]) for name in names)


class Tool(NamedTuple):
    name: str
    does: str
    flags: tuple[Flag, ...]
    main: Callable[[Given, Output], int | None]
    examples: tuple[str, ...] = ()
    notes: str = ""
    commands: tuple[Tool, ...] = ()
    """Sub-commands, each with flags and `main` of its own."""
    beside: tuple[Tool, ...] = ()
    """Commands beside what the tool does without a word: nothing of the tool's is theirs."""
    actions: tuple[Action, ...] = ()
    """Those of a command that is told by a flag what to do."""
    own_words: bool = False
    """`main` reads the words itself; the rows tell people and shells what there is."""
    answers_in_lines: bool = False
    """There is no end to the answers, or each is large: --json prints a line for each."""
    words_max: int = 0
    words_usage: str = ""
    fault_opening: str = ""
    """What Kafka's tool prints before the reason of a failure."""
    faults_on_stdout: bool = False
    """Some of Kafka's tools print the reason where their answers go."""
    needs_words: bool = True
    """Without any word the command prints its help, as Kafka's do."""

    def all_flags(self) -> tuple[Flag, ...]:
        return (*self.flags, *self.json_flags(), HELP, VERSION)

    def json_flags(self) -> tuple[Flag, ...]:
        """--json, unless a row of the command explains it better."""
        if any(flag.key == "json" for flag in self.flags):
            return ()
        return (JSON_LINES if self.answers_in_lines else JSON,)


class Terminated(KeyboardInterrupt):
    """SIGTERM: the command ends as by Ctrl-C, so that groups are left and records flushed."""


def _terminate(number: int, frame: object) -> None:
    raise Terminated


def run_tool(tool: Tool, words: Sequence[str], output: Output | None = None) -> int:
    for each in tool.beside:
        if list(words[:1]) == each.name.split()[-1:]:
            return run_tool(each, words[1:], output)
    out = output or Output()
    if not words and tool.needs_words:
        from moldau.cli.help import help_text

        print(help_text(tool, out.has_colours), end="", file=sys.stderr)
        return 1
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _terminate) if is_main else None
    try:
        code = _run(tool, words, out)
        out.flush()
        return code
    except Terminated:
        _abandon_stdout()
        return TERMINATED
    except KeyboardInterrupt:
        _abandon_stdout()
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read has seen enough; Java's tools do not call that a failure either.
        _abandon_stdout()
        return 0
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


def _run(tool: Tool, words: Sequence[str], out: Output) -> int:
    out.is_json = "--json" in words
    try:
        chosen, given = understand(tool, words)
        out.is_json = given.has("json")
        if given.has("help"):
            from moldau.cli.help import help_text

            out.is_json = False
            out.write(help_text(chosen, out.has_colours))
            return 0
        if given.has("version"):
            from moldau import __version__

            if out.is_json:
                out.json({"version": __version__})
            else:
                out.line(f"{__version__} (moldau)")
            return 0
        check_required(chosen.flags, given)
        code = chosen.main(given, out) or 0
        if out.is_json and not out.has_answered and not chosen.answers_in_lines:
            out.json({})
        say_unused(chosen, given, out)
        return code
    except UsageFault as fault:
        say_json(out, fault)
        out.remark(f"{fault.sentence}\nSee `moldau {tool.name} --help`.")
        return fault.code
    except CommandFault as fault:
        return say(tool, out, fault)


def say_unused(tool: Tool, given: Given, out: Output) -> None:
    """What was asked for and has changed nothing is told, beside the answer."""
    reasons = {flag.key: flag.no_effect for flag in tool.flags}
    for key in given.unused_keys():
        why = reasons.get(key) or "nothing on this line needs it"
        out.remark(f"--{key} has no effect: {why}.")


def understand(tool: Tool, words: Sequence[str]) -> tuple[Tool, Given]:
    """The tool or its sub-command, and what the words say to it."""
    if tool.own_words:
        return tool, untouched(tool, words)
    if not tool.commands:
        return tool, parse(tool.all_flags(), words, words_max=tool.words_max)
    commands = {command.name.split()[-1]: command for command in tool.commands}
    takers = {name for flag in tool.flags if flag.takes for name in flag.names.split()}
    free = [
        index
        for index, word in enumerate(words)
        if not word.startswith("-") and (index == 0 or words[index - 1] not in takers)
    ]
    for index in free:
        command = commands.get(words[index])
        if command is not None:
            merged = command._replace(flags=(*command.flags, *tool.flags))
            rest = [*words[:index], *words[index + 1 :]]
            given = parse(merged.all_flags(), rest, words_max=command.words_max)
            given.command = words[index]
            return merged, given
    if {"--help", "-h", "--version"} & set(words):
        return tool, parse(tool.all_flags(), words, words_max=len(words))
    hint = "."
    if free:
        hint = nearest(words[free[0]], ["--" + name for name in commands]).replace("--", "")
    raise UsageFault(f"{tool.name} needs one of the commands {', '.join(commands)}{hint}")


def untouched(tool: Tool, words: Sequence[str]) -> Given:
    """The words as they stand, for a command that reads them itself, but for what all take."""
    named = {name: flag for flag in tool.all_flags()[-3:] for name in flag.names.split()}
    given = Given(tool.all_flags())
    given.raw = [word for word in words if word not in named]
    for word in words:
        if word in named:
            given.put(named[word], True)
    return given


def say_json(out: Output, fault: CommandFault) -> None:
    """A failure is the answer, unless there is one already that tells of it."""
    if out.is_json and not out.has_answered:
        from moldau.cli.answers import fault as as_data

        out.json({"error": as_data(fault.sentence, fault.java)})
        out.flush()


def say(tool: Tool, out: Output, fault: CommandFault) -> int:
    say_json(out, fault)
    opening = tool.fault_opening if fault.opening is None else fault.opening
    text = (opening if fault.prefixed else "") + fault.sentence
    java = "" if out.is_terminal or fault.java in text else fault.java
    if fault.told and not out.is_json:
        out.line(out.paint(fault.told, RED))
        out.flush()
        if fault.java and not out.is_terminal:
            out.remark(fault.java)
    elif tool.faults_on_stdout and not out.is_json:
        out.line(out.paint(text, RED))
        if fault.java and not out.is_terminal:
            out.flush()
            out.remark(f"ERROR {fault.java}: {fault.sentence}")
    else:
        out.flush()
        out.remark(f"{text}\n{java}" if java else text)
    return fault.code


def _abandon_stdout() -> None:
    """Nobody reads any more: what is still buffered must not fail at the exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, sys.stdout.fileno())
    except (OSError, ValueError):
        pass
    finally:
        os.close(nothing)
