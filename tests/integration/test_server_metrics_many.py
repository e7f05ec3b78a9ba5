"""A scrape of a broker with ten thousand partitions: nobody else waits for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import moldau
from moldau.broker.monitoring.http_listener import TURN_SECONDS
from moldau.testing.broker_process import BrokerProcess, free_port
from tests.integration.test_server_metrics import page
from tests.support.page_steps import VARIABLE

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


class SteppedBroker(BrokerProcess):
    def command(self) -> list[str]:
        usual = super().command()
        place = usual.index("moldau.main")
        return [*usual[:place], "tests.support.page_steps", *usual[place + 1 :]]


def test_a_scrape_never_holds_the_loop(tmp_path: Path) -> None:
    port, steps = free_port(), tmp_path / "steps"
    broker = SteppedBroker(
        tmp_path / "broker",
        overrides={"metrics.http.listener": f"127.0.0.1:{port}"},
        environment={VARIABLE: str(steps), "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    with broker:
        with moldau.Admin({"bootstrap.servers": broker.bootstrap}) as admin:
            for number in range(TOPICS):
                admin.create_topics([moldau.NewTopic(f"topic-{number}", PARTITIONS_EACH, 1)])
        lines = 0
        for path in PATHS:
            for _ in range(SCRAPES):
                lines = max(lines, page(port, path).count("\n"))
    assert lines > 17 * TOPICS * PARTITIONS_EACH
    told = [json.loads(line) for line in steps.read_text().splitlines()]
    last = {path: (count, longest_ms) for path, count, longest_ms in told}
    assert last.keys() == set(PATHS)
    # Others have their turn after the first step that ends later than this.
    longest_ms = {path: TURN_SECONDS * 1000 + step_ms for path, (_, step_ms) in last.items()}
    assert not {path: held for path, held in longest_ms.items() if held > HELD_MS_MAX}
