"""Every command and action answers as data: `--json` prints one JSON document and nothing else.

The table has a row for each action that there is, found from the commands' own rows; a new one
without a row here fails. All run in this process against one broker.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moldau.cli.answers import camel
from moldau.cli.catalogue import COMMANDS
from moldau.cli.tool import Tool
from moldau.main import main
from moldau.testing import LocalBroker
from moldau.testing.broker_process import BrokerProcess, free_port

KEY = re.compile(r"[a-z][a-zA-Z0-9]*")
NAMED_BY_DATA = {"configs", "metrics", "current", "proposed", "previous"}
"""Below these, keys are names of settings and metrics, or those of a plan's file."""
AT = "--bootstrap-server {at}"
PERF = "--num-records 2 --record-size 9 --throughput -1"
FILES = {
    "offsets.json": '{"partitions": [{"topic": "cut", "partition": 0, "offset": 1}], "version": 1}',
    "move.json": '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas":'
    " [0]}]}",
    "topics.json": '{"topics": [{"topic": "orders"}], "version": 1}',
    "empty.properties": "",
    "sasl.properties": "security.protocol=PLAINTEXT\n",
}


class Row(NamedTuple):
    line: str
    keys: str = ""
    """That the document has, or each row of it; nothing for a document that may be empty."""
    code: int = 0
    stdin: str = ""
    lines: bool = False
    before: str = ""
    """A line that must have been run."""


