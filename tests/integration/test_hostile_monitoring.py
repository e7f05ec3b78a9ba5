"""Hostile clients at the port for metrics, and those that push metrics, beside a healthy one."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from moldau.metrics.otlp.otlp_writing import Family, Series, metrics_data
from moldau.metrics.otlp.protobuf_fields import bytes_field, double_field, text_field
from moldau.net.loop_watch import VARIABLE as LOOP_WATCH
from moldau.testing.broker_process import BrokerProcess, free_port
from moldau.wire.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from tests.support.eventually import eventually
from tests.support.hostile_costs import GOOD, Attack, Client, Harm, create, measure
from tests.support.loop_holds import failing, summary

GROWTH_BYTES_MAX = 200_000_000
WAIT_MS_MAX = 10_000
ASKING = 16
ASKING_SECONDS = 8.0
PUSHING = 100
TOPICS = 100
TEXT_BYTES = 900_000

EVERYTHING = {"type": "read", "mbean": "*:*"}
FOR_MANY = {"type": "read", "mbean": "*:*", "attribute": [f"a{n}" for n in range(6_000)]}
HEAVY = ({"type": "search", "mbean": "*:x=*,*"}, {"type": "list"}, EVERYTHING)


def posted(given: object) -> bytes:
    body = json.dumps(given).encode()
    return b"POST /jolokia HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


QUESTIONS = [
    b"GET /metrics HTTP/1.1\r\n\r\n",
    b"GET /metrics/partitions HTTP/1.1\r\n\r\n",
    b"GET /clients.json HTTP/1.1\r\n\r\n",
    posted([*HEAVY] * 33),
    posted(FOR_MANY),
    posted({"type": "list", "path": "!a" * 30_000}),
]


def ask_everything(port: int) -> None:
    ends = time.monotonic() + ASKING_SECONDS

    def ask(number: int) -> None:
        while time.monotonic() < ends:
            number += 1
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), 30.0) as asking,
            ):
                asking.sendall(QUESTIONS[number % len(QUESTIONS)])
                while time.monotonic() < ends and asking.recv(1 << 16):
                    pass

    together([lambda number=number: ask(number) for number in range(ASKING)])  # type: ignore[misc]


def together(work: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def swollen() -> bytes:
    """Each point has the attributes of its resource: a megabyte that asks for gigabytes."""
    pair = text_field(1, "k") + bytes_field(2, text_field(1, "v"))
    resource = bytes_field(1, bytes_field(1, pair)) * 30_000
    row = bytes_field(1, bytes_field(7, pair) + double_field(4, 1.0))
    metric = text_field(1, "n") + bytes_field(5, row * 10_000)
    return bytes_field(1, resource + bytes_field(2, bytes_field(2, metric)))


def wordy(number: int) -> bytes:
    """Attributes of any length, other ones in every push."""
    rows = [Series(((f"key_{number}_{n}", "v"),), n) for n in range(30)]
    families = [Family("n", "", False, [row]) for row in rows]
    return metrics_data({"text": str(number) * TEXT_BYTES}, "s", families, 1, 2)


def push_much(port: int) -> None:
    with Client(port) as client:
        for number in range(PUSHING):
            asked = client.ask(71, 0, GetTelemetrySubscriptionsRequest())
            assert isinstance(asked, GetTelemetrySubscriptionsResponse)
            data = swollen() if number < 3 else wordy(number % 10)
            request = PushTelemetryRequest(
                client_instance_id=asked.client_instance_id,
                subscription_id=asked.subscription_id,
                metrics=data,
            )
            answer = client.ask(72, 0, request)
            assert isinstance(answer, PushTelemetryResponse)


def hostile(directory: Path, attack: Callable[[BrokerProcess, int], None]) -> Harm:
    """Beside a broker's port and that for its metrics."""
    port = free_port()
    overrides = {
        "metrics.http.listener": f"127.0.0.1:{port}",
        "offsets.topic.num.partitions": "1",
        "telemetry.max.bytes": "1048576",
    }
    watch = {LOOP_WATCH: str(directory / "loop")}
    with BrokerProcess(directory, overrides=overrides, environment=watch) as broker:
        create(broker.port, {GOOD: 1, **{f"topic-{number}": 4 for number in range(TOPICS)}})
        harm = measure(broker, Attack(list, run=lambda _, __: attack(broker, port)))
        assert "Traceback" not in broker.log_text
    print(
        f"p99 {harm.p99_ms:.0f} ms, longest {harm.longest_ms:.0f} ms,"
        f" memory {harm.grown_bytes / 1e6:.0f} MB, {len(harm.holds)} holds"
    )
    assert summary(failing(harm.holds)) == []
    return harm


@pytest.mark.long
def test_a_healthy_client_is_served_beside_many_that_ask_for_metrics(tmp_path: Path) -> None:
    health_ms: list[float] = []
    ended: list[bool] = []

    def attack(broker: BrokerProcess, port: int) -> None:
        asking = threading.Thread(target=ask_everything, args=(port,))
        asking.start()
        while asking.is_alive():
            health_ms.append(asked_in_ms(port, "/health/live"))
        asking.join()
        # Those that hung up hold no place for a page any more.
        eventually(lambda: answers_whole_page(port))
        ended.append(True)

    harm = hostile(tmp_path, attack)
    assert harm.grown_bytes < GROWTH_BYTES_MAX
    assert harm.longest_ms < WAIT_MS_MAX
    assert ended, "a health page was not answered"
    assert len(health_ms) > 1
    assert max(health_ms) < WAIT_MS_MAX


def asked_in_ms(port: int, path: str) -> float:
    begun = time.perf_counter()
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=WAIT_MS_MAX / 1000) as answer:
        assert answer.status == 200
        answer.read()
    time.sleep(0.02)
    return (time.perf_counter() - begun) * 1000


def answers_whole_page(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WAIT_MS_MAX / 1000) as answer:
            return bool(answer.read().endswith(b"\n"))
    except HTTPError:
        return False  # 503: the places are taken


def test_pushes_that_are_refused_leave_nothing_behind(tmp_path: Path) -> None:
    """What is refused was kept, in a circle with its fault, until Python looked for garbage."""
    harm = hostile(tmp_path, lambda broker, port: push_much(broker.port))
    assert harm.grown_bytes < PUSHING * TEXT_BYTES / 2
    assert harm.longest_ms < WAIT_MS_MAX
