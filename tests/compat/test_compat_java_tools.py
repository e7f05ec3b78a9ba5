"""Apache Kafka's own command-line tools administer topics, produce and consume."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.clients.port import CODECS
from tests.compat.waiting import eventually
from tests.support.apache_kafka import run_tool

pytestmark = pytest.mark.compat

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"

# headers, key, value; NULL stands for what is not there
LINES = [
    "NULL\tkey\tvalue",
    "NULL\tNULL\tno key",
    "NULL\ttombstone\tNULL",
    "trace:1,user:dvořák\tключ\tzwei Wörter",
]
MANY_LINES = 10_000

Tool = Callable[..., str]


@pytest.fixture
def tool(bootstrap: str, tmp_path: Path) -> Tool:
    """Runs a tool against the broker; what it printed, if it ended well."""

    def run(main_class: str, *arguments: str, stdin: str = "") -> str:
        given = ("--bootstrap-server", bootstrap, *arguments)
        ran = run_tool(main_class, *given, scratch=tmp_path, stdin=stdin)
        assert ran.returncode == 0, f"{main_class}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}"
        return ran.stdout

    return run


@pytest.fixture
def topic(tool: Tool, new_name: Callable[[str], str]) -> str:
    name = new_name("tools")
    created = tool(TOPICS, "--create", "--topic", name, "--partitions", "1")
    assert f"Created topic {name}." in created
    return name


def produce(tool: Tool, topic: str, lines: list[str], codec: str = "none") -> None:
    parsed = ("parse.headers=true", "parse.key=true", "null.marker=NULL")
    properties = [word for text in parsed for word in ("--reader-property", text)]
    stdin = "".join(line + "\n" for line in lines)
    tool(PRODUCER, "--topic", topic, "--compression-codec", codec, *properties, stdin=stdin)


def consume(tool: Tool, topic: str, count: int) -> list[str]:
    printed = ("print.headers=true", "print.key=true", "null.literal=NULL")
    properties = [word for text in printed for word in ("--formatter-property", text)]
    wanted = ("--partition", "0", "--offset", "earliest", "--max-messages", str(count))
    return tool(CONSUMER, "--topic", topic, *wanted, *properties).splitlines()


@pytest.mark.parametrize("codec", CODECS)
def test_the_console_consumer_prints_what_the_console_producer_sent(
    tool: Tool, topic: str, codec: str
) -> None:
    produce(tool, topic, LINES, codec)

    shown = [line.replace("NO_HEADERS", "NULL") for line in consume(tool, topic, len(LINES))]
    assert shown == LINES


def test_the_console_tools_carry_many_records_in_order(tool: Tool, topic: str) -> None:
    lines = [f"n:{number}\tkey-{number}\tvalue-{number}" for number in range(MANY_LINES)]

    produce(tool, topic, lines, "zstd")

    assert consume(tool, topic, MANY_LINES) == lines
    assert f"{topic}:0:{MANY_LINES}" in tool(OFFSETS, "--topic", topic)


def test_the_topics_tool_lists_describes_grows_and_deletes(tool: Tool, topic: str) -> None:
    assert topic in tool(TOPICS, "--list").splitlines()

    tool(TOPICS, "--alter", "--topic", topic, "--partitions", "3")
    eventually(lambda: "PartitionCount: 3" in tool(TOPICS, "--describe", "--topic", topic))
    rows = tool(TOPICS, "--describe", "--topic", topic).splitlines()
    assert len([row for row in rows if "Leader: " in row and "Isr: " in row]) == 3
    assert "TopicId: " in rows[0] and "ReplicationFactor: 1" in rows[0]

    tool(TOPICS, "--delete", "--topic", topic)
    eventually(lambda: topic not in tool(TOPICS, "--list").splitlines())


def test_the_configs_tool_sets_shows_and_resets_a_topics_settings(tool: Tool, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)

    tool(CONFIGS, *entity, "--alter", "--add-config", "retention.ms=7200000,max.message.bytes=5000")
    eventually(lambda: "retention.ms=7200000" in tool(CONFIGS, *entity, "--describe"))
    assert "max.message.bytes=5000" in tool(CONFIGS, *entity, "--describe")
    assert "compression.type=producer" in tool(CONFIGS, *entity, "--describe", "--all")

    tool(CONFIGS, *entity, "--alter", "--delete-config", "retention.ms")
    eventually(lambda: "retention.ms" not in tool(CONFIGS, *entity, "--describe"))


def test_the_delete_records_tool_moves_the_start_of_the_log(
    tool: Tool, topic: str, tmp_path: Path
) -> None:
    produce(tool, topic, LINES)
    wanted = tmp_path / "offsets.json"
    partition = {"topic": topic, "partition": 0, "offset": 3}
    wanted.write_text(json.dumps({"partitions": [partition], "version": 1}))

    said = tool(DELETE_RECORDS, "--offset-json-file", str(wanted))

    assert "low_watermark: 3" in said
    assert f"{topic}:0:3" in tool(OFFSETS, "--topic", topic, "--time", "earliest")
    assert consume(tool, topic, 1) == LINES[3:]


def test_the_broker_tools_show_its_apis_and_log_directories(tool: Tool, topic: str) -> None:
    produce(tool, topic, LINES)

    assert "Produce(0): 0 to 13 [usable: 13]" in tool(API_VERSIONS)
    described = tool(LOG_DIRS, "--describe", "--topic-list", topic)
    report = json.loads(next(line for line in described.splitlines() if line.startswith("{")))
    partitions = report["brokers"][0]["logDirs"][0]["partitions"]
    assert [row["partition"] for row in partitions] == [f"{topic}-0"]
    assert partitions[0]["size"] > 0


def test_the_performance_tool_gets_every_record_acknowledged(tool: Tool, topic: str) -> None:
    sent = ("--num-records", "20000", "--record-size", "200", "--throughput", "-1")

    said = tool(PRODUCER_PERFORMANCE, "--topic", topic, *sent)

    assert "20000 records sent" in said
    assert f"{topic}:0:20000" in tool(OFFSETS, "--topic", topic)
