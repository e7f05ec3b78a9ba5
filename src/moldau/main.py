"""The command `moldau`: finds the named command and runs it.

Only the chosen command's module is imported, because the start of a broker is a feature.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

COMMANDS = {
    "server-start": ("moldau.cli.server_start", "start a broker"),
    "server-stop": ("moldau.cli.server_stop", "stop the brokers that run on this machine"),
    "topics": ("moldau.cli.topics", "create, list, describe, alter and delete topics"),
    "configs": ("moldau.cli.configs", "show and change settings of topics, brokers and groups"),
    "console-producer": ("moldau.cli.console_producer", "send lines as records"),
    "console-consumer": ("moldau.cli.console_consumer", "print records as they arrive"),
    "consumer-groups": ("moldau.cli.consumer_groups", "show lag, reset and delete groups"),
    "get-offsets": ("moldau.cli.get_offsets", "show offsets of partitions"),
    "delete-records": ("moldau.cli.delete_records", "cut the beginning off partitions"),
    "log-dirs": ("moldau.cli.log_dirs", "show the size of partitions on disk"),
    "dump-log": ("moldau.cli.dump_log", "show what is in the files of a log"),
    "groups": ("moldau.cli.groups", "list groups of all kinds"),
    "transactions": ("moldau.cli.transactions", "look at transactions, end hanging ones"),
    "verifiable-producer": ("moldau.cli.verifiable_producer", "send numbers, report each"),
    "verifiable-consumer": ("moldau.cli.verifiable_consumer", "read in a group, report all"),
    "producer-perf-test": ("moldau.cli.producer_perf_test", "measure producing"),
    "consumer-perf-test": ("moldau.cli.consumer_perf_test", "measure consuming"),
    "e2e-latency": ("moldau.cli.e2e_latency", "measure latency from end to end"),
    "leader-election": ("moldau.cli.leader_election", "let replicas lead again"),
    "broker-api-versions": ("moldau.cli.broker_api_versions", "show what brokers serve"),
    "cluster": ("moldau.cli.cluster", "show the cluster's id and brokers"),
    "features": ("moldau.cli.features", "show which features are in force"),
}
"""Every command: its module, which has `run(arguments) -> exit code`, and what it does."""

HELP = """\
Moldau is the event streaming platform for people who live in Python: a broker
that every Kafka client can use.

usage: moldau <command> [arguments]
       moldau <command> --help
       moldau --version

commands:
{commands}

first steps:
  moldau server-start          a broker on 127.0.0.1:9092, data in ./data
  Ctrl-C                       stops it; nothing is lost
Point any Kafka client at bootstrap server 127.0.0.1:9092: topics are made on
first use. A broker of your own is `moldau server-start my.properties`, with
the settings you know from Apache Kafka's server.properties.
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
    code: int = import_module(command[0]).run(words[1:])
    return code


def help_text() -> str:
    rows = "\n".join(f"  {name:<22} {sentence}" for name, (_, sentence) in COMMANDS.items())
    return HELP.format(commands=rows)


def unknown(word: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word.removeprefix("kafka-").removesuffix(".sh"), COMMANDS, n=1)
    hint = f"did you mean `moldau {close[0]}`?" if close else "`moldau --help` lists the commands."
    return f"moldau: there is no command {word!r}; {hint}"


if __name__ == "__main__":
    sys.exit(main())
