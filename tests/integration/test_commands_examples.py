"""The examples with which every --help ends: each is run as it stands, against a broker.

The broker listens on another port than 9092, which is put in its place. What cannot be run here is
read at least: its flags exist, and the reason is in the table.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from moldau.cli.catalogue import COMMANDS
from moldau.cli.tool import Tool, understand
from moldau.main import main
from moldau.testing.broker_process import BrokerProcess

LOCAL = "localhost:9092"
TOOLS = [import_module(module).TOOL for module, _ in COMMANDS.values()]
EXAMPLES = [
    example
    for tool in TOOLS
    for each in (tool, *tool.commands, *tool.beside)
    for example in each.examples
]
ONLY_READ = {
    "server-start": "tried by tests of servers; it does not end",
    "server-stop": "it would stop what others run",
    "zookeeper-": "Apache ZooKeeper needs Java; tried by tests of ZooKeeper",
    "cluster start": "a cluster needs Java; tried by tests of local clusters",
    "cluster status": "as cluster start",
    "cluster stop": "as cluster start",
    "cluster unregister": "no broker without KRaft serves that",
    "delegation-tokens": "brokers give tokens to those who are logged in; tried by tests of tokens",
    "console ": "it does not end; tried by tests of the console",
    "pipeline query --checkpoint": "Spark is needed; tried by tests of pipelines",
    "run-class producer_consumer_demo": "it does not end; tried by tests of examples",
    "run-class exactly_once_demo": "tried by tests of examples",
    "console-consumer --bootstrap-server localhost:9092 --topic": "it does not end",
    "mirror": "two clusters are needed; tried by tests of mirroring",
    "sql": "tried by tests of sql",
    "jmx": "the address of the metrics is fixed in it; tried by tests of metrics",
    "leader-election": "a lone broker serves no elections",
    "preferred-replica-election": "a lone broker serves no elections",
    "doctor": "its exit code says how healthy the broker is",
    "transactions --bootstrap-server localhost:9092 abort": "there is nothing to abort",
    "storage adopt": "it names a folder of an installation of Apache Kafka",
    "backup --bootstrap-server localhost:9092 --target-dir /backups/prod --topics": "does not end",
    "log-scrub --log-dir data --repair": "the broker must be stopped; tried by tests of scrubbing",
    "topics --list --bootstrap-server localhost:9093": "a secured broker; tried by its tests",
    "fork": "tried by tests of snapshots",
    "security init --directory secured --host": "as the line before, in the same folder",
    "reassign-partitions --bootstrap-server localhost:9092 --generate": "needs other brokers",
    "restore --bootstrap-server localhost:9092 --source-dir /backups/prod": "topics are there",
}
FILES = {
    "orders.txt": "1:one\n2:two\n",
    "topics.json": '{"topics": [{"topic": "orders"}], "version": 1}',
    "plan.json": '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas":'
    " [0]}]}",
    "offsets.json": '{"partitions": [{"topic": "orders", "partition": 0, "offset": 0}],'
    ' "version": 1}',
}
BEFORE = {
    # What must be there, or must not be there, for an example to make sense.
    "--create --topic orders": "topics --delete --topic orders --if-exists",
    "--alter --topic orders --partitions 6": "topics --create --topic orders --if-not-exists",
    "'test-.*'": "topics --create --topic test-1",
    "put -t orders": "configs --alter --topic orders --add-config cleanup.policy=delete",
    "--delete-config retention.ms": "configs --alter --topic orders --add-config retention.ms=9000",
    "--describe --name all-java": "client-metrics --alter --name all-java --interval 60000",
    "--delete --group billing": "consumer-groups --reset-offsets --group billing --topic orders"
    " --to-earliest --execute",
    "--describe --group billing": "consumer-groups --reset-offsets --group billing --topic orders"
    " --to-earliest --execute",
    "__consumer_offsets-7": "consumer-groups --reset-offsets --group billing --topic orders"
    " --to-earliest --execute",
    "describe --transactional-id tx1": "producer-perf-test --topic orders --num-records 1"
    " --record-size 9 --throughput -1 --transactional-id tx1",
    "forceTerminateTransaction": "producer-perf-test --topic orders --num-records 1"
    " --record-size 9 --throughput -1 --transactional-id tx1",
    "snapshot delete": "snapshot create --name before-release",
    "snapshot describe": "snapshot create --name before-release",
    "snapshot verify": "snapshot create --name before-release",
    "verifiable-consumer": "verifiable-producer --topic numbers --max-messages 1000",
    "consumer-perf-test": "producer-perf-test --topic perf --num-records 1000 --record-size 1"
    " --throughput -1",
    "--topic streams-wordcount-output": "console-producer --topic streams-wordcount-output"
    " --reader-property parse.key=true",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "8",
        "transaction.state.log.num.partitions": "2",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with BrokerProcess(tmp_path_factory.mktemp("data"), overrides=settings) as process:
        yield process


@pytest.fixture(scope="module")
def folder(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the examples are run: with the files that they name."""
    folder = tmp_path_factory.mktemp("here")
    for name, content in FILES.items():
        (folder / name).write_text(content)
    (folder / "data").symlink_to(broker.data)
    words = ["topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "orders"]
    assert main(words) == 0
    return folder


def test_every_command_has_an_example() -> None:
    for tool in TOOLS:
        for each in (tool, *tool.commands, *tool.beside):
            assert each.examples, each.name


def test_every_reason_not_to_run_an_example_is_still_true() -> None:
    lines = [line.partition("moldau ")[2] for line in EXAMPLES]
    assert [each for each in ONLY_READ if not any(line.startswith(each) for line in lines)] == []


@pytest.mark.parametrize("example", dict.fromkeys(EXAMPLES))
def test_an_example_does_what_it_says(
    example: str,
    broker: BrokerProcess,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before, _, line = example.partition("moldau ")
    if not line or before.startswith("eval"):
        return  # a line of the shell
    line, _, after = line.partition(" | ")
    line, _, redirected = line.partition(" < ")
    name, *words = shlex.split(line)
    if any(line.startswith(each) for each in ONLY_READ):
        tool: Tool = import_module(COMMANDS[name][0]).TOOL
        if words[:1] not in [[each.name.split()[-1]] for each in tool.beside]:
            understand(tool, words)
        return
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MOLDAU_RUN_DIR", str(folder / "run"))
    for part, needed in BEFORE.items():
        if part in line:
            set_up(needed, broker, folder, monkeypatch)
    if before.endswith(" | "):
        redirected = "typed"
        (folder / "typed").write_text(before.removesuffix(" | ").partition("echo ")[2] + "\n")
    capsys.readouterr()
    assert run([name, *words], broker, redirected, monkeypatch) == 0, capsys.readouterr()
    assert "Traceback" not in capsys.readouterr().err
    assert after in ("", "source")


def set_up(line: str, broker: BrokerProcess, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, *words = line.split()
    (folder / "typed").write_text("kafka\t12345678\nhello\t12345678\n")
    run([name, "--bootstrap-server", LOCAL, *words], broker, "typed", monkeypatch)


def run(
    words: list[str], broker: BrokerProcess, stdin: str, monkeypatch: pytest.MonkeyPatch
) -> int:
    """With the broker's address for the usual one, folders of this test, and less to measure."""
    others = {LOCAL: broker.bootstrap, "/backups": "backups", "/tmp/": "", "00000": "00"}
    own = list(words)
    if own[0] in ("cat", "put") and LOCAL not in own:
        own[1:1] = ["-b", LOCAL]
    for usual, here in others.items():
        own = [
            word if word.endswith((".log", ".index")) else word.replace(usual, here) for word in own
        ]
    with open(stdin or os.devnull) as typed, monkeypatch.context() as patched:
        patched.setattr("sys.stdin", typed)
        return main(own)
