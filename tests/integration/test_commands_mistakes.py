"""Every command's mistakes: one clear sentence and Kafka's exit code, never a traceback.

The commands run in this process against one real broker, an address where nobody listens, files
that are not JSON, and a reader that has gone. The stop commands are not run here: they are about
processes, and MOLDAU_RUN_DIR keeps everything else away from brokers of others.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.cli.catalogue import COMMANDS
from moldau.main import main
from moldau.testing.broker_process import BrokerProcess, free_port

PERF = "--num-records 1 --record-size 1 --throughput -1"
LINES = {
    # A line that makes sense for each command that asks a cluster.
    "topics": "--list",
    "configs": "--describe --topic t",
    "console-producer": "--topic t --max-block-ms 50",
    "console-consumer": "--topic t --timeout-ms 100",
    "cat": "--topic t",
    "top": "",
    "put": "--topic t",
    "consumer-groups": "--list",
    "get-offsets": "--topic t",
    "delete-records": "--offset-json-file {good}",
    "log-dirs": "--describe",
    "groups": "--list",
    "transactions": "list",
    "verifiable-producer": "--topic t --max-messages 1",
    "verifiable-consumer": "--topic t --group-id g --max-messages 1",
    "producer-perf-test": f"--topic t {PERF}",
    "consumer-perf-test": "--topic t --num-records 1 --timeout 100",
    "e2e-latency": "--topic t --num-records 1 --producer-acks all --record-size 8",
    "reassign-partitions": "--list",
    "preferred-replica-election": "",
    "leader-election": "--election-type preferred --all-topic-partitions",
    "broker-api-versions": "",
    "cluster": "cluster-id",
    "features": "describe",
    "acls": "--list",
    "delegation-tokens": "--describe --command-config {empty}",
    "client-metrics": "--list",
    "snapshot": "list",
    "fork": "--dir {fork}",
    "sql": "select(1)",
    "backup": "--target-dir {backup} --snapshot",
}
ELSEWHERE = {
    # They ask no cluster, or are tried where they belong.
    "console",
    "jmx",
    "init",
    "server-start",
    "server-stop",
    "zookeeper-server-start",
    "zookeeper-server-stop",
    "zookeeper-server-status",
    "zookeeper-shell",
    "zookeeper-security-migration",
    "dump-log",
    "log-scrub",
    "storage",
    "run-class",
    "completion",
    "doctor",
    "pipeline",
    "restore",
    "security",
    "mirror",
}
WITH_JSON_FILE = {
    "delete-records": "--offset-json-file {file}",
    "leader-election": "--election-type preferred --path-to-json-file {file}",
    "preferred-replica-election": "--path-to-json-file {file}",
    "reassign-partitions --execute": "--execute --reassignment-json-file {file}",
    "reassign-partitions --verify": "--verify --reassignment-json-file {file}",
    "reassign-partitions --generate": (
        "--generate --broker-list 0 --topics-to-move-json-file {file}"
    ),
}
MISSING_TOPIC = [
    ("topics", "--describe --topic no-such", 1, "Topic 'no-such' does not exist as expected"),
    ("topics", "--delete --topic no-such", 1, "Topic 'no-such' does not exist as expected"),
    ("topics", "--alter --partitions 2 --topic no-such", 1, "Topic 'no-such' does not exist"),
    ("get-offsets", "--topic no-such", 1, "Could not match any topic-partitions"),
    ("configs", "--describe --topic no-such", 1, "The topic 'no-such' doesn't exist"),
    ("consumer-groups", "--describe --group no-such", 1, "no-such"),
]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLDAU_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("MOLDAU_BOOTSTRAP_SERVER", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("mistakes")) as process:
        yield process


class Said:
    def __init__(self, capsys: pytest.CaptureFixture[str], name: str, *words: str) -> None:
        self.code = main([name, *words])
        said = capsys.readouterr()
        self.stdout, self.stderr = said.out, said.err
        self.text = said.out + said.err
        assert "Traceback" not in self.text


def line_of(name: str, directory: Path) -> str:
    good, empty = directory / "good.json", directory / "empty.properties"
    good.write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": 0}]}')
    empty.write_text("")
    return LINES[name].format(
        good=good, empty=empty, fork=directory / "fork", backup=directory / "backup"
    )


def at(address: str, name: str, words: str) -> list[str]:
    return [*words.split(), "--bootstrap-server", address]


def test_every_command_is_in_the_table() -> None:
    assert COMMANDS.keys() <= LINES.keys() | ELSEWHERE


@pytest.mark.parametrize("name", [*LINES, "dump-log"])
def test_a_wrong_flag_is_one_sentence(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = LINES.get(name, "").split()[:1]
    said = Said(capsys, name, *(w for w in command if w[0] != "-"), "--bootstrap-servr", "x")
    assert said.code == 1
    assert said.stdout == ""
    assert "--bootstrap-servr is not a recognized option" in said.stderr
    assert said.stderr.endswith(f"See `moldau {name} --help`.\n")
    assert len(said.stderr.splitlines()) == 2


@pytest.mark.parametrize("name", LINES)
def test_an_unreachable_broker_is_one_sentence(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("moldau.cli.command_clients.REACH_MS", 50)
    address = f"127.0.0.1:{free_port()}"
    said = Said(capsys, name, *at(address, name, line_of(name, tmp_path)))
    assert said.code == 1
    assert f"Connection to {address} could not be established" in said.text


@pytest.mark.parametrize("address", ["nowhere", "host:port", "127.0.0.1:99999"])
@pytest.mark.parametrize("name", LINES)
def test_an_address_that_is_none_is_named(
    name: str, address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = Said(capsys, name, *at(address, name, line_of(name, tmp_path)))
    assert said.code == 1
    assert f"Invalid url in bootstrap.servers: {address} is not host:port" in said.text


@pytest.mark.parametrize("content", ["{", "[]", '{"partitions": [{}]}', '{"partitions": 1}', None])
@pytest.mark.parametrize("case", WITH_JSON_FILE)
def test_a_bad_json_file_is_one_sentence(
    case: str,
    content: str | None,
    broker: BrokerProcess,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "plan.json"
    if content is not None:
        file.write_text(content)
    name = case.split()[0]
    said = Said(capsys, name, *at(broker.bootstrap, name, WITH_JSON_FILE[case].format(file=file)))
    assert said.code == 1
    if content in ("{", None):
        assert str(file) in said.text


@pytest.mark.parametrize(("name", "words", "code", "sentence"), MISSING_TOPIC)
def test_what_is_missing_is_named(
    name: str,
    words: str,
    code: int,
    sentence: str,
    broker: BrokerProcess,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = Said(capsys, name, *at(broker.bootstrap, name, words))
    assert said.code == code
    assert sentence in said.text


class GoneReader(io.StringIO):
    """Where nobody reads any more: `| head -1` has seen its line."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


class Interrupted(GoneReader):
    """Ctrl-C comes while something is printed."""

    def write(self, text: str) -> int:
        raise KeyboardInterrupt


PRINTING = ("topics", "log-dirs", "broker-api-versions", "cluster", "features", "transactions")


@pytest.mark.parametrize(("stream", "code"), [(GoneReader, 0), (Interrupted, 130)])
@pytest.mark.parametrize("name", PRINTING)
def test_a_closed_pipe_and_ctrl_c_are_quiet(
    name: str,
    stream: type[io.StringIO],
    code: int,
    broker: BrokerProcess,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", stream())
        found = main([name, *at(broker.bootstrap, name, LINES[name])])
    assert found == code
    assert capsys.readouterr().err == ""
