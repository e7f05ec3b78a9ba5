"""A scrape of a broker with ten thousand partitions: nobody else waits for it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import moldau
from moldau.net.loop_watch import LIMIT_VARIABLE, VARIABLE
from moldau.testing.broker_process import BrokerProcess, free_port
from tests.integration.test_server_metrics import page
from tests.support.loop_holds import Hold, told_in

pytestmark = pytest.mark.long

TOPICS, PARTITIONS_EACH = 100, 100
HELD_MS_MAX = 5
SCRAPES = 5
PATHS = (
    "/metrics",
    "/metrics/partitions",
    "/jolokia/read/kafka.log:type=Log,name=Size,*",
    "/jolokia/list/kafka.server",
)


def by_own_work(holds: list[Hold]) -> list[Hold]:
    """Not the collections of garbage, and not what the machine did meanwhile: the work itself."""
    return [each for each in holds if each.cpu_ms - each.collecting_ms > HELD_MS_MAX]


def test_a_scrape_never_holds_the_loop(tmp_path: Path) -> None:
    port, watch = free_port(), tmp_path / "watch"
    broker = BrokerProcess(
        tmp_path / "broker",
        overrides={"metrics.http.listener": f"127.0.0.1:{port}"},
        environment={VARIABLE: str(watch), LIMIT_VARIABLE: str(HELD_MS_MAX)},
    )
    with broker:
        with moldau.Admin({"bootstrap.servers": broker.bootstrap}) as admin:
            for number in range(TOPICS):
                admin.create_topics([moldau.NewTopic(f"topic-{number}", PARTITIONS_EACH, 1)])
        with moldau.Producer({"bootstrap.servers": broker.bootstrap}) as producer:
            for number in range(TOPICS * PARTITIONS_EACH):
                topic, partition = divmod(number, PARTITIONS_EACH)
                producer.send(f"topic-{topic}", b"x", partition=partition)
        time.sleep(2)  # what the broker does after that many writes is not asked here
        begun_ns = time.perf_counter_ns()
        lines = 0
        for path in PATHS:
            for _ in range(SCRAPES):
                lines = max(lines, page(port, path).count("\n"))
    assert lines > 17 * TOPICS * PARTITIONS_EACH
    assert by_own_work(told_in(watch, begun_ns)) == []
