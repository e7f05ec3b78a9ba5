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
from collections.abc import Callable, Sequence
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
JSON = Flag("--json", "Print the answer as JSON.")


class Tool(NamedTuple):
    name: str
    does: str
    flags: tuple[Flag, ...]
    main: Callable[[Given, Output], int | None]
    examples: tuple[str, ...] = ()
    notes: str = ""
    commands: tuple[Tool, ...] = ()
    """Sub-commands, each with flags and `main` of its own."""
    words_max: int = 0
    words_usage: str = ""
    fault_opening: str = ""
    """What Kafka's tool prints before the reason of a failure."""
    faults_on_stdout: bool = False
    """Some of Kafka's tools print the reason where their answers go."""
    needs_words: bool = True
    """Without any word the command prints its help, as Kafka's do."""

    def all_flags(self) -> tuple[Flag, ...]:
        return (*self.flags, HELP, VERSION)


class Terminated(KeyboardInterrupt):
    """SIGTERM: the command ends as by Ctrl-C, so that groups are left and records flushed."""


def _terminate(number: int, frame: object) -> None:
    raise Terminated


def run_tool(tool: Tool, words: Sequence[str], output: Output | None = None) -> int:
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
    try:
        chosen, given = understand(tool, words)
        if given.has("help"):
            from moldau.cli.help import help_text

            out.write(help_text(chosen, out.has_colours))
            return 0
        if given.has("version"):
            from moldau import __version__

            out.line(f"{__version__} (moldau)")
            return 0
        check_required(chosen.flags, given)
        code = chosen.main(given, out) or 0
        say_unused(chosen, given, out)
        return code
    except UsageFault as fault:
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


def say(tool: Tool, out: Output, fault: CommandFault) -> int:
    opening = tool.fault_opening if fault.prefixed else ""
    text = opening + fault.sentence
    if tool.faults_on_stdout:
        out.line(out.paint(text, RED))
        if fault.java and not out.is_terminal:
            out.flush()
            out.remark(f"ERROR {fault.java}: {fault.sentence}")
    else:
        out.flush()
        out.remark(f"{text}\n{fault.java}" if fault.java and not out.is_terminal else text)
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
