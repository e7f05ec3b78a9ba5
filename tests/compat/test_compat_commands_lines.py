"""Command lines of Kafka runbooks, old ones too, print what Apache Kafka's own tool prints.

One row per command line. It runs as `moldau <tool>`, as `bin/kafka-<tool>.sh`, and as the Java
class of 4.3.1, or of 3.9.1 where 4.x dropped the flag or the class; both releases dropped some
flags, then the row tells how it is said today. What a line changes is changed in topics of the
runner's own, whose names differ in one letter. Hidden are only those names, the clock and ids
that every run makes anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.compat.conftest import Broker
from tests.compat.test_compat_commands import CLASSES as NEW_CLASSES
from tests.support.apache_kafka import run_tool
from tests.support.apache_kafka_39 import run_tool_39

pytestmark = pytest.mark.compat

BIN = Path(__file__).parent.parent.parent / "bin"
SECONDS_MAX = 120
TOOLS = "org.apache.kafka.tools."
CLASSES = {
    **NEW_CLASSES,
    "console-producer": TOOLS + "ConsoleProducer",
    "verifiable-producer": TOOLS + "VerifiableProducer",
    "preferred-replica-election": TOOLS + "LeaderElectionCommand",
}
CLASSES_39 = {
    **CLASSES,
    "console-producer": "kafka.tools.ConsoleProducer",
    "dump-log": "kafka.tools.DumpLogSegments",
}
AT = "--bootstrap-server {at}"
ELECTION = AT + " --election-type preferred --all-topic-partitions"
STRINGS = "org.apache.kafka.common.serialization.StringDeserializer"
LONGS = "org.apache.kafka.common.serialization.LongDeserializer"
COUNTS = (
    AT + " --topic counts --from-beginning --formatter kafka.tools.DefaultMessageFormatter"
    " --property print.key=true --property print.value=true"
    f" --property key.deserializer={STRINGS} --property value.deserializer={LONGS}"
    " --max-messages 3"
)
OFFSETS_FORMATTER = "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter"
GROUP_FORMATTER = "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter"
TRANSACTION_FORMATTER = (
    "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter"
)
INTERNAL = "--consumer.config {dir}/internal.properties --timeout-ms 5000 --from-beginning " + AT


class Line(NamedTuple):
    tool: str
    words: str
    today: str = ""
    """The same in the words of the reference, where it dropped some."""
    release: str = "4.3.1"
    stdin: str = ""
    is_map_ordered: bool = False
    """Kafka prints the rows in the order of a hash map."""

    def __str__(self) -> str:
        return f"{self.tool} {self.words}".replace(" " + AT, "")


READ = "--from-beginning --command-property group.instance.id=static"
CREATE = "--replication-factor 1 --partitions 1 --topic {new}"
LINES = [
    Line("topics", f"--create {AT} --replication-factor 3 --partitions 1 --topic {{new}}"),
    Line("topics", f"--create {AT} {CREATE}"),
    Line("topics", f"--create {AT} {CREATE}"),
    Line("topics", f"--create --zookeeper {{zk}} {CREATE}2", f"--create {AT} {CREATE}2"),
    Line("topics", f"--create {AT} {CREATE}3 --config cleanup.policy=compact"),
    Line("topics", f"--create {AT} {CREATE}.4_ --config cleanup.policy=compact"),
    Line("topics", f"--create {AT} {CREATE}6 --config nonsense=1"),
    Line("topics", f"--create {AT} --topic a/b"),
    Line("topics", f"{AT} --describe --topic {{new}}3"),
    Line("topics", f"--describe {AT} --topic replicated"),
    Line("topics", f"-describe {AT} --topic replicated"),
    Line("topics", f"{AT} --describe", is_map_ordered=True),
    Line("topics", f"-describe {AT} --topic __consumer_offsets"),
    Line("topics", f"-describe {AT} --topic __transaction_state"),
    Line("topics", "--list --zookeeper {zk}", f"--list {AT}"),
    Line("topics", f"--list {AT} --exclude-internal"),
    Line("topics", f"{AT} --alter --topic {{new}} --partitions 40"),
    Line("topics", f"{AT} --describe --topic {{new}}"),
    Line("topics", f"{AT} --delete --topic {{new}}"),
    Line("topics", "--zookeeper {zk} --delete --topic {new}.*", f"{AT} --delete --topic {{new}}.*"),
    Line("topics", f"{AT} --delete --topic {{new}}"),
    Line(
        "reassign-partitions",
        "--zookeeper {zk} --topics-to-move-json-file {dir}/move.json --broker-list 0 --generate",
        f"{AT} --topics-to-move-json-file {{dir}}/move.json --broker-list 0 --generate",
    ),
    *(
        Line(
            "reassign-partitions",
            f"--zookeeper {{zk}} --reassignment-json-file {{dir}}/plan.json {AT} {action}",
            f"--reassignment-json-file {{dir}}/plan.json {AT} {action}",
        )
        for action in ("--verify", "--execute", "--verify")
    ),
    Line("preferred-replica-election", AT, ELECTION),
    Line("preferred-replica-election", "--zookeeper {zk}", ELECTION),
    Line(
        "console-producer",
        "--broker-list {at} --topic replicated",
        stdin="Test Message 1\n",
        release="3.9.1",
    ),
    Line(
        "verifiable-producer",
        "--topic {new}-verifiable --max-messages 200 --broker-list {at}",
        release="3.9.1",
        is_map_ordered=True,
    ),
    Line("console-consumer", f"{AT} --from-beginning --topic replicated --max-messages 5"),
    Line("console-consumer", f"{AT} --topic T-RISK --partition 0 --offset 3350 --max-messages 1"),
    Line("console-consumer", COUNTS, release="3.9.1"),
    Line(
        "console-consumer",
        f"{INTERNAL} --formatter {OFFSETS_FORMATTER} --topic __consumer_offsets",
        release="3.9.1",
        is_map_ordered=True,
    ),
    Line(
        "console-consumer",
        f"{INTERNAL} --formatter {GROUP_FORMATTER} --topic __consumer_offsets",
        release="3.9.1",
        is_map_ordered=True,
    ),
    Line(
        "console-consumer",
        f"{INTERNAL} --formatter {TRANSACTION_FORMATTER} --topic __transaction_state",
        release="3.9.1",
        is_map_ordered=True,
    ),
    Line(
        "consumer-groups",
        f"--new-consumer --describe --group tutorial-group {AT}",
        f"--describe --group tutorial-group {AT}",
    ),
    Line("consumer-groups", f"--list {AT}", is_map_ordered=True),
    Line("log-dirs", f"--describe {AT} --broker-list 0 --topic-list replicated,counts"),
    Line(
        "log-dirs",
        f"--describe {AT} --broker-list 0 --topic-list replicated, counts",
        f"--describe {AT} --broker-list 0 --topic-list replicated,counts",
    ),
    Line("log-dirs", f"--describe {AT}"),
    Line("dump-log", "--files {data}/T-RISK-0/00000000000000000000.log --print-data-log"),
    Line("dump-log", "--files {data}/replicated-0/00000000000000000000.log"),
    Line("dump-log", "--files {groups} --offsets-decoder"),
    Line("dump-log", "--files {transactions} --transaction-log-decoder"),
    Line(
        "dump-log",
        "--files {data}/replicated-0/00000000000000000000.log --print-data-log",
        release="3.9.1",
    ),
]


class Said(NamedTuple):
    code: int
    stdout: list[str]
    stderr: list[str]


class World(NamedTuple):
    """What the lines are about, and how they are filled in."""

    broker: Broker
    directory: Path

    def filled(self, words: str, runner: str) -> list[str]:
        data = self.broker.data
        assert data is not None, "the lines look at the broker's files"
        port = self.broker.bootstrap.rpartition(":")[2]
        places = {
            "at": self.broker.bootstrap,
            "zk": f"127.0.0.1:{int(port) // 2}",
            "dir": str(self.directory),
            "data": str(data),
            "new": f"made-by-{runner}",
            "groups": filled_logs(data, "__consumer_offsets"),
            "transactions": filled_logs(data, "__transaction_state"),
        }
        return [word.format(**places) for word in words.split()]

    def hidden(self, ran: subprocess.CompletedProcess[str], line: Line, runner: str) -> Said:
        def shown(text: str) -> list[str]:
            name = runner if "{new}" in line.words else ""
            lines = [hide(each, name) for each in text.splitlines()]
            lines = [each for each in lines if not is_noise(each)]
            return sorted(lines) if line.is_map_ordered else lines

        return Said(ran.returncode, shown(ran.stdout), shown(ran.stderr))


def filled_logs(data: Path, topic: str) -> str:
    logs = [path for path in data.glob(f"{topic}-*/*.log") if path.stat().st_size]
    return ",".join(str(path) for path in sorted(logs))


HIDDEN = [
    (re.compile(r'"timestamp":\d+'), '"timestamp":NOW'),
    (re.compile(r'"avg_throughput":[\d.]+'), '"avg_throughput":SOME'),
    (re.compile(r"TopicId: \S{22}(\t.*)"), r"TopicId: ID\1"),
    # Each consumer is a group of its own, which adds records to __consumer_offsets.
    (re.compile(r"^Processed a total of \d+"), "Processed a total of N"),
]
NOISE = re.compile(
    # Java's log lines and stack traces, remarks on what is old, other consumers' groups.
    r"^console-consumer-\d+|^\[.*\] (WARN|ERROR|INFO) |^\tat |^\t\.\.\. \d+ more"
    r"|^Caused by: |^org\.apache\.kafka\."
    r"|^java\.|^ERROR |^--zookeeper is old|^Exception in thread|^ \(org\.apache\.kafka\."
    # Moldau says which flags of a line do nothing.
    r"|^--\S+ has no effect: "
    r"|.* is deprecated|^The consumer rebalance protocol \(KIP-848\)"
)


def hide(text: str, runner: str) -> str:
    text = text.replace(f"made-by-{runner}", "made-by-one") if runner else text
    for pattern, instead in HIDDEN:
        text = pattern.sub(instead, text)
    return text


def is_noise(text: str) -> bool:
    return bool(NOISE.match(text))


def ran_here(command: list[str], bootstrap: str, stdin: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env={**os.environ, "MOLDAU_BOOTSTRAP_SERVER": bootstrap},
    )


@pytest.fixture(scope="module")
def world(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A topic long enough for offset 3350, counted words, a group behind, a transaction."""
    if broker.data is None:
        pytest.skip("the broker's files are not here")
    made = World(broker, tmp_path_factory.mktemp("lines"))
    plan = '{"version":1,"partitions":[{"topic":"replicated","partition":0,"replicas":[0]}]}'
    (made.directory / "plan.json").write_text(plan)
    (made.directory / "move.json").write_text('{"topics":[{"topic":"replicated"}],"version":1}')
    (made.directory / "internal.properties").write_text("exclude.internal.topics=false\n")
    numbers = "".join(f"risk {number}\n" for number in range(3400))
    perf = "--num-records 20 --record-size 10 --throughput -1 --topic replicated"
    for tool, words, stdin in (
        ("topics", f"{AT} --create --topic replicated --config segment.bytes=1073741824", ""),
        ("topics", f"{AT} --create --topic T-RISK", ""),
        ("console-producer", f"{AT} --topic replicated", "one\ntwo\nthree\nfour\nfive\n"),
        ("console-producer", f"{AT} --topic T-RISK", numbers),
        ("producer-perf-test", f"{AT} {perf} --transactional-id lines", ""),
        (
            "consumer-groups",
            f"{AT} --reset-offsets --group tutorial-group --topic T-RISK --to-offset 7 --execute",
            "",
        ),
        ("console-consumer", f"{AT} --group read --topic T-RISK --max-messages 1 {READ}", ""),
    ):
        command = [str(BIN / f"kafka-{tool}.sh"), *made.filled(words, "setup")]
        ran = ran_here(command, broker.bootstrap, stdin)
        assert ran.returncode == 0, ran
    from moldau import Producer

    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for count, word in enumerate(("hello", "kafka", "streams"), 1):
            producer.send("counts", count.to_bytes(8, "big"), word.encode())
    return made


@pytest.mark.parametrize("line", LINES, ids=str)
def test_a_line_prints_what_kafkas_tool_prints(world: World, line: Line, tmp_path: Path) -> None:
    bootstrap = world.broker.bootstrap
    is_old = line.release == "3.9.1"
    run: Callable[..., subprocess.CompletedProcess[str]] = run_tool_39 if is_old else run_tool
    java_words = world.filled(line.today or line.words, "java")
    main_class = (CLASSES_39 if is_old else CLASSES)[line.tool]
    java = run(main_class, *java_words, scratch=tmp_path, stdin=line.stdin, seconds_max=SECONDS_MAX)
    expected = world.hidden(java, line, "java")
    for runner, opening in (
        ("here", [str(Path(sys.executable).parent / "moldau"), line.tool]),
        ("shim", [str(BIN / f"kafka-{line.tool}.sh")]),
    ):
        ran = ran_here([*opening, *world.filled(line.words, runner)], bootstrap, line.stdin)
        assert "Traceback" not in ran.stderr
        assert world.hidden(ran, line, runner) == expected
