"""Moldau's commands print what Apache Kafka's own tools print about the same cluster.

Lines are compared as sets where Kafka's order is that of a hash map. Faults are compared by what
is on stdout and by the exit code, for Java's tools add a stack trace on stderr.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.conftest import Broker
from tests.compat.waiting import eventually
from tests.support.apache_kafka import run_tool

pytestmark = pytest.mark.compat

TOOLS = "org.apache.kafka.tools."
CLASSES = {
    "topics": TOOLS + "TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "consumer-groups": TOOLS + "consumer.group.ConsumerGroupCommand",
    "groups": TOOLS + "GroupsCommand",
    "console-consumer": TOOLS + "consumer.ConsoleConsumer",
    "get-offsets": TOOLS + "GetOffsetShell",
    "log-dirs": TOOLS + "LogDirsCommand",
    "delete-records": TOOLS + "DeleteRecordsCommand",
    "broker-api-versions": TOOLS + "BrokerApiVersionsCommand",
    "cluster": TOOLS + "ClusterTool",
    "features": TOOLS + "FeatureCommand",
    "leader-election": TOOLS + "LeaderElectionCommand",
    "reassign-partitions": TOOLS + "reassign.ReassignPartitionsCommand",
    "transactions": TOOLS + "TransactionsCommand",
    "dump-log": TOOLS + "DumpLogSegments",
}
SECONDS_MAX = 90
FORMATTED = ("key", "headers", "partition", "offset", "timestamp")
PRINTED = [word for name in FORMATTED for word in ("--formatter-property", f"print.{name}=true")]
GROUPS, LIVING = ("consumer-groups", "--describe"), ("--group", "living")
STATIC = "group.instance.id=static-one"
TOPIC, GROUP, MISSING = "compared", "comparing", "no-such"
COMMANDS: list[tuple[str, ...]] = [
    ("topics", "--describe", "--topic", TOPIC),
    ("topics", "--describe", "--topic", TOPIC, "--under-replicated-partitions"),
    ("topics", "--list", "--topic", "compar.*"),
    ("topics", "--describe", "--topic", MISSING),
    ("topics", "--delete", "--topic", MISSING),
    ("topics", "--create", "--topic", TOPIC),
    ("topics", "--alter", "--topic", TOPIC, "--partitions", "1"),
    ("configs", "--describe", "--topic", TOPIC),
    ("configs", "--describe", "--topic", TOPIC, "--all"),
    ("configs", "--describe", "--entity-type", "brokers", "--entity-name", "0"),
    ("configs", "--describe", "--topic", MISSING),
    ("consumer-groups", "--describe", "--group", GROUP),
    ("consumer-groups", "--describe", "--group", GROUP, "--members"),
    ("consumer-groups", "--describe", "--group", GROUP, "--state"),
    ("consumer-groups", "--describe", "--group", GROUP, "--verbose"),
    ("consumer-groups", "--list", "--state"),
    ("consumer-groups", "--describe", "--group", MISSING),
    *(
        ("consumer-groups", "--reset-offsets", "--group", GROUP, "--dry-run", *how)
        for how in (
            ("--all-topics", "--to-earliest"),
            ("--topic", f"{TOPIC}:0", "--shift-by", "-1"),
            ("--topic", TOPIC, "--to-datetime", "2020-01-01T00:00:00.000"),
            ("--topic", TOPIC, "--to-latest", "--export"),
        )
    ),
    ("groups", "--list"),
    (
        "console-consumer",
        "--topic",
        TOPIC,
        "--partition",
        "0",
        "--offset",
        "1",
        "--max-messages",
        "2",
    ),
    ("console-consumer", "--topic", TOPIC, "--from-beginning", "--max-messages", "8", *PRINTED),
    ("get-offsets", "--topic", TOPIC),
    ("get-offsets", "--topic", TOPIC, "--time", "earliest"),
    ("get-offsets", "--topic", TOPIC, "--time", "max-timestamp"),
    ("get-offsets", "--topic", MISSING),
    ("log-dirs", "--describe", "--topic-list", MISSING),
    ("log-dirs", "--describe", "--broker-list", "77"),
    ("broker-api-versions",),
    ("cluster", "cluster-id"),
    ("cluster", "list-endpoints"),
    ("features", "describe"),
    ("leader-election", "--election-type", "preferred", "--topic", TOPIC, "--partition", "0"),
    ("leader-election", "--election-type", "preferred", "--all-topic-partitions"),
    ("reassign-partitions", "--list"),
    ("transactions", "list"),
    ("transactions", "describe-producers", "--topic", TOPIC, "--partition", "0"),
    ("transactions", "find-hanging", "--topic", TOPIC, "--partition", "0"),
]

OURS_FAIL = {
    ("configs", "--describe", "--topic", MISSING),
    ("consumer-groups", "--describe", "--group", MISSING),
}
"""The same text, but Kafka's tool ends with 0, and a script goes on as if all were well."""

