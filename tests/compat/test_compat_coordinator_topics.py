"""Apache Kafka's own formatters print what the coordinators keep in their internal topics."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.apache_kafka import run_tool

pytestmark = pytest.mark.compat

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTERS = "org.apache.kafka.tools.consumer"
SECONDS_MAX = 20.0
EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT = 0, 1, 2, 4

Rows = list[dict[str, Any]]
Show = Callable[[str, str], Rows]


@pytest.fixture
def show(bootstrap: str, tmp_path: Path) -> Show:
    """The records of a topic as a formatter prints them."""

    def read(topic: str, formatter: str) -> Rows:
        ran = run_tool(
            CONSOLE_CONSUMER,
            *("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"),
            *("--formatter", f"{FORMATTERS}.{formatter}", "--timeout-ms", "5000"),
            scratch=tmp_path,
        )
        return list(objects(ran.stdout))

    return read


def objects(text: str) -> Rows:
    """The formatter writes one JSON object after another, without anything in between."""
    decoder, position, found = json.JSONDecoder(), 0, []
    while (start := text.find("{", position)) >= 0:
        row, position = decoder.raw_decode(text, start)
        found.append(row)
    return found


@pytest.fixture
def topic(bootstrap: str, new_name: Callable[[str], str]) -> str:
    name = new_name("formatted")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(SECONDS_MAX)
    return name


def member(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "formatted",
            "enable.auto.commit": False,
        }
    )


def test_the_formatter_of_offsets_prints_commits(
    bootstrap: str, topic: str, show: Show, new_name: Callable[[str], str]
) -> None:
    group = new_name("group")
    committer = member(bootstrap, group)
    place = TopicPartition(topic, 1, 42, "a note")
    committer.commit(offsets=[place], asynchronous=False)
    committer.close()
    rows = show("__consumer_offsets", "OffsetsMessageFormatter")
    (row,) = [row for row in rows if row["key"]["data"]["group"] == group]
    assert row["key"]["data"] == {"group": group, "topic": topic, "partition": 1}
    assert row["value"]["data"]["offset"] == 42
    # The client sends the byte that ends a string in C along.
    assert row["value"]["data"]["metadata"].rstrip("\0") == "a note"
    assert row["value"]["data"]["commitTimestamp"] > 0


def test_the_formatter_of_groups_prints_members(
    bootstrap: str, topic: str, show: Show, new_name: Callable[[str], str]
) -> None:
    group = new_name("group")
    joined = member(bootstrap, group)
    joined.subscribe([topic])
    while len(joined.assignment()) != 2:
        joined.poll(0.1)
    joined.close()
    rows = show("__consumer_offsets", "GroupMetadataMessageFormatter")
    values = [row["value"]["data"] for row in rows if row["key"]["data"]["group"] == group]
    (with_member,) = [value for value in values if value["members"]]
    assert (with_member["protocolType"], with_member["generation"]) == ("consumer", 1)
    assert with_member["members"][0]["clientId"] == "formatted"
    assert with_member["leader"] == with_member["members"][0]["memberId"]
    assert values[-1]["members"] == [], "the last member has left"


def test_the_formatter_of_transactions_prints_every_state(
    bootstrap: str, topic: str, show: Show, new_name: Callable[[str], str]
) -> None:
    name = new_name("id")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(topic, b"one", partition=1)
    producer.commit_transaction(SECONDS_MAX)
    rows = show("__transaction_state", "TransactionLogMessageFormatter")
    values = [row["value"]["data"] for row in rows if row["key"]["data"]["transactionalId"] == name]
    states = [value["transactionStatus"] for value in values]
    assert states == [EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT]
    assert values[1]["transactionPartitions"] == [{"topic": topic, "partitionIds": [1]}]
    assert values[3]["transactionPartitions"] == []
    assert len({value["producerId"] for value in values}) == 1