REFUSED = "error"
TABLE = {
    "init": Row("init {dir}/started", "directory made kept"),
    "server-start": Row("server-start {dir}/no.properties", REFUSED, 1),
    "server-stop": Row("server-stop", REFUSED, 1),
    "zookeeper-server-start": Row("zookeeper-server-start {dir}/no.cfg", REFUSED, 1),
    "zookeeper-server-stop": Row("zookeeper-server-stop --now", REFUSED, 1),
    "zookeeper-server-status": Row(
        "zookeeper-server-status {dir}/no.cfg", "config host port mode error", 1
    ),
    "zookeeper-security-migration": Row(
        "zookeeper-security-migration --zookeeper.acl secure", REFUSED, 1
    ),
    "zookeeper-shell": Row("zookeeper-shell nowhere ls /", REFUSED, 1),
    "topics --create": Row(f"topics {AT} --create --topic made.here", "created"),
    "topics --list": Row(f"topics {AT} --list"),
    "topics --describe": Row(
        f"topics {AT} --describe --topic orders", "topic topicId configs partitions"
    ),
    "topics --alter": Row(
        f"topics {AT} --alter --topic grows --partitions 3",
        "altered partitions",
        before=f"topics {AT} --create --topic grows",
    ),
    "topics --delete": Row(
        f"topics {AT} --delete --topic gone",
        "deleted",
        before=f"topics {AT} --create --topic gone",
    ),
    "configs --describe": Row(
        f"configs {AT} --describe --topic orders", "entityType entityName configs"
    ),
    "configs --alter": Row(
        f"configs {AT} --alter --topic orders --add-config retention.ms=1000000",
        "entities set deleted",
    ),
    "client-metrics --alter": Row(
        f"client-metrics {AT} --alter --name all --interval 1000", "altered set"
    ),
    "client-metrics --delete": Row(f"client-metrics {AT} --delete --name none", "deleted"),
    "client-metrics --describe": Row(f"client-metrics {AT} --describe"),
    "client-metrics --list": Row(f"client-metrics {AT} --list"),
    "acls --list": Row(f"acls {AT} --list", "principal operation permissionType"),
    "acls --add": Row(
        f"acls {AT} --add --allow-principal User:a --operation Read --topic new", "added existing"
    ),
    "acls --remove": Row(
        f"acls {AT} --remove --force --topic old",
        "removed",
        before=f"acls {AT} --add --allow-principal User:a --operation Read --topic old",
    ),
    **{
        f"delegation-tokens --{action}": Row(
            f"delegation-tokens {AT} --command-config {{dir}}/sasl.properties --{action}{more}",
            REFUSED,
            1,
        )
        for action, more in (
            ("create", " --max-life-time-period -1"),
            ("renew", " --hmac aGk= --renew-time-period -1"),
            ("expire", " --hmac aGk= --expiry-time-period -1"),
            ("describe", ""),
        )
    },
    "console-producer": Row(
        f"console-producer {AT} --topic typed", "topic sent failed error", stdin="a\nb\n"
    ),
    "console-consumer": Row(
        f"console-consumer {AT} --topic orders --from-beginning --max-messages 2",
        "topic partition offset key value",
        lines=True,
    ),
    "cat": Row(f"cat {AT} --topic orders -e", "topic partition offset key value", lines=True),
    "put": Row(f"put {AT} --topic typed -K :", "topic sent failed error", stdin="a:b\nc\n"),
    "consumer-groups --list": Row(f"consumer-groups {AT} --list", "group"),
    "consumer-groups --describe": Row(
        f"consumer-groups {AT} --describe --group billing",
        "group topic partition currentOffset logEndOffset lag consumerId host clientId",
    ),
    "consumer-groups --delete": Row(
        f"consumer-groups {AT} --delete --group leaving",
        "deleted failed",
        before=f"consumer-groups {AT} --reset-offsets --group leaving --topic orders --to-earliest"
        " --execute",
    ),
    "consumer-groups --reset-offsets": Row(
        f"consumer-groups {AT} --reset-offsets --group billing --topic orders --to-latest"
        " --dry-run",
        "executed offsets failed",
    ),
    "consumer-groups --delete-offsets": Row(
        f"consumer-groups {AT} --delete-offsets --group forgets --topic orders",
        "group offsets",
        before=f"consumer-groups {AT} --reset-offsets --group forgets --topic orders --to-earliest"
        " --execute",
    ),
    "consumer-groups --validate-regex": Row(
        f"consumer-groups {AT} --validate-regex a.*", "regex valid"
    ),
    "get-offsets": Row(f"get-offsets {AT} --topic orders", "topic partition offset"),
    "delete-records": Row(
        f"delete-records {AT} --offset-json-file {{dir}}/offsets.json",
        "topic partition lowWatermark",
        before=f"producer-perf-test {AT} --topic cut {PERF}",
    ),
    "log-dirs --describe": Row(f"log-dirs {AT} --describe", "brokers version"),
    "dump-log": Row("dump-log --files {log} --print-data-log", "file kind", lines=True),
    "log-scrub": Row("log-scrub --log-dir {data} --closed-only", "files bytes damaged"),
    "storage adopt": Row("storage adopt --log-dir {dir}/none", REFUSED, 1),
    "security init": Row(
        "security init --directory {dir}/secured --host localhost",
        "bootstrapServers securityProtocol serverProperties logDir users files",
    ),
    "groups --list": Row(f"groups {AT} --list", "group type protocol"),
    "transactions list": Row(
        f"transactions {AT} list",
        "transactionalId coordinator producerId transactionState",
        before=f"producer-perf-test {AT} --topic orders {PERF} --transactional-id tx",
    ),
    "transactions describe": Row(
        f"transactions {AT} describe --transactional-id tx2",
        "coordinatorId transactionalId currentTransactionStartTimeMs topicPartitions",
        before=f"producer-perf-test {AT} --topic orders {PERF} --transactional-id tx2",
    ),
    "transactions describe-producers": Row(
        f"transactions {AT} describe-producers --topic orders --partition 0"
    ),
    "transactions find-hanging": Row(f"transactions {AT} find-hanging --topic orders"),
    "transactions abort": Row(
        f"transactions {AT} abort --topic orders --partition 0 --start-offset 77", REFUSED, 1
    ),
    "transactions forceTerminateTransaction": Row(
        f"transactions {AT} forceTerminateTransaction --transactionalId tx3",
        "terminated",
        before=f"producer-perf-test {AT} --topic orders {PERF} --transactional-id tx3",
    ),
    "verifiable-producer": Row(
        f"verifiable-producer {AT} --topic numbers --max-messages 2", "timestamp name", lines=True
    ),
    "verifiable-consumer": Row(
        f"verifiable-consumer {AT} --topic orders --group-id verifying --max-messages 2",
        "timestamp name",
        lines=True,
    ),
    "producer-perf-test": Row(
        f"producer-perf-test {AT} --topic perf {PERF} --print-metrics",
        "records failed recordsPerSecond mibPerSecond latencyAvgMs latencyP999Ms metrics",
    ),
    "consumer-perf-test": Row(
        f"consumer-perf-test {AT} --topic orders --num-records 2",
        "records mib recordsPerSecond rebalanceMs fetchMs",
    ),
    "e2e-latency": Row(
        f"e2e-latency {AT} --topic slow --num-records 2 --producer-acks all --record-size 9",
        "avgMs p50Ms p99Ms p999Ms",
    ),
    "reassign-partitions --generate": Row(
        f"reassign-partitions {AT} --generate --topics-to-move-json-file {{dir}}/topics.json"
        " --broker-list 0",
        "current proposed",
    ),
    "reassign-partitions --execute": Row(
        f"reassign-partitions {AT} --execute --reassignment-json-file {{dir}}/move.json",
        "previous started moves",
    ),
    "reassign-partitions --verify": Row(
        f"reassign-partitions {AT} --verify --reassignment-json-file {{dir}}/move.json",
        "partitions moves throttlesCleared",
    ),
    "reassign-partitions --cancel": Row(
        f"reassign-partitions {AT} --cancel --reassignment-json-file {{dir}}/move.json",
        "cancelled moves throttlesCleared",
    ),
    "reassign-partitions --list": Row(f"reassign-partitions {AT} --list"),
    "preferred-replica-election": Row(
        f"preferred-replica-election {AT}", "elected notNeeded failed"
    ),
    "leader-election": Row(
        f"leader-election {AT} --election-type preferred --all-topic-partitions",
        "elected notNeeded failed",
    ),
    "broker-api-versions": Row(f"broker-api-versions {AT}", "id host port apis"),
    "cluster cluster-id": Row(f"cluster {AT} cluster-id", "clusterId"),
    "cluster list-endpoints": Row(f"cluster {AT} list-endpoints", "id host port rack"),
    "cluster unregister": Row(f"cluster {AT} unregister --id 7", REFUSED, 1),
    "cluster start": Row("cluster start --dir {dir}/local --brokers 0", REFUSED, 1),
    "cluster status": Row("cluster status --dir {dir}/local", REFUSED, 1),
    "cluster stop": Row("cluster stop --dir {dir}/local", REFUSED, 1),
    "console": Row(f"console {AT} --host 0.0.0.0", REFUSED, 1),
    "doctor": Row(f"doctor {AT}", "bootstrap clusterId reached checked unchecked findings", -1),
    "top": Row(f"top {AT} --interval 0.1", "clusterId brokers topics groups requests"),
    "features describe": Row(f"features {AT} describe", "feature finalizedVersionLevel"),
    "features upgrade": Row(
        f"features {AT} upgrade --feature group.version=99 --dry-run", "feature level error", 1
    ),
    "features downgrade": Row(
        f"features {AT} downgrade --feature transaction.version=2 --dry-run",
        "feature level dryRun error",
        -1,
    ),
    "features disable": Row(
        f"features {AT} disable --feature nothing.version --dry-run", "feature level error", 1
    ),
    "snapshot create": Row(f"snapshot {AT} create --name one", "name createdMs sizeBytes nodeId"),
    "snapshot list": Row(f"snapshot {AT} list", "snapshots"),
    "snapshot describe": Row(
        f"snapshot {AT} describe --name two",
        "name created directories",
        before=f"snapshot {AT} create --name two",
    ),
    "snapshot verify": Row(
        f"snapshot {AT} verify --name three",
        "name partitions faults",
        before=f"snapshot {AT} create --name three",
    ),
    "snapshot delete": Row(
        f"snapshot {AT} delete --name four",
        "deleted",
        before=f"snapshot {AT} create --name four",
    ),
    "fork": Row(
        f"fork {AT} --dir {{dir}}/forked --open --no-start",
        "directory settings bootstrap sizeBytes",
    ),
    "backup": Row(
        f"backup {AT} --target-dir {{dir}}/kept --topics orders --snapshot",
        "moment time exact newRecords newBytes",
    ),
    "backup verify": Row("backup verify {dir}/no-backup", "moments files faults directory", 3),
    "backup list": Row("backup list {dir}/no-backup", REFUSED, 1),
    "backup parquet": Row("backup parquet {dir}/no-backup --to {dir}/out", REFUSED, 1),
    "restore": Row(
        f"restore {AT} --source-dir {{dir}}/kept2 --rename orders=orders-again --no-groups",
        "topics partitions groups records bytes differences",
        before=f"backup {AT} --target-dir {{dir}}/kept2 --topics orders --snapshot",
    ),
    **{
        f"mirror {name}": Row(f"mirror {name} {{dir}}/no.properties", REFUSED, 1)
        for name in ("run", "status", "promote", "failback")
    },
    "sql": Row(f'sql {AT} "select-topic-from-topics"', REFUSED, 1),
    "pipeline query": Row(
        f"pipeline query {AT} --topic keyed --key k",
        "key value",
        before=f"console-producer {AT} --topic keyed --reader-property parse.key=true",
        stdin="k\tv\n",
    ),
    "jmx": Row("jmx --jmx-url service:jmx:rmi", REFUSED, 1),
    "run-class": Row("run-class no_such_module", REFUSED, 1),
    "completion": Row("completion fish", "shell script"),
}


