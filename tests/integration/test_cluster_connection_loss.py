"""A controller whose connection to ZooKeeper breaks while it writes, on real processes.

The session goes on over the next connection, so the controller stays the controller, as Apache
Kafka's does: what was on its way is found out and repeated, and every client gets its answer.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from moldau.testing.broker_process import BrokerProcess
from moldau.testing.zookeeper_process import ZooKeeperProcess, zookeeper
from tests.support import seeds
from tests.support.eventually import eventually
from tests.support.gates import Gates

BREAKS = 12
CLIENTS = 4
ANSWER_SECONDS_MAX = 60
GATHERING_SECONDS = (0.005, 0.2)
"""For so long nothing passes, so that what is lost was on its way."""


class Way:
    """From the broker to ZooKeeper."""

    def __init__(self, server: ZooKeeperProcess) -> None:
        self._gates = Gates()
        self._is_shut = False
        self.port = self._gates.open(server.port, lambda _: self._is_shut)

    def break_off(self, gathering_s: float) -> None:
        self._is_shut = True
        self._gates.look()
        time.sleep(gathering_s)
        self._gates.break_shut()
        self._is_shut = False
        self._gates.look()

    def close(self) -> None:
        self._gates.close()


class Creator(threading.Thread):
    """Creates topic after topic, each asked for once; some are given settings and partitions."""

    def __init__(self, bootstrap: str, number: int, is_over: threading.Event) -> None:
        super().__init__()
        self.created: list[str] = []
        self.faults: list[str] = []
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._number = number
        self._is_over = is_over

    def run(self) -> None:
        while not self._is_over.is_set():
            name = f"topic-{self._number}-{len(self.created)}"
            new = NewTopic(name, 3, 1, config={"retention.ms": "60000"})
            try:
                asked = self._admin.create_topics([new], operation_timeout=ANSWER_SECONDS_MAX)
                asked[name].result(ANSWER_SECONDS_MAX)
            except Exception as fault:
                # Told by the test, in its own thread.
                self.faults.append(f"{name}: {fault!r}")
                return
            self.created.append(name)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperProcess]:
    with zookeeper(tmp_path / "zookeeper") as server:
        yield server


def test_a_controller_whose_connections_break_stays_in_office_and_answers_everybody(
    server: ZooKeeperProcess, tmp_path: Path
) -> None:
    chance = seeds.chance()
    way = Way(server)
    settings = {
        "broker.id": "0",
        "zookeeper.connect": f"127.0.0.1:{way.port}/kafka",
        # A session outlives all of this, also on a slow machine.
        "zookeeper.session.timeout.ms": "40000",
    }
    broker = BrokerProcess(tmp_path / "broker", overrides=settings)
    watcher = KazooClient(f"{server.connect}/kafka", timeout=40)
    try:
        broker.start()
        watcher.start()
        eventually(lambda: "Ready to serve as the new controller" in broker.log_text)
        created = disturb(broker, way, chance)
        assert int(watcher.get("/controller_epoch")[0]) == 1, broker.log_text
        assert "esign" not in broker.log_text
        assert sorted(watcher.get_children("/brokers/topics")) == sorted(created)
        for name in created:
            assert len(watcher.get_children(f"/brokers/topics/{name}/partitions")) == 3
    finally:
        broker.kill()
        watcher.stop()
        watcher.close()
        way.close()


def disturb(broker: BrokerProcess, way: Way, chance: random.Random) -> list[str]:
    """The topics that were created meanwhile."""
    is_over = threading.Event()
    creators = [Creator(broker.bootstrap, number, is_over) for number in range(CLIENTS)]
    for each in creators:
        each.start()
    try:
        for number in range(BREAKS):
            counts = [len(each.created) for each in creators]
            eventually(lambda before=counts: have_gone_on(creators, before), ANSWER_SECONDS_MAX)
            way.break_off(chance.uniform(*GATHERING_SECONDS))
            said = number + 1
            eventually(lambda count=said: reconnections(broker) >= count, ANSWER_SECONDS_MAX)
    finally:
        is_over.set()
        for each in creators:
            each.join()
    assert [fault for each in creators for fault in each.faults] == []
    return [name for each in creators for name in each.created]


def have_gone_on(creators: list[Creator], before: list[int]) -> bool:
    """Somebody has failed, or everybody has created another topic."""
    return any(each.faults for each in creators) or all(
        len(each.created) > count for each, count in zip(creators, before, strict=True)
    )


def reconnections(broker: BrokerProcess) -> int:
    return broker.log_text.count("Disconnected from ZooKeeper")
