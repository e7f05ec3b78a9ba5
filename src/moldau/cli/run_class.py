"""`moldau run-class`: runs a tool or a demo by the name of its Java class, or any Python class.

`kafka-run-class.sh kafka.tools.GetOffsetShell ...` in a runbook goes on working; other names are
dotted paths of Python modules with a `main`, found on the path, in this folder or in examples/.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from moldau.cli.command_faults import CommandFault
from moldau.cli.flags import Given
from moldau.cli.output import Output
from moldau.cli.tool import JSON, Tool, run_tool

CLASSES = {
    "TopicCommand": "topics",
    "ConfigCommand": "configs",
    "ClientMetricsCommand": "client-metrics",
    "AclCommand": "acls",
    "DelegationTokenCommand": "delegation-tokens",
    "ConsoleProducer": "console-producer",
    "ConsoleConsumer": "console-consumer",
    "ConsumerGroupCommand": "consumer-groups",
    "GroupsCommand": "groups",
    "GetOffsetShell": "get-offsets",
    "DeleteRecordsCommand": "delete-records",
    "LogDirsCommand": "log-dirs",
    "DumpLogSegments": "dump-log",
    "BrokerApiVersionsCommand": "broker-api-versions",
    "ClusterTool": "cluster",
    "FeatureCommand": "features",
    "TransactionsCommand": "transactions",
    "JmxTool": "jmx",
    "VerifiableProducer": "verifiable-producer",
    "VerifiableConsumer": "verifiable-consumer",
    "ProducerPerformance": "producer-perf-test",
    "ConsumerPerformance": "consumer-perf-test",
    "EndToEndLatency": "e2e-latency",
    "LeaderElectionCommand": "leader-election",
    "PreferredReplicaLeaderElectionCommand": "preferred-replica-election",
    "ReassignPartitionsCommand": "reassign-partitions",
    "ZkSecurityMigrator": "zookeeper-security-migration",
    "Kafka": "server-start",
    "KafkaConsumerProducerDemo": "producer_consumer_demo",
    "KafkaExactlyOnceDemo": "exactly_once_demo",
    "WordCountDemo": "pipelines.wordcount",
    "WordCount": "pipelines.wordcount",
}
EXAMPLES = Path(__file__).parents[3] / "examples"


def run(arguments: Sequence[str]) -> int:
    name, *rest = arguments or [""]
    meant = CLASSES.get(name.rpartition(".")[2], name)
    from moldau.cli.catalogue import COMMANDS

    if meant in COMMANDS:
        code: int = import_module(COMMANDS[meant][0]).run(rest)
        return code
    # What follows the name belongs to what is run; only its faults are told here.
    own = [name] if "--json" not in rest else [name, "--json"]
    return run_tool(TOOL._replace(main=partial(main, meant, rest)), own if name else ())


def main(meant: str, rest: list[str], given: Given, out: Output) -> int:
    sys.path[:0] = ["", str(EXAMPLES)]
    found = main_of(meant)
    if found is None:
        name = given.raw[0]
        raise CommandFault(f"{name} is neither a tool nor a Python module with a function main")
    from moldau.cli.command_clients import client_faults

    with client_faults():
        outcome = found(rest)
    out.has_answered = True
    return outcome if isinstance(outcome, int) else 0


def main_of(name: str) -> Callable[[list[str]], object] | None:
    """The function `main` of a module, or the class or function that a dotted path ends in."""
    module_name, _, last = name.rpartition(".")
    for module, attribute in ((name, "main"), (module_name, last)):
        try:
            is_there = bool(module) and find_spec(module) is not None
        except (ImportError, ValueError):
            is_there = False
        if is_there:
            found = getattr(import_module(module), attribute, None)
            if found is not None:
                main: Callable[[list[str]], object] = getattr(found, "main", found)
                return main
    return None


def nothing(given: Given, out: Output) -> None:
    """`run` finds what is to be run."""


TOOL = Tool(
    name="run-class",
    does="Runs a tool by the name of its Java class (kafka.tools.GetOffsetShell), or a Python"
    " module with a function main(arguments), as those in examples/. All further words go to it.",
    flags=(JSON._replace(help="Goes to what is run, as all words after the name."),),
    main=nothing,
    own_words=True,
    words_usage="NAME [arguments ...]",
    fault_opening="moldau run-class: ",
    examples=(
        "moldau run-class kafka.tools.GetOffsetShell --bootstrap-server localhost:9092"
        " --topic orders",
        "moldau run-class producer_consumer_demo sync",
        "moldau run-class exactly_once_demo 6 3 50000",
    ),
)
