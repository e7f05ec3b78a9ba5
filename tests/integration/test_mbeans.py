"""A broker's metrics by the names of MBeans: over /jolokia, and by `moldau jmx`."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

import moldau
from moldau.testing.broker_process import BrokerProcess, free_port
from tests.support.eventually import eventually

MESSAGES = "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec"


class Asking:
    def __init__(self, port: int) -> None:
        self.port = port

    def __call__(self, path: str, body: Any = None) -> Any:
        url = f"http://127.0.0.1:{self.port}/jolokia{path}"
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(url, data=data, timeout=60) as answer:
            assert answer.headers["Content-Type"].startswith("application/json")
            return json.load(answer)

    def status(self, path: str, data: bytes) -> int:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}{path}", data=data, timeout=60
            ) as answer:
                code: int = answer.status
        except urllib.error.HTTPError as fault:
            code = fault.code
        return code


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    port = free_port()
    overrides = {"metrics.http.listener": f"127.0.0.1:{port}"}
    with BrokerProcess(tmp_path_factory.mktemp("mbeans"), overrides=overrides) as broker:
        with moldau.Producer({"bootstrap.servers": broker.bootstrap}) as producer:
            for _ in range(25):
                producer.send("counted", b"x").result()
        yield Asking(port)


def test_an_mbean_is_read_by_its_name(ask: Asking) -> None:
    whole = ask(f"/read/{MESSAGES}")
    assert whole["status"] == 200
    assert whole["request"]["mbean"] == (
        "kafka.server:name=MessagesInPerSec,type=BrokerTopicMetrics"
    )
    assert whole["value"]["Count"] == 25
    assert whole["value"]["MeanRate"] > 0
    assert ask(f"/read/{MESSAGES},topic=counted/Count")["value"] == 25
    times = ask("/read/kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Produce")
    assert times["value"]["Count"] == 25
    assert 0 < times["value"]["50thPercentile"] <= times["value"]["999thPercentile"]
    assert (
        ask("/read/kafka.controller:type=KafkaController,name=ActiveControllerCount/Value")["value"]
        == 1
    )
    size = ask("/read/kafka.log:type=Log,name=Size,topic=counted,partition=0/Value")["value"]
    assert (
        size == ask("/read/kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec/Count")["value"]
    )
    sockets = ask("/read/kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*")
    assert "connection-count" in next(iter(sockets["value"].values()))


def test_rates_are_those_of_the_last_minutes(ask: Asking) -> None:
    eventually(lambda: ask(f"/read/{MESSAGES}/OneMinuteRate")["value"] > 0)
    assert ask(f"/read/{MESSAGES},topic=counted/FifteenMinuteRate")["value"] > 0


def test_patterns_searches_and_lists(ask: Asking) -> None:
    many = ask("/read/kafka.server:type=BrokerTopicMetrics,topic=counted,*/Count")["value"]
    assert many["kafka.server:name=MessagesInPerSec,topic=counted,type=BrokerTopicMetrics"] == {
        "Count": 25
    }
    found = ask("/search/kafka.log:topic=counted,*?canonicalNaming=false")["value"]
    assert "kafka.log:type=Log,name=Size,topic=counted,partition=0" in found
    listed = ask("/list")["value"]
    assert set(ask("/list/kafka.log")["value"]) == set(listed["kafka.log"])
    row = listed["kafka.server"]["name=BrokerState,type=KafkaServer"]
    assert row["attr"]["Value"]["rw"] is False


def test_what_is_not_there_is_said_as_jolokia_does(ask: Asking) -> None:
    nothing = ask("/read/kafka.server:type=Nothing")
    assert (nothing["status"], nothing["error_type"]) == (
        404,
        "javax.management.InstanceNotFoundException",
    )
    assert ask("/read/kafka.server:type=Nothing,*")["status"] == 404
    assert ask(f"/read/{MESSAGES}/Nothing")["error_type"] == (
        "javax.management.AttributeNotFoundException"
    )
    assert ask("/read/nonsense")["status"] == 400
    assert ask("/dance/kafka.server:type=Nothing")["status"] == 400
    for change in (f"/write/{MESSAGES}/Count/0", "/exec/java.lang:type=Memory/gc"):
        assert ask(change)["status"] == 403


def test_a_list_of_domains_by_a_pattern_finds_none(ask: Asking) -> None:
    assert ask("/list/kafka.*")["status"] == 404


def test_many_are_asked_at_once(ask: Asking) -> None:
    row = {"type": "read", "mbean": MESSAGES, "attribute": "Count"}
    answers = ask("", [row, {"type": "read", "mbean": "x:y=z"}, "nonsense", {"type": "version"}])
    assert [answer["status"] for answer in answers] == [200, 404, 400, 200]
    assert ask("", row)["value"] == 25
    assert ask.status("/jolokia", b"x" * 70_000) == 413
    assert ask.status("/jolokia", b"no json") == 200
    assert ask.status("/metrics", b"{}") == 405


def test_the_command_prints_what_kafkas_jmx_tool_does(ask: Asking) -> None:
    def ran(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "moldau.main", "jmx"]
        return subprocess.run(
            [*command, "--jmx-url", f"127.0.0.1:{ask.port}", *words],
            capture_output=True,
            text=True,
            timeout=60,
        )

    name = ("--object-name", MESSAGES)
    once = ran(*name, "--attributes", "Count", "--one-time", "true")
    assert once.returncode == 0
    header, row = once.stdout.splitlines()
    assert header == f'"time","{MESSAGES}:Count"'
    assert row.endswith(",25")
    told = ran(*name, "--reporting-interval", "-1", "--report-format", "properties", "--wait")
    assert f"{MESSAGES}:Count=25\n" in told.stdout
    assert told.stdout.startswith("time=")
    csv = ran(*name, "--attributes", "Count", "--one-time", "--report-format", "csv")
    assert csv.stdout.endswith(f'{MESSAGES}:Count,"25"\n')
    missing = ran("--object-name", "kafka.server:type=Nothing", "--one-time")
    assert missing.returncode == 1
    assert "No matched attributes for the queried objects" in missing.stderr
    assert ran("--jmx-url", "service:jmx:rmi:///jndi/rmi://:9999/jmxrmi").returncode == 1
