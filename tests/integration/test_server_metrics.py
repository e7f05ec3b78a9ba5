"""Metrics of a real broker, compared with what a test has done and counted itself."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request
from pathlib import Path

import moldau
from moldau.testing.broker_process import BrokerProcess, free_port
from tests.support.eventually import eventually

LINE = re.compile(r'([a-z0-9_]+)(?:\{((?:[a-zA-Z_]+="(?:\\.|[^"\\])*",?)*)\})? ([0-9.e+-]+)')


def page(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        text: str = answer.read().decode()
        return text


def numbers(port: int, path: str = "/metrics") -> dict[str, float]:
    found: dict[str, float] = {}
    types: set[str] = set()
    for line in page(port, path).splitlines():
        if line.startswith("# TYPE "):
            assert line not in types, "lines of one metric stand together"
            types.add(line)
        elif not line.startswith("# HELP "):
            match = LINE.fullmatch(line)
            assert match is not None, line
            found[f"{match[1]}{{{match[2] or ''}}}"] = float(match[3])
    return found


def status(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(request)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        return answer.split(b"\r\n", 1)[0]


TRAFFIC = "kafka_server_brokertopicmetrics_"


def test_numbers_are_what_was_done(tmp_path: Path) -> None:
    port = free_port()
    overrides = {"metrics.http.listener": f"127.0.0.1:{port}", "num.partitions": "2"}
    with BrokerProcess(tmp_path, overrides=overrides) as broker:
        assert page(port, "/health/live") == "live\n"
        assert page(port, "/health/ready") == "ready\n"
        settings = {"bootstrap.servers": broker.bootstrap}
        with moldau.Producer({**settings, "linger.ms": 0}) as producer:
            for number in range(30):
                producer.send("numbers", b"%d" % number, partition=number % 2).result()
        consumer = moldau.Consumer(
            {**settings, "group.id": "readers", "auto.offset.reset": "earliest"}
        )
        read = 0
        with consumer:
            consumer.subscribe(["numbers"])
            while read < 30:
                read += len(consumer.poll(1000))
            consumer.commit()
        with moldau.Producer(settings) as producer:
            for _ in range(4):
                producer.send("numbers", b"behind", partition=1).result()
        found = numbers(port)
        assert found[TRAFFIC + 'messagesin_total{topic="numbers"}'] == 34
        bytes_in = found[TRAFFIC + 'bytesin_total{topic="numbers"}']
        partitions = numbers(port, "/metrics/partitions")
        sizes = [
            partitions[f'kafka_log_log_size{{topic="numbers",partition="{each}"}}']
            for each in range(2)
        ]
        assert bytes_in == sum(sizes)
        assert found[TRAFFIC + 'totalproducerequests_total{topic="numbers"}'] == 34
        assert 0 < found[TRAFFIC + 'bytesout_total{topic="numbers"}'] < bytes_in
        assert found["kafka_server_kafkaserver_brokerstate{}"] == 3
        assert found["kafka_controller_kafkacontroller_activecontrollercount{}"] == 1
        assert found['kafka_topic_partitions{topic="numbers"}'] == 2
        group = 'consumergroup="readers",topic="numbers"'
        assert found[f'kafka_consumergroup_lag{{{group},partition="0"}}'] == 0
        assert found[f'kafka_consumergroup_lag{{{group},partition="1"}}'] == 4
        assert found[f"kafka_consumergroup_lag_sum{{{group}}}"] == 4
        assert found[f"kafka_consumergroup_current_offset_sum{{{group}}}"] == 30
        end = 'kafka_log_log_logendoffset{topic="numbers",partition="1"}'
        assert partitions[end] == 19
        produces = [
            value for name, value in found.items() if 'requests_total{request="Produce"' in name
        ]
        times = found['kafka_network_requestmetrics_totaltimems_count{request="Produce"}']
        assert sum(produces) == times == 34

        with moldau.Admin(settings) as admin:
            admin.delete_topics(["numbers"])
        eventually(lambda: not any('topic="numbers"' in name for name in numbers(port)))
        after = numbers(port)
        assert after[TRAFFIC + "messagesin_total{}"] >= 34


def test_what_is_no_request_is_refused_and_the_port_may_be_taken(tmp_path: Path) -> None:
    port = free_port()
    overrides = {
        "metrics.http.listener": f"127.0.0.1:{port}",
        "metrics.http.hosts": "metrics.example",
    }
    with BrokerProcess(tmp_path / "first", overrides=overrides):
        assert status(port, b"POST /metrics HTTP/1.1\r\n\r\n") == b"HTTP/1.1 405 Method Not Allowed"
        assert status(port, b"nonsense\r\n\r\n") == b"HTTP/1.1 400 Bad Request"
        assert status(port, b"GET /secret HTTP/1.1\r\n\r\n") == b"HTTP/1.1 404 Not Found"
        assert status(port, b"GET /" + b"x" * 20_000).startswith(b"HTTP/1.1 431")
        assert status(port, b"HEAD /metrics HTTP/1.1\r\n\r\n") == b"HTTP/1.1 200 OK"
        asked = b"GET /health/live HTTP/1.1\r\nHost: %b\r\n\r\n"
        assert status(port, asked % b"localhost:1") == b"HTTP/1.1 200 OK"
        assert status(port, asked % b"metrics.example") == b"HTTP/1.1 200 OK"
        assert status(port, asked % b"rebound.example:9404") == b"HTTP/1.1 403 Forbidden"
        second = BrokerProcess(tmp_path / "second", overrides=overrides)
        second.spawn()
        assert second.wait() == 1
        assert f"metrics.http.listener=127.0.0.1:{port} cannot be had: " in second.log_text
        assert f"failed to bind to 127.0.0.1:{port}: the port is taken." in second.log_text
