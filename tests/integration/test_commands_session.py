"""The commands against a real broker: what they print, where, and how they end.

`moldau` runs as processes, as people run it. Expected lines are those of Apache Kafka 4.3.1's
tools on the same cluster.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau.testing.broker_process import BrokerProcess, free_port

BIN = Path(__file__).parent.parent.parent / "bin"
SECONDS_MAX = 60
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}

Run = Callable[..., subprocess.CompletedProcess[str]]


def moldau(*words: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "moldau.main", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env={**os.environ, **environment},
    )


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("commands"), overrides=SETTINGS) as process:
        yield process


@pytest.fixture
def tool(broker: BrokerProcess) -> Run:
    def run(name: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        ran = moldau(name, "--bootstrap-server", broker.bootstrap, *words, stdin=stdin)
        assert "Traceback" not in ran.stderr
        return ran

    return run


@pytest.fixture
def topic(tool: Run, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"[^a-z0-9]", "-", request.node.name)[:200]
    assert tool("topics", "--create", "--topic", name, "--partitions", "2").returncode == 0
    return name


def test_topics_live_and_die(tool: Run) -> None:
    name = "life"
    assert tool("topics", "--create", "--topic", name).stdout == "Created topic life.\n"
    again = tool("topics", "--create", "--topic", name)
    assert again.returncode == 1
    assert again.stdout.startswith("Error while executing topic command : Topic 'life' already")
    assert "TopicExistsException" in again.stderr
    assert tool("topics", "--create", "--topic", name, "--if-not-exists").returncode == 0
    assert tool("topics", "--alter", "--topic", name, "--partitions", "3").returncode == 0
    described = tool("topics", "-describe", "--topic", name).stdout.splitlines()
    assert re.fullmatch(
        r"Topic: life\tTopicId: \S{22}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: .*",
        described[0],
    )
    assert described[3].startswith("\tTopic: life\tPartition: 2\tLeader: 0\tReplicas: 0\tIsr: 0")
    assert name in tool("topics", "--list").stdout.split()
    assert tool("topics", "--delete", "--topic", "lif.*").returncode == 0
    gone = tool("topics", "--describe", "--topic", name)
    assert (gone.returncode, gone.stdout) == (
        1,
        "Error while executing topic command : Topic 'life' does not exist as expected\n",
    )


def test_settings_are_shown_and_changed(tool: Run, topic: str) -> None:
    where = ("--entity-type", "topics", "--entity-name", topic)
    added = tool("configs", *where, "--alter", "--add-config", "cleanup.policy=[compact,delete]")
    assert added.stdout == f"Completed updating config for topic {topic}.\n"
    assert tool("configs", *where, "--describe").stdout.splitlines() == [
        f"Dynamic configs for topic {topic} are:",
        "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:"
        "cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
    ]
    wrong = tool("configs", *where, "--alter", "--add-config", "retention.ms=abc")
    assert wrong.returncode == 1
    assert "Error while executing config command with args" in wrong.stderr
    assert "InvalidConfigurationException" in wrong.stderr


def test_lines_become_records_and_records_lines(tool: Run, topic: str) -> None:
    parsed = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    lines = "h:1\tk\tv\nh:2\tk\tzwei Wörter\n"
    assert tool("console-producer", "--topic", topic, *parsed, stdin=lines).returncode == 0
    printed = [f"print.{name}=true" for name in ("key", "headers", "offset")]
    properties = [word for text in printed for word in ("--formatter-property", text)]
    read = tool(
        "console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "2", *properties
    )
    assert read.stdout == "Offset:0\th:1\tk\tv\nOffset:1\th:2\tk\tzwei Wörter\n"
    assert "Processed a total of 2 messages" in read.stderr
    unread = tool("console-producer", "--topic", topic, *parsed[:2], stdin="none\n")
    assert unread.returncode == 1
    assert "No key separator found on line number 1: 'none'" in unread.stderr


def test_a_group_goes_on_where_it_printed_last(tool: Run, topic: str) -> None:
    tool("console-producer", "--topic", topic, stdin="".join(f"{n}\n" for n in range(20)))
    member = ("console-consumer", "--topic", topic, "--group", topic, "--from-beginning")
    first = tool(*member, "--max-messages", "5").stdout.split()
    second = tool(*member, "--max-messages", "15").stdout.split()
    assert sorted(first + second, key=int) == [str(n) for n in range(20)]


def test_groups_are_described_reset_and_deleted(tool: Run, topic: str) -> None:
    tool("console-producer", "--topic", topic, "--sync", stdin="a\nb\nc\n")
    groups = ("consumer-groups", "--group", topic)
    plan = tool(*groups, "--reset-offsets", "--topic", topic, "--to-earliest", "--execute")
    width = max(15, len(topic))
    assert plan.stdout.splitlines() == [
        "",
        f"{'GROUP':<{width}} {'TOPIC':<{width}} PARTITION  NEW-OFFSET",
        f"{topic:<{width}} {topic:<{width}} 0          0",
        f"{topic:<{width}} {topic:<{width}} 1          0",
    ]
    described = tool(*groups, "--describe", "--new-consumer")
    rows = [line.split() for line in described.stdout.splitlines()[2:]]
    assert sum(int(row[5]) for row in rows) == 3
    assert f"Consumer group '{topic}' has no active members." in described.stderr
    assert "Empty" in tool(*groups, "--describe", "--state").stdout
    shifted = tool(*groups, "--reset-offsets", "--topic", topic, "--to-offset", "99", "--dry-run")
    assert "is higher than latest offset" in shifted.stderr
    assert topic in tool("consumer-groups", "--list").stdout.split()
    forgotten = tool(*groups, "--delete-offsets", "--topic", topic)
    assert forgotten.stdout.startswith(
        f"Request succeeded for deleting offsets from group {topic}."
    )
    tool(*groups, "--reset-offsets", "--topic", topic, "--to-latest", "--execute")
    deleted = tool(*groups, "--delete")
    assert deleted.stdout == f"Deletion of requested consumer groups ('{topic}') was successful.\n"
    missing = tool(*groups, "--describe")
    assert missing.returncode == 1
    assert "GroupIdNotFoundException" in missing.stdout


def test_offsets_sizes_and_deleted_records(tool: Run, topic: str, tmp_path: Path) -> None:
    tool("console-producer", "--topic", topic, stdin="a\nb\nc\n")
    ends = tool("get-offsets", "--topic", topic).stdout.split()
    counts = {line.split(":")[1]: int(line.split(":")[2]) for line in ends}
    assert sum(counts.values()) == 3
    partition = next(number for number, count in counts.items() if count == 3)
    plan = tmp_path / "plan.json"
    rows = [{"topic": topic, "partition": int(partition), "offset": 2}]
    plan.write_text(json.dumps({"partitions": rows, "version": 1}))
    cut = tool("delete-records", "--offset-json-file", str(plan))
    assert cut.stdout.splitlines()[2] == f"partition: {topic}-{partition}\tlow_watermark: 2"
    sizes = tool("log-dirs", "--describe", "--topic-list", topic).stdout.splitlines()[2]
    answer = json.loads(sizes)
    found = answer["brokers"][0]["logDirs"][0]["partitions"]
    assert [row["partition"] for row in found] == [f"{topic}-0", f"{topic}-1"]


def test_the_log_of_a_topic_can_be_dumped(tool: Run, broker: BrokerProcess, topic: str) -> None:
    tool("console-producer", "--topic", topic, stdin="a\n")
    files = sorted(broker.data.glob(f"{topic}-*/*.log"))
    dumped = moldau("dump-log", "--print-data-log", "--files", ",".join(map(str, files)))
    assert dumped.returncode == 0
    assert dumped.stdout.count("Log starting offset: 0") == 2
    assert re.search(r"^\| offset: 0 CreateTime: \d+ .* payload: a$", dumped.stdout, re.MULTILINE)


def test_the_cluster_is_told_in_kafkas_words(tool: Run, broker: BrokerProcess) -> None:
    assert re.fullmatch(r"Cluster ID: \S{22}\n", tool("cluster", "cluster-id").stdout)
    versions = tool("broker-api-versions").stdout
    assert versions.startswith(f"{broker.bootstrap} (id: 0 rack: null isFenced: false) -> (\n\tPro")
    assert "\tFetch(1): 0 to 18 [usable: 18],\n" in versions
    assert "(20000)" not in versions, "requests of our own are no part of what Kafka's prints"
    (told,) = json.loads(tool("broker-api-versions", "--json").stdout)
    assert 20000 in [row["key"] for row in told["apis"]]
    assert "Feature: transaction.version" in tool("features", "describe").stdout
    assert json.loads(tool("topics", "--list", "--json").stdout) is not None


@pytest.mark.parametrize(
    "line",
    [
        "topics --describe",
        "configs --describe --topic {topic}",
        "consumer-groups --list",
        "groups --list",
        "get-offsets --topic {topic}",
        "log-dirs --describe",
        "transactions list",
        "producer-perf-test --topic {topic} --num-records 5 --record-size 9 --throughput -1",
        "consumer-perf-test --topic {topic} --num-records 2",
        "e2e-latency --topic {topic} --num-records 2 --producer-acks all --record-size 9",
        "reassign-partitions --list",
        "leader-election --election-type preferred --all-topic-partitions",
        "broker-api-versions",
        "cluster cluster-id",
        "features describe",
        "console-consumer --topic {topic} --from-beginning --max-messages 1",
    ],
)
def test_answers_can_be_had_as_json(tool: Run, topic: str, line: str) -> None:
    tool("console-producer", "--topic", topic, stdin="a\nb\n")
    name, *words = line.format(topic=topic).split()
    ran = tool(name, *words, "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) is not None


def test_a_record_in_json_has_all_its_fields(tool: Run, topic: str) -> None:
    parsed = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    tool("console-producer", "--topic", topic, *parsed, stdin="h:1\tk\tWörter\n")
    words = ("--topic", topic, "--from-beginning", "--max-messages", "1", "--json")
    row = json.loads(tool("console-consumer", *words).stdout)
    assert row.pop("timestamp") > 0
    assert row.pop("partition") in (0, 1)
    expected = {"topic": topic, "offset": 0, "headers": [["h", "1"]], "key": "k"}
    assert row == {**expected, "value": "Wörter"}


def test_verifiable_clients_agree(tool: Run, topic: str) -> None:
    made = tool("verifiable-producer", "--topic", topic, "--max-messages", "50").stdout
    events = [json.loads(line) for line in made.splitlines()]
    assert events[-1]["acked"] == 50
    words = ("--topic", topic, "--group-id", topic, "--max-messages", "50")
    read = [json.loads(line) for line in tool("verifiable-consumer", *words).stdout.splitlines()]
    assert sum(row["count"] for row in read if row["name"] == "records_consumed") == 50
    assert any(row["name"] == "offsets_committed" and row["success"] for row in read)


def test_transactions_are_listed(tool: Run, topic: str) -> None:
    words = ("--num-records", "50", "--record-size", "10", "--throughput", "-1")
    run = tool("producer-perf-test", "--topic", topic, *words, "--transactional-id", "perf-tx")
    assert "50 records sent" in run.stdout
    assert re.search(
        r"^perf-tx\s+0\s+\d+\s+CompleteCommit", tool("transactions", "list").stdout, re.MULTILINE
    )
    described = tool("transactions", "describe", "--transactional-id", "perf-tx").stdout
    assert described.startswith("CoordinatorId\tTransactionalId\t")


REPORT = """\
brokers={brokers}
zookeeper=127.0.0.1:2181
for topic in `./kafka-topics.sh --list --zookeeper $zookeeper | grep -v grep | awk '{{print $1}}'`
do
  ./kafka-topics.sh --describe --bootstrap-server $brokers --topic $topic