def names_of(tool: Tool) -> Iterator[str]:
    if tool.actions:
        yield from (f"{tool.name} --{action.flag}" for action in tool.actions)
        return
    yield from (each.name for each in (*tool.commands, *tool.beside))
    if not tool.commands:
        yield tool.name


def all_actions() -> list[str]:
    tools = [import_module(module).TOOL for module, _ in COMMANDS.values()]
    return [name for tool in tools for name in names_of(tool)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with BrokerProcess(tmp_path_factory.mktemp("data"), overrides=settings) as process:
        yield process


@pytest.fixture(scope="module")
def place(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where things are; with a topic of three records, a group, a rule."""
    directory = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        (directory / name).write_text(content)
    at = broker.bootstrap
    for line in (
        f"topics {AT} --create --topic orders",
        f"producer-perf-test {AT} --topic orders {PERF}",
        f"consumer-groups {AT} --reset-offsets --group billing --topic orders --to-earliest"
        " --execute",
        f"acls {AT} --add --allow-principal User:a --operation Read --topic orders",
    ):
        assert main([*line.format(at=at).split(), "--json"]) == 0
    log = broker.data / "orders-0" / f"{0:020}.log"
    return {"at": at, "dir": str(directory), "data": str(broker.data), "log": str(log)}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLDAU_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("MOLDAU_BOOTSTRAP_SERVER", raising=False)


def test_every_action_has_its_row() -> None:
    assert set(all_actions()) == set(TABLE)


@pytest.mark.parametrize("action", TABLE)
def test_an_action_answers_with_one_document(
    action: str,
    place: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = TABLE[action]
    typed = tmp_path / "typed"
    typed.write_text(row.stdin)
    with typed.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        if row.before:
            assert main([*row.before.format(**place).split(), "--json"]) == 0, capsys.readouterr()
            capsys.readouterr()
        code = main([*row.line.format(**place).split(), "--json"])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    if row.code >= 0:
        assert code == row.code, said
    documents = [json.loads(line) for line in said.out.splitlines()]
    assert documents
    assert row.lines or len(documents) == 1
    for document in documents:
        check_keys(document)
        for each in document if isinstance(document, list) else [document]:
            assert set(row.keys.split()) <= set(each if row.keys else ()), document
    if row.keys == REFUSED:
        assert is_one_sentence(documents[0]["error"])


def check_keys(value: Any) -> None:
    if isinstance(value, list):
        for each in value:
            check_keys(each)
    if isinstance(value, dict):
        for key, below in value.items():
            assert KEY.fullmatch(key), f"{key} is not in camelCase"
            if key not in NAMED_BY_DATA or isinstance(below, list):
                check_keys(below)


def is_one_sentence(error: dict[str, Any]) -> bool:
    return error.keys() == {"message", "name"} and "\n" not in error["message"]


@pytest.mark.parametrize("action", [name for name, row in TABLE.items() if AT in row.line])
def test_a_failure_is_one_document_too(
    action: str, place: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    nowhere = {**place, "at": "nowhere", "dir": str(tmp_path)}
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    code = main([*TABLE[action].line.format(**nowhere).split(), "--json"])
    said = capsys.readouterr()
    document = json.loads(said.out)
    if action == "consumer-groups --validate-regex":
        assert (code, document) == (0, {"regex": "a.*", "valid": True})  # asks nobody
        return
    assert code != 0
    assert is_one_sentence(document["error"])
    assert len(said.err.splitlines()) <= 2


def test_flags_that_make_no_sense_are_a_document_too(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        if name != "run-class":
            assert main([name, "--no-such-flag", "--json"]) == 1
            assert is_one_sentence(json.loads(capsys.readouterr().out)["error"])


def test_what_a_broker_refuses_ends_with_1_and_one_sentence(
    place: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """These end with 0 in Apache Kafka, with the same text."""
    for line, told in (
        ("consumer-groups {at} --describe --group no-such", "Error: Executing consumer group"),
        ("consumer-groups {at} --delete --group no-such", "Error: Deletion of some consumer"),
        ("consumer-groups {at} --delete-offsets --group no-such --topic orders", "Error:"),
        ("configs {at} --describe --topic no-such", "The topic 'no-such' doesn't exist"),
        ("cluster {at} unregister --id 7", "does not support the broker unregistration"),
    ):
        at = f"--bootstrap-server {place['at']}"
        assert main(line.format(at=at).split()) == 1, line
        assert told in capsys.readouterr().out


def test_a_warning_does_not_stand_before_the_document(
    place: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["topics", "--bootstrap-server", place["at"], "--create", "--topic", "with_and.dot"]
    assert main([*words, "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {"created": ["with_and.dot"]}
    assert "WARNING" in said.err


def test_a_broker_says_where_it_is_and_logs_beside(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "moldau.main", "server-start", "--json"]
    own = ("--override", f"listeners=PLAINTEXT://127.0.0.1:{free_port()}")
    own += ("--override", f"log.dirs={tmp_path / 'data'}")
    with subprocess.Popen(
        [*command, *own], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        told = json.loads(broker.stdout.readline())
        broker.send_signal(signal.SIGTERM)
        rest, log = broker.communicate(timeout=60)
    assert told["pid"] == broker.pid
    assert told["logDirs"] == [str(tmp_path / "data")]
    assert rest == ""
    assert "INFO" in log


def test_keys_are_made_of_titles() -> None:
    titles = ("size_bytes", "LOG-END-OFFSET", "ProducerId", "#PARTITIONS", "Duration(min)", "LAG")
    keys = ["sizeBytes", "logEndOffset", "producerId", "partitions", "durationMin", "lag"]
    assert [camel(title) for title in titles] == keys


def test_bash_completes_commands_flags_topics_and_groups(tmp_path: Path) -> None:
    """As bash calls the function: an address is three words to it."""
    with LocalBroker(tmp_path, in_process=True) as broker:
        broker.create_topic("shipments", 1)
        host, port = broker.bootstrap.split(":")
        at = f"--bootstrap-server {host} : {port}"
        lines = ["moldau to", "moldau topics --desc", f"moldau topics {at} --topic sh"]
        script = 'eval "$(moldau completion bash)"\n'
        for line in lines:
            script += f"COMP_WORDS=({line}); COMP_CWORD={line.count(' ')}; _moldau\n"
            script += 'echo "${COMPREPLY[*]}"\n'
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        ran = subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, timeout=120, env={"PATH": path}
        )
    assert ran.stdout.splitlines() == ["topics top", "--describe", "shipments"]
