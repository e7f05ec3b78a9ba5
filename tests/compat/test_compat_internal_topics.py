"""Apache Kafka's own formatters and dump tool read what the coordinators and markers wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.compat.clients.catalogue import TRANSACTIONS, Clients
from tests.compat.clients.confluent_groups import ConfluentGroups
from tests.compat.clients.group_port import Subscription
from tests.compat.clients.port import Record
from tests.compat.conftest import Broker
from tests.compat.records import START_MS
from tests.compat.waiting import eventually
from tests.support.apache_kafka import run_tool

pytestmark = pytest.mark.compat

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
DUMP_TOOL = "org.apache.kafka.tools.DumpLogSegments"
FORMATTERS = "org.apache.kafka.tools.consumer."
SILENCE_MS = 4000
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)

NewName = Callable[[str], str]
Formatted = Callable[[str, str], list[dict[str, Any]]]


@pytest.fixture
def formatted(bootstrap: str, tmp_path: Path) -> Formatted:
    """What a formatter prints about a whole topic: JSON objects, one right after another."""

    def consume(topic: str, formatter: str) -> list[dict[str, Any]]:
        ran = run_tool(
            CONSUMER,
            *("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"),
            *("--timeout-ms", str(SILENCE_MS), "--formatter", FORMATTERS + formatter),
            scratch=tmp_path,
        )
        rows, position, decoder = [], 0, json.JSONDecoder()
        while position < len(ran.stdout.rstrip()):
            row, position = decoder.raw_decode(ran.stdout, position)
            rows.append(row)
        assert rows, ran.stderr[-2000:]
        return rows

    return consume


def test_the_offsets_formatter_prints_commits_and_deletions(
    clients: Clients, formatted: Formatted, new_name: NewName
) -> None:
    group, topic = new_name("group"), new_name("formatted")
    client = clients["confluent-kafka"]
    groups = ConfluentGroups(client)
    client.create_topic(topic, partitions=1, configs={})
    groups.reset(group, topic, 0, 42)
    groups.delete(group)

    rows = formatted("__consumer_offsets", "OffsetsMessageFormatter")

    ours = [row for row in rows if row["key"]["data"].get("group") == group]
    place = {"group": group, "topic": topic, "partition": 0}
    assert [row["key"] for row in ours] == [{"type": 1, "data": place}] * 2
    assert ours[0]["value"]["data"]["offset"] == 42
    assert ours[1]["value"] is None


def test_the_group_metadata_formatter_prints_generations(
    clients: Clients, formatted: Formatted, new_name: NewName
) -> None:
    group, topic = new_name("group"), new_name("formatted")
    client = clients["confluent-kafka"]
    groups = ConfluentGroups(client)
    client.create_topic(topic, partitions=1, configs={})
    client.produce(topic, [Record(None, b"x", (), START_MS)])
    member = groups.join(Subscription(group, (topic,)))
    eventually(lambda: len(member.reads()) == 1)
    member.stop()
    eventually(lambda: groups.describe(group).state == "empty")

    rows = formatted("__consumer_offsets", "GroupMetadataMessageFormatter")

    ours = [row for row in rows if row["key"]["data"].get("group") == group]
    assert {row["key"]["type"] for row in ours} == {2}
    values = [row["value"]["data"] for row in ours]
    stable, empty = next(value for value in values if value["members"]), values[-1]
    assert stable["protocolType"] == empty["protocolType"] == "consumer"
    assert stable["protocol"] == "range"
    assert stable["generation"] == 1
    assert [one["clientId"] for one in stable["members"]] == [f"member-of-{group}"]
    assert empty["members"] == []
    assert empty["protocol"] is None


def test_the_transaction_formatter_prints_every_state(
    clients: Clients, formatted: Formatted, new_name: NewName
) -> None:
    transactional_id, topic = new_name("id"), new_name("formatted")
    clients["confluent-kafka"].create_topic(topic, partitions=1, configs={})
    transactions = TRANSACTIONS["confluent-kafka"](clients["confluent-kafka"])
    producer = transactions.producer(transactional_id)
    for end in (producer.commit, producer.abort):
        producer.begin()
        producer.send(topic, [b"value"])
        end()
    producer.close()

    rows = formatted("__transaction_state", "TransactionLogMessageFormatter")

    ours = [
        row["value"]["data"]
        for row in rows
        if row["key"]["data"].get("transactionalId") == transactional_id
    ]
    committed = [ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT]
    aborted = [ONGOING, PREPARE_ABORT, COMPLETE_ABORT]
    assert [row["transactionStatus"] for row in ours] == [EMPTY, *committed, *aborted]
    assert ours[1]["transactionPartitions"] == [{"topic": topic, "partitionIds": [0]}]
    assert len({row["producerId"] for row in ours}) == 1


@pytest.mark.parametrize("name", ["confluent-kafka", "franz-go", "java"])
def test_the_dump_tool_shows_epochs_and_markers(
    name: str, clients: Clients, broker: Broker, new_name: NewName, tmp_path: Path
) -> None:
    if broker.data is None:
        pytest.skip("MOLDAU_TEST_DATA does not say where the broker under test keeps its files")
    transactional_id, topic = new_name("id"), new_name("dumped")
    clients[name].create_topic(topic, partitions=1, configs={})
    transactions = TRANSACTIONS[name](clients[name])
    first = transactions.producer(transactional_id)
    first.begin()
    first.send(topic, [b"thisIsMessageValue1"])
    second = transactions.producer(transactional_id)
    second.begin()
    second.send(topic, [b"thisIsMessageValue2"])
    second.commit()
    for producer in (first, second):
        producer.close()
    log = broker.data / f"{topic}-0" / f"{0:020}.log"

    def dumped() -> list[tuple[int, str]]:
        given = ("--print-data-log", "--files", str(log))
        shown = run_tool(DUMP_TOOL, *given, scratch=tmp_path).stdout
        rows = re.findall(
            r"producerEpoch: (\d+) .*isvalid: true\n"
            r"\| .*(?:payload: (\w+)|endTxnMarker: (\w+) coordinatorEpoch: \d+)",
            shown,
        )
        return [(int(epoch), payload or marker) for epoch, payload, marker in rows]

    eventually(lambda: len(dumped()) == 4, seconds_max=30)
    rows = dumped()
    assert [text for _, text in rows] == [
        *("thisIsMessageValue1", "ABORT"),
        *("thisIsMessageValue2", "COMMIT"),
    ]
    epochs = [epoch for epoch, _ in rows]
    assert epochs[0] < epochs[1] < epochs[2] <= epochs[3]
