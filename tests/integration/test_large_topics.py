"""Topics of very many partitions on one broker: others are served while their logs are made, and a
start after a clean stop does not look at any of them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from moldau.testing.broker_process import BrokerProcess, answers
from tests.support.eventually import eventually

PARTITIONS = 1000


def test_a_large_topic_is_made_beside_the_loop_and_answered_when_it_is_there(
    tmp_path: Path,
) -> None:
    with BrokerProcess(tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        (future,) = admin.create_topics([NewTopic("large", PARTITIONS, 1)]).values()
        slowest_s = 0.0
        while not future.done():
            began = time.monotonic()
            assert answers(broker.port, 20)
            slowest_s = max(slowest_s, time.monotonic() - began)
        future.result(20)
        assert len(list(broker.data.glob("large-*"))) == PARTITIONS
        assert slowest_s < 0.5, "others waited for the thousand logs"


def test_a_stop_and_a_start_open_no_file_of_partitions_that_nobody_uses(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    with broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        (future,) = admin.create_topics([NewTopic("large", PARTITIONS, 1)]).values()
        future.result(20)
    with broker:
        eventually(lambda: f"Loaded {PARTITIONS} logs" in broker.log_text)
        assert len(os.listdir(f"/proc/{broker.pid}/fd")) < 50
        assert "Completed load of Log" not in broker.log_text
