"""The command `moldau`: finds the named command and runs it.

Only the chosen command's module is imported, because the start of a broker is a feature.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from moldau.cli.catalogue import COMMANDS

HELP = """\
Moldau is the event streaming platform for people who live in Python: a broker
that every Kafka client can use.

usage: moldau <command> [arguments]
       moldau <command> --help
       moldau --version

first steps:
  moldau server-start -daemon               a broker on localhost:9092, data in ./data
  echo hello | moldau put -t greetings      a record
  moldau cat -t greetings -e                all records
  moldau top -b localhost:9092              what goes on there; q ends it
  moldau server-stop                        ends the broker; nothing is lost
Point any Kafka client at bootstrap server localhost:9092: topics are made on
first use. A broker of your own is `moldau server-start my.properties`, with
the settings you know from Apache Kafka's server.properties.

commands:
{commands}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("--help", "-h", "help"):
        print(help_text(), end="", file=sys.stdout if words else sys.stderr)
        return 0 if words else 1
    if words[0] in ("--version", "-V", "version"):
        from moldau import __version__

        print(f"moldau {__version__}")
        return 0
    command = COMMANDS.get(words[0])
    if command is None:
        print(unknown(words[0]), file=sys.stderr)
        return 1
    if os.getpid() == 1:
        from moldau.cli.servers.first_process import stand_before

        stand_before()
    code: int = import_module(command[0]).run(words[1:])
    return code


def help_text() -> str:
    rows = "\n".join(f"  {name:<27} {sentence}" for name, (_, sentence) in COMMANDS.items())
    return HELP.format(commands=rows)


def unknown(word: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word.removeprefix("kafka-").removesuffix(".sh"), COMMANDS, n=1)
    hint = f"did you mean `moldau {close[0]}`?" if close else "`moldau --help` lists the commands."
    return f"moldau: there is no command {word!r}; {hint}"


if __name__ == "__main__":
    sys.exit(main())
