"""`moldau sql` on a real broker: topics, moments, the cluster's own tables, and mistakes."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import moldau.testing
from moldau.main import main
from moldau.testing.local_broker import LocalBroker

BASE_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with moldau.testing.broker({"log.retention.ms": "-1"}, with_faults=False) as broker:
        for name, partitions in (("orders", 2), ("customers", 1), ("my.topic-x", 1)):
            broker.create_topic(name, partitions=partitions)
        producer = broker.producer()
        for number in range(20):
            order = json.dumps({"id": number, "customer": f"c{number % 3}"})
            at = BASE_MS + number * 1_000
            producer.send("orders", order, f"c{number % 3}", partition=number % 2, timestamp_ms=at)
        for number in range(6):
            producer.send("customers", f"name {number}", f"c{number % 3}")
        producer.send("my.topic-x", "x")
        producer.flush()
        consumer = broker.consumer(group_id="readers")
        consumer.assign([("orders", 0)])
        consumer.commit({("orders", 0): 4})
        yield broker


class Asked:
    def __init__(
        self, broker: LocalBroker, capsys: pytest.CaptureFixture[str], *words: str
    ) -> None:
        self.code = main(["sql", "--bootstrap-server", broker.bootstrap, *words])
        said = capsys.readouterr()
        self.out, self.err = said.out, said.err


def rows(
    broker: LocalBroker, capsys: pytest.CaptureFixture[str], *words: str
) -> list[list[object]]:
    asked = Asked(broker, capsys, "--json", *words)
    assert asked.code == 0, asked.err
    return [list(json.loads(line).values()) for line in asked.out.splitlines()]


def test_topics_are_tables_that_can_be_joined(
    broker: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    question = """
        select o.id, decode(c.value) as name from orders o
        join latest.customers c on o.key = c.key where o.id < 3 order by o.id
    """
    found = rows(broker, capsys, "--values", "orders=id int64, customer string", question)
    assert found == [[0, "name 3"], [1, "name 4"], [2, "name 5"]]
    assert rows(broker, capsys, 'select count(*) from "my.topic-x"') == [[1]]
    with_own_name = "with orders as (select * from orders limit 3) select count(*) from orders"
    assert rows(broker, capsys, with_own_name) == [[3]]


def test_a_topic_can_be_asked_as_of_a_moment(
    broker: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    def count(moment: str) -> object:
        return rows(broker, capsys, f"select count(*) from orders at ({moment})")[0][0]

    assert count(f"timestamp => make_timestamptz({(BASE_MS + 9_000) * 1000})") == 10
    assert count("timestamp => now() - interval 100 years") == 0
    assert count("""version => '{"0": 3, "1": 2}'""") == 5


def test_the_cluster_tells_of_itself(
    broker: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rows(broker, capsys, "select * from lag") == [["readers", "orders", 0, 4, 10, 6]]
    assert rows(broker, capsys, "select group_id, members from cluster.groups") == [["readers", 0]]
    question = "select topic, partition, end_offset from partitions where topic = 'orders'"
    assert rows(broker, capsys, question) == [["orders", 0, 10], ["orders", 1, 10]]
    assert rows(broker, capsys, "select partitions from topics where topic = 'orders'") == [[2]]
    assert rows(broker, capsys, "select broker, is_controller from brokers") == [[0, True]]
    question = "select value from settings where resource = 'orders' and name = 'retention.ms'"
    assert rows(broker, capsys, question) == [["-1"]]


def test_answers_go_to_files_that_can_be_asked_again(
    broker: LocalBroker, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "orders.parquet"
    asked = Asked(broker, capsys, "--format", "parquet", "--output", str(path), "from orders")
    assert (asked.code, asked.out) == (0, "")
    question = f"select count(*) from orders join '{path}' f using (topic, partition, \"offset\")"
    assert rows(broker, capsys, question) == [[20]]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("from ordres",), r"There is no topic ordres at 127\.0\.0\.1:\d+; did you mean orders?"),
        (("from whatever",), "the cluster's own are topics, partitions, groups, lag"),
        (("selec 1",), 'The statement cannot be read: syntax error at or near "selec"'),
        (("select 1; select 2",), "One statement at a time"),
        (("drop table orders",), "Only questions can be asked"),
        (("select nope from orders",), 'Referenced column "nope" not found'),
        (("from lag at (version => 1)",), "lag is as of now only"),
        (("from orders at (timestamp => 'noon')",), "as_of cannot be 'noon'"),
        (("from orders at (version => 'x')",), "orders cannot be as of 'x': write offsets"),
        (("--values", "orders=id bool", "from orders"), "The value of orders-"),
        (("--values", "orders=id", "from orders"), "--values cannot be orders=id"),
        (("--avro", "orders", "from orders"), "--avro and --schema-registry belong together"),
        (("--watch", "no", "from orders"), "--watch cannot be no"),
        ((" ",), "What is to be asked?"),
    ],
)
def test_a_mistake_is_one_sentence(
    broker: LocalBroker,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    asked = Asked(broker, capsys, *words)
    assert asked.code == 1
    assert sentence in asked.err or re.search(sentence, asked.err)
    assert "Traceback" not in asked.err


def test_watching_asks_again_until_it_is_stopped(broker: LocalBroker) -> None:
    words = ("--watch", "0.2", "--format", "csv", "select count(*) as n from orders")
    command = [sys.executable, "-m", "moldau.main", "sql", "--bootstrap-server", broker.bootstrap]
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True) as process:
        limit = threading.Timer(120, process.kill)
        limit.start()
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(5)]
            assert lines == ["n\n", "20\n", "\n", "n\n", "20\n"]
            process.send_signal(signal.SIGINT)
            process.stdout.read()
            assert process.wait(60) == 130
        finally:
            limit.cancel()
            process.kill()