Outcome = tuple[int, list[str]]


def moldau(*words: str, stdin: str = "") -> Outcome:
    command = [sys.executable, "-m", "moldau.main", *words]
    ran = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert "Traceback" not in ran.stderr
    return ran.returncode, sorted(ran.stdout.splitlines())


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Outcome]:
    scratch = tmp_path_factory.mktemp("java")

    def run(tool: str, *words: str) -> Outcome:
        ran = run_tool(CLASSES[tool], *words, scratch=scratch, seconds_max=SECONDS_MAX)
        return ran.returncode, sorted(ran.stdout.splitlines())

    return run


@pytest.fixture(scope="module")
def cluster(broker: Broker) -> Broker:
    """Two partitions with two records each, an override, and a group behind by some of them."""
    at = ("--bootstrap-server", broker.bootstrap)
    topic = ("--topic", TOPIC)
    made = ("--partitions", "2", "--config", "retention.ms=86400000")
    assert moldau("topics", *at, "--create", *topic, *made)[0] == 0
    parsed = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    keys = ("a", "b", "c", "d", "e", "f", "g", "h")
    lines = "".join(f"h:{key}\t{key}\tvalue of {key}\n" for key in keys)
    assert moldau("console-producer", *at, *topic, *parsed, stdin=lines)[0] == 0
    chosen = ("--group", GROUP, *topic, "--to-offset", "1", "--execute")
    assert moldau("consumer-groups", *at, "--reset-offsets", *chosen)[0] == 0
    return broker


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_prints_what_kafkas_tool_prints(
    cluster: Broker, java: Callable[..., Outcome], words: tuple[str, ...]
) -> None:
    tool, *rest = words
    at = ("--bootstrap-server", cluster.bootstrap)
    line = (*rest, *at) if tool == "cluster" else (*at, *rest)

    code, lines = java(tool, *line)
    assert moldau(tool, *line) == (1 if words in OURS_FAIL else code, lines)


@pytest.mark.parametrize("more", [(), ("--members",), ("--members", "--verbose"), ("--state",)])
def test_a_group_with_members_looks_the_same(
    cluster: Broker, java: Callable[..., Outcome], more: tuple[str, ...]
) -> None:
    at = ("--bootstrap-server", cluster.bootstrap)
    words = ("console-consumer", *at, "--topic", TOPIC, "--group", "living", "--from-beginning")
    command = [sys.executable, "-m", "moldau.main", *words, "--command-property", STATIC]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as member:
        assert member.stdout is not None
        if not more:
            assert member.stdout.readline()
        eventually(lambda: "Stable" in str(moldau(*GROUPS, *at, "--state", *LIVING)))
        line = (*at, "--describe", *LIVING, *more)
        outcomes = moldau(GROUPS[0], *line), java(GROUPS[0], *line)
        member.terminate()

    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    "pattern", [f"{TOPIC}-*/*.log", f"{TOPIC}-*/*.index", f"{TOPIC}-*/*.timeindex"]
)
def test_files_are_dumped_as_kafkas_tool_dumps_them(
    cluster: Broker, java: Callable[..., Outcome], pattern: str
) -> None:
    if cluster.data is None:
        pytest.skip("the broker's files are not here")
    files = ",".join(str(path) for path in sorted(Path(cluster.data).glob(pattern)))
    words = ("dump-log", "--print-data-log", "--files", files)

    assert moldau(*words) == java(*words)


@pytest.mark.parametrize(
    ("topic", "decoder"),
    [
        ("__consumer_offsets", "--offsets-decoder"),
        ("__transaction_state", "--transaction-log-decoder"),
    ],
)
def test_internal_topics_are_decoded_as_kafkas_tool_decodes_them(
    cluster: Broker, java: Callable[..., Outcome], topic: str, decoder: str
) -> None:
    if cluster.data is None:
        pytest.skip("the broker's files are not here")
    at = ("--bootstrap-server", cluster.bootstrap)
    words = ("--num-records", "20", "--record-size", "10", "--throughput", "-1")
    sent = moldau("producer-perf-test", *at, "--topic", TOPIC, *words, "--transactional-id", "x")
    assert sent[0] == 0
    logs = [path for path in Path(cluster.data).glob(f"{topic}-*/*.log") if path.stat().st_size]
    assert logs
    dump = ("dump-log", decoder, "--files", ",".join(str(path) for path in sorted(logs)))

    assert moldau(*dump) == java(*dump)
