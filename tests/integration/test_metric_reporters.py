"""Reporters of a real broker: CSV files, lines of JSON, OTLP to a collector, Python classes."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import moldau
from moldau.metrics.otlp.otlp_reading import Point, read_points
from moldau.testing.broker_process import BrokerProcess
from tests.support.eventually import eventually

MESSAGES = "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec"
OWN = """
import json, os, time
from moldau.reporting import MetricsReporter

class Writes(MetricsReporter):
    def configure(self, settings):
        self.path = settings["own.path"]
        assert "metrics.otlp.headers" not in settings

    def report(self, at_ms, measurements):
        found = {each.mbean: each.value for each in measurements if not each.tags}
        with open(self.path, "w") as file:
            json.dump(found, file)

    def close(self):
        open(self.path + ".closed", "w").close()

class Raises(MetricsReporter):
    def report(self, at_ms, measurements):
        raise RuntimeError("cannot be done")

class Hangs(MetricsReporter):
    def report(self, at_ms, measurements):
        time.sleep(3600)

class Refuses(MetricsReporter):
    def configure(self, settings):
        raise ValueError("own.path is missing")

class NoReporter:
    pass
"""


class Collector(HTTPServer):
    """Takes what is sent by OTLP, as bytes; whether it is OTLP, a collector judges in
    tests/compat."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), CollectorPage)
        self.bodies: list[bytes] = []
        self.keys: list[str | None] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def points(self) -> list[Point]:
        return [point for body in list(self.bodies) for point in read_points(body, 100_000)]


class CollectorPage(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.keys.append(self.headers["X-Key"])
        self.server.bodies.append(gzip.decompress(body))
        self.send_response(200 if self.path == "/v1/metrics" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    yield server
    server.shutdown()
    server.server_close()


def produce(broker: BrokerProcess, count: int) -> None:
    with moldau.Producer({"bootstrap.servers": broker.bootstrap}) as producer:
        for _ in range(count):
            producer.send("reported", b"x").result()


def test_numbers_reach_every_reporter(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_reporters.py").write_text(OWN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    csv, lines, own = tmp_path / "csv", tmp_path / "metrics.json", tmp_path / "own.json"
    csv.mkdir()
    (csv / "of-somebody-else.txt").write_text("stays")
    overrides = {
        "kafka.metrics.reporters": "kafka.metrics.KafkaCSVMetricsReporter",
        "kafka.csv.metrics.reporter.enabled": "true",
        "kafka.csv.metrics.dir": str(csv),
        "kafka.metrics.polling.interval.secs": "1",
        "metrics.json.file": str(lines),
        "metrics.otlp.endpoint": f"http://127.0.0.1:{collector.server_port}",
        "metrics.otlp.headers": "X-Key=secret-of-the-collector",
        "metric.reporters": "own_reporters:Hangs,own_reporters.Writes,own_reporters:Raises",
        "own.path": str(own),
    }
    with BrokerProcess(tmp_path / "broker", overrides=overrides) as broker:
        produce(broker, 7)

        def newest() -> dict[str, float]:
            rows = [json.loads(line) for line in lines.read_text().splitlines()]
            return (
                {row["mbean"]: row["value"] for row in rows[-1]["metrics"] if not row["tags"]}
                if rows
                else {}
            )

        eventually(lambda: newest().get(MESSAGES) == 7)
        eventually(lambda: own.exists() and json.loads(own.read_text() or "{}").get(MESSAGES) == 7)
        name = "kafka_server_brokertopicmetrics_messagesin"
        eventually(lambda: Point(name, PLACE, 7, True, False) in collector.points)
        told = {point.name: point.value for point in collector.points if len(point.attributes) == 2}
        assert told["kafka_server_kafkaserver_brokerstate"] == 3
        assert set(collector.keys) == {"secret-of-the-collector"}
        file = csv / "MessagesInPerSec.csv"
        eventually(lambda: file.exists() and file.read_text().splitlines()[-1].split(",")[1] == "7")
        assert file.read_text().splitlines()[0] == (
            "# time,count,1 min rate,mean rate,5 min rate,15 min rate"
        )
        of_topic, state = csv / "MessagesInPerSec.topic.reported.csv", csv / "BrokerState.csv"
        eventually(lambda: of_topic.exists() and state.exists())
        header, row = state.read_text().splitlines()[:2]
        assert (header, row.split(",")[1]) == ("# time,value", "3")
        assert (csv / "of-somebody-else.txt").read_text() == "stays"
        eventually(lambda: "own_reporters:Raises failed: RuntimeError: cannot" in broker.log_text)
        assert "secret-of-the-collector" not in broker.log_text
    assert Path(f"{own}.closed").exists()
    eventually(lambda: "own_reporters:Hangs does not end" in broker.log_text)


PLACE = (("service.name", "kafka"), ("service.instance.id", "0"))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"metric.reporters": "own_reporters:Refuses"}, "ValueError: own.path is missing"),
        ({"metric.reporters": "own_reporters:NoReporter"}, "is not derived from"),
        ({"metric.reporters": "io.confluent.Reporter"}, "cannot be loaded: ModuleNotFoundError"),
        ({"kafka.metrics.reporters": "my.Reporter"}, "must be one of kafka.metrics.KafkaCSV"),
        ({"metrics.otlp.endpoint": "ftp://x"}, "must be http://host:port/path"),
        (
            {"metrics.otlp.endpoint": "http://x", "metrics.otlp.headers": "X-Key"},
            "[hidden] for configuration metrics.otlp.headers: must be name=value",
        ),
        ({"metrics.json.file": "/nowhere/metrics.json"}, "cannot be written: No such file"),
    ],
)
def test_a_reporter_that_cannot_be_had_keeps_the_broker_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], sentence: str
) -> None:
    (tmp_path / "own_reporters.py").write_text(OWN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    broker = BrokerProcess(tmp_path / "broker", overrides=settings)
    broker.spawn()
    assert broker.wait() == 1
    eventually(lambda: sentence in broker.log_text)


def test_a_reporter_cannot_be_named_while_the_broker_runs(tmp_path: Path) -> None:
    from moldau.admin import ConfigResource
    from moldau.errors import InvalidRequestError

    with (
        BrokerProcess(tmp_path) as broker,
        moldau.Admin({"bootstrap.servers": broker.bootstrap}) as admin,
        pytest.raises(InvalidRequestError, match="Cannot update these configs dynamically"),
    ):
        admin.incremental_alter_configs(
            {ConfigResource.broker(0): {"metric.reporters": "somebody:Else"}}
        )