done
groups=(`./kafka-consumer-groups.sh --list --bootstrap-server $brokers | awk '{{print $1}}'`)
for group in ${{groups[@]}}
do
  echo ">>>group:$group<<<"
  ./kafka-consumer-groups.sh --describe --group $group --bootstrap-server $brokers
done
"""


def test_a_report_over_all_topics_and_groups_runs_with_zookeeper_in_it(tmp_path: Path) -> None:
    """A shell script as runbooks have it; a broker of its own keeps the report short."""
    settings = {**SETTINGS, "transaction.state.log.num.partitions": "1"}
    with BrokerProcess(tmp_path, overrides=settings) as broker:
        at = ("--bootstrap-server", broker.bootstrap)
        assert moldau("console-producer", *at, "--topic", "orders", stdin="a\nb\n").returncode == 0
        reset = ("--reset-offsets", "--topic", "orders", "--to-offset", "1", "--execute")
        assert moldau("consumer-groups", *at, "--group", "billing", *reset).returncode == 0
        ran = subprocess.run(
            ["bash", "-e", "-c", REPORT.format(brokers=broker.bootstrap)],
            cwd=BIN,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            env={**os.environ, "MOLDAU_BOOTSTRAP_SERVER": broker.bootstrap},
        )
    assert ran.returncode == 0
    for name, partitions in (("__consumer_offsets", 2), ("orders", 1)):
        assert re.search(rf"(?m)^Topic: {name}\t.*PartitionCount: {partitions}\t", ran.stdout)
    assert re.search(r"(?m)^>>>group:billing<<<$", ran.stdout)
    assert re.search(r"(?m)^billing +orders +0 +1 +2 +1 +- +- +-", ran.stdout)
    assert "asking the brokers at" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("topics", "--lst"), 1, "--lst is not a recognized option; did you mean --list?"),
        (("topics", "--list", "--create"), 1, "exactly one action"),
        (("console-consumer",), 1, "Exactly one of the following arguments is required"),
        (("delete-records", "--offset-json-file", "/no/such"), 1, "/no/such cannot be read"),
        (("get-offsets", "--topic", "no-such-topic"), 1, "Could not match any topic-partitions"),
        (("dump-log", "--files", "/no/00000000000000000000.log"), 1, "No such file"),
        (("transactions", "lits"), 1, "did you mean list?"),
    ],
)
def test_a_mistake_is_one_sentence_and_kafkas_exit_code(
    tool: Run, words: tuple[str, ...], code: int, sentence: str
) -> None:
    if words[0] == "dump-log":
        ran = moldau(*words)
    else:
        ran = tool(words[0], *words[1:])
    assert ran.returncode == code
    assert sentence in ran.stderr + ran.stdout
    assert "Traceback" not in ran.stderr


def test_an_unreachable_broker_is_one_clear_sentence(tmp_path: Path) -> None:
    quick = tmp_path / "quick.properties"
    quick.write_text("default.api.timeout.ms=300\n")
    address = f"127.0.0.1:{free_port()}"
    ran = moldau("topics", "--bootstrap-server", address, "--list", "--command-config", str(quick))
    assert ran.returncode == 1
    assert f"Connection to {address} could not be established" in ran.stdout
    assert "Traceback" not in ran.stderr


def test_a_closed_pipe_is_no_failure(broker: BrokerProcess) -> None:
    command = f"{sys.executable} -m moldau.main broker-api-versions"
    line = f"{command} --bootstrap-server {broker.bootstrap} | head -1; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert ran.stdout.splitlines()[-1] == "0"
    assert ran.stderr == ""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_consumer_ends_quietly_when_told_to(
    broker: BrokerProcess, tool: Run, topic: str, number: int, code: int
) -> None:
    tool("console-producer", "--topic", topic, stdin="a\n")
    words = ("--bootstrap-server", broker.bootstrap, "--topic", topic, "--from-beginning")
    process = subprocess.Popen(
        [sys.executable, "-m", "moldau.main", "console-consumer", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "a\n"
    process.send_signal(number)
    _, said = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == code
    assert "Processed a total of 1 messages" in said
    assert "Traceback" not in said


def test_help_is_there_at_once() -> None:
    start = time.monotonic()
    assert moldau("topics", "--help").returncode == 0
    assert time.monotonic() - start < 1.0


def test_what_a_console_consumer_has_not_printed_is_not_committed(tool: Run) -> None:
    name, group = "unprinted", ("--group", "unprinted")
    assert tool("topics", "--create", "--topic", name).returncode == 0
    lines = "12345678\nshort\n87654321\n11112222\n"
    assert tool("console-producer", "--topic", name, stdin=lines).returncode == 0
    words = ("console-consumer", "--topic", name, *group, "--from-beginning")
    broken = tool(*words, "--value-deserializer", "LongDeserializer")
    assert broken.returncode == 1
    assert len(broken.stdout.splitlines()) == 1
    assert f"{name}-0 offset 1" in broken.stderr
    rest = tool(*words, "--max-messages", "2", "--timeout-ms", "20000")
    assert rest.stdout.splitlines() == ["87654321", "11112222"]
