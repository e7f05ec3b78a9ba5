"""Apache Kafka's own tools for groups and for transactions administer what clients left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.clients.catalogue import Clients
from tests.compat.clients.confluent import ConfluentKafka
from tests.compat.clients.confluent_groups import ConfluentGroups
from tests.compat.clients.confluent_transactions import ConfluentTransactions
from tests.compat.clients.group_port import Subscription
from tests.compat.clients.port import Record
from tests.compat.records import START_MS
from tests.compat.stored import last_stable_offset
from tests.compat.waiting import eventually
from tests.support.apache_kafka import run_tool

pytestmark = pytest.mark.compat

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"

NewName = Callable[[str], str]
Tool = Callable[..., str]


@pytest.fixture
def tool(bootstrap: str, tmp_path: Path) -> Tool:
    """Runs a tool against the broker; what it printed, if it ended well."""

    def run(main_class: str, *arguments: str) -> str:
        given = ("--bootstrap-server", bootstrap, *arguments)
        ran = run_tool(main_class, *given, scratch=tmp_path)
        assert ran.returncode == 0, f"{main_class}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}"
        return ran.stdout

    return run


@pytest.fixture
def client(clients: Clients) -> ConfluentKafka:
    client = clients["confluent-kafka"]
    assert isinstance(client, ConfluentKafka)
    return client


@pytest.fixture
def topic(client: ConfluentKafka, new_name: NewName) -> str:
    name = new_name("tools")
    client.create_topic(name, partitions=2, configs={})
    records = [Record(None, b"%d" % number, (), START_MS, number % 2) for number in range(20)]
    client.produce(name, records)
    return name


def row(printed: str, *starts: str) -> list[str]:
    """The columns of the line that begins with these."""
    lines = [line.split() for line in printed.splitlines()]
    found = [line for line in lines if line[: len(starts)] == list(starts)]
    assert len(found) == 1, f"no line begins with {starts}: {printed}"
    return found[0]


def test_the_groups_tool_shows_resets_and_deletes(
    tool: Tool, client: ConfluentKafka, topic: str, new_name: NewName
) -> None:
    group = new_name("group")
    member = ConfluentGroups(client).join(Subscription(group, (topic,), commits=True))
    eventually(lambda: len(member.reads()) == 20)
    this = ("--group", group)

    assert row(tool(GROUPS, "--describe", *this), group, topic, "1")[3:6] == ["10", "10", "0"]
    state = row(tool(GROUPS, "--describe", *this, "--state"), group)
    assert state[-3:] == ["range", "Stable", "1"]
    members = row(tool(GROUPS, "--describe", *this, "--members", "--verbose"), group)
    assert f"member-of-{group}" in members
    assert any(column.startswith(topic) for column in members)
    member.stop()
    assert group in tool(GROUPS, "--list").splitlines()

    reset = ("--reset-offsets", *this, "--topic", f"{topic}:1", "--to-offset", "3", "--execute")
    assert row(tool(GROUPS, *reset), group, topic, "1")[3] == "3"
    described = tool(GROUPS, "--describe", *this)
    assert row(described, group, topic, "1")[3:6] == ["3", "10", "7"]
    assert "Successful" in tool(GROUPS, "--delete-offsets", *this, "--topic", f"{topic}:1")
    described = tool(GROUPS, "--describe", *this)
    assert row(described, group, topic, "0")[3:6] == ["10", "10", "0"]
    assert f"{topic} 1 " not in " ".join(described.split())
    tool(GROUPS, "--delete", *this)
    assert group not in tool(GROUPS, "--list").splitlines()


def test_the_transactions_tool_shows_and_aborts_an_open_transaction(
    tool: Tool, client: ConfluentKafka, topic: str, bootstrap: str, new_name: NewName
) -> None:
    transactional_id = new_name("id")
    producer = ConfluentTransactions(client).producer(transactional_id)
    producer.begin()
    producer.send(topic, [b"open"], partition=1)
    assert last_stable_offset(bootstrap, topic, 1) == 10

    listed = row(tool(TRANSACTIONS, "list"), transactional_id)
    assert listed[-1] == "Ongoing"
    producer_id = listed[2]
    described = tool(TRANSACTIONS, "describe", "--transactional-id", transactional_id)
    assert f"{topic}-1" in described and "Ongoing" in described
    place = ("--topic", topic, "--partition", "1")
    active = row(tool(TRANSACTIONS, "describe-producers", *place), producer_id)
    assert active[-1] == "10"
    tool(TRANSACTIONS, "abort", *place, "--start-offset", "10")

    eventually(lambda: last_stable_offset(bootstrap, topic, 1) == 12)
    active = row(tool(TRANSACTIONS, "describe-producers", *place), producer_id)
    assert active[-1] == "None"
    producer.close()
