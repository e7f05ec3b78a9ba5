"""Metrics that foreign clients push, the tool that asks for them, and a real collector of OTLP."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import moldau
from moldau.testing.broker_process import BrokerProcess, free_port
from tests.compat.clients import program
from tests.compat.clients.port import Record
from tests.compat.waiting import eventually
from tests.integration.test_client_telemetry import Watched
from tests.support.apache_kafka import run_tool, tool_command

pytestmark = pytest.mark.compat

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
JAVA_SECONDS_MAX = 60
COMMAND = "org.apache.kafka.tools.ClientMetricsCommand"


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    port = free_port()
    overrides = {"metrics.http.listener": f"127.0.0.1:{port}"}
    with BrokerProcess(tmp_path_factory.mktemp("pushed"), overrides=overrides) as broker:
        watched = Watched(broker, port)
        java, go = "client_software_name=apache-kafka-java", "client_software_name=kgo"
        watched.subscribe("all", metrics="*", interval_ms="500", match=java)
        # To franz-go the star of Apache Kafka's brokers is the beginning of no name.
        watched.subscribe("named", metrics="org.apache.kafka.", interval_ms="500", match=go)
        yield watched


def names_of(watched: Watched, software: str) -> set[str]:
    return {
        row["name"]
        for client in watched.clients()["clients"]
        if client["client_software_name"] == software
        for row in client["metrics"]
    }


def test_javas_clients_push(watched: Watched, tmp_path: Path) -> None:
    """The producer stays until all is told: when it closes it pushes once more only if a request
    is under way just then."""
    where = ("--bootstrap-server", watched.broker.bootstrap, "--topic", "pushed")
    command = [*tool_command(CONSOLE_PRODUCER, tmp_path), *where]
    producing = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert producing.stdin is not None

    def sent() -> list[float]:
        return [
            row["value"]
            for client in watched.clients()["clients"]
            if client["client_software_name"] == "apache-kafka-java"
            for row in client["metrics"]
            if row["name"].endswith("producer.record.send.total")
        ]

    def is_told(total: int) -> bool:
        return sent() == [total]

    try:
        for already in (0, 250):
            producing.stdin.write(b"x\n" * 250)
            producing.stdin.flush()
            eventually(partial(is_told, already + 250), JAVA_SECONDS_MAX)
    finally:
        producing.stdin.close()
        assert producing.wait(60) == 0


def test_franz_go_pushes(watched: Watched) -> None:
    """It asks what is wanted once it has a connection for producing or consuming."""
    client = program.franz_go(watched.broker.bootstrap)
    try:
        client.create_topic("franz", partitions=1, configs={})
        client.produce("franz", [Record(None, b"x", (), time.time_ns() // 1_000_000)])
        name = "org.apache.kafka.producer.connection.creation.total"
        eventually(lambda: name in names_of(watched, "kgo"))
    finally:
        client.close()


def test_the_command_prints_what_kafkas_prints(watched: Watched, tmp_path: Path) -> None:
    where = ("--bootstrap-server", watched.broker.bootstrap)
    made = ("--alter", "--name", "x", "--metrics", "a,b", "--match", "client_id=z,client_id=y")

    def ours(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "moldau.main", "client-metrics", *where, *words]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return ran.returncode, ran.stdout

    def kafkas(*words: str) -> tuple[int, str]:
        ran = run_tool(COMMAND, *where, *words, scratch=tmp_path)
        return ran.returncode, ran.stdout

    for words in (
        made,
        ("--alter", "--name", "x", "--interval", "1000"),
        ("--alter", "--name", "x", "--interval", ""),
        ("--alter", "--name", "x", "--interval", "5"),
        ("--alter", "--name", "x", "--interval", "abc"),
        ("--alter", "--name", "x", "--match", "nobody=x"),
        ("--alter", "--metrics", "q"),
        ("--list",),
        ("--list", "--name", "x"),
        ("--describe",),
        ("--describe", "--name", "x"),
        ("--delete",),
    ):
        assert ours(*words) == kafkas(*words), words
    missing = ("--describe", "--name", "nothing")
    # The same text, but what fails ends with 1 here.
    assert kafkas(*missing) == (0, ours(*missing)[1])
    assert ours(*missing)[0] == 1
    assert ours("--delete", "--name", "x") == (0, "Deleted client metrics config for x.\n")
    assert kafkas(*made)[0] == 0
    assert kafkas("--delete", "--name", "x") == (0, "Deleted client metrics config for x.\n")


def test_the_collectors_own_receiver_takes_what_is_sent(tmp_path: Path) -> None:
    folder = program.fresh_copy("otlp")
    program.build(["go", "build", "-o", "receiver", "."], folder)
    port, output = free_port(), tmp_path / "received.json"
    with output.open("w") as file:
        receiver = subprocess.Popen([folder / "receiver", f"127.0.0.1:{port}"], stdout=file)
    try:
        eventually(lambda: output.read_text().startswith("ready\n"))
        overrides = {
            "metrics.otlp.endpoint": f"http://127.0.0.1:{port}/v1/metrics",
            "kafka.metrics.polling.interval.secs": "1",
        }
        with BrokerProcess(tmp_path / "broker", overrides=overrides) as broker:
            Watched(broker, 0).subscribe("all", metrics="*", interval_ms="200")
            settings = {"bootstrap.servers": broker.bootstrap, "client.id": "told"}
            with moldau.Producer(settings) as producer:
                for _ in range(5):
                    producer.send("sent", b"x").result()
                name = "kafka_server_brokertopicmetrics_messagesin"
                eventually(lambda: point(output, "service.name", "kafka", name) == "5")
                name = "org.apache.kafka.producer.connection.creation.total"
                eventually(lambda: point(output, "client_id", "told", name) is not None)
            assert "Metrics reporter otlp failed" not in broker.log_text
    finally:
        receiver.terminate()
        receiver.wait()


def point(output: Path, attribute: str, value: str, name: str) -> Any:
    """The newest number of that name from whoever has that attribute, as the receiver read it."""
    found = None
    whole, _, _ = output.read_text().rpartition("\n")
    for line in whole.splitlines()[1:]:
        for resource in json.loads(line)["resourceMetrics"]:
            pairs = {
                each["key"]: each["value"].get("stringValue")
                for each in resource["resource"]["attributes"]
            }
            if pairs.get(attribute) != value:
                continue
            for scope in resource["scopeMetrics"]:
                for metric in scope["metrics"]:
                    if metric["name"] == name:
                        (first, *_) = metric["sum"]["dataPoints"]
                        found = first["asInt"]
    return found
