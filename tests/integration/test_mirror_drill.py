"""The drill of docs/mirroring.md, step by step, and a change-over while clients write."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

import moldau.testing
from moldau.admin import TopicPartition
from moldau.testing.local_broker import LocalBroker
from tests.support.eventually import eventually
from tests.support.mirrors import bytes_of, kill, mirror, mirror_file, mirror_well, start_mirror
from tests.support.tracked_topic import create, produce, read

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
SECONDS_MAX = 60


@pytest.fixture
def old() -> Iterator[LocalBroker]:
    with moldau.testing.broker(SETTINGS, with_faults=False) as broker:
        yield broker


@pytest.fixture
def new() -> Iterator[LocalBroker]:
    with moldau.testing.broker(SETTINGS, with_faults=False) as broker:
        yield broker


def texts(numbers: range) -> list[str]:
    return [str(number) for number in numbers]


def consume(bootstrap: str, count: int) -> list[str]:
    """As the group goes on, and commits."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"])
    found: list[str] = []

    def has_all() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value().decode().split()[0])
        return len(found) == count

    eventually(has_all, SECONDS_MAX)
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def test_the_drill_of_the_page(old: LocalBroker, new: LocalBroker, tmp_path: Path) -> None:
    create(old.bootstrap, "orders")
    produce(old.bootstrap, "orders", range(100))
    assert consume(old.bootstrap, 100) == texts(range(100))
    file = mirror_file(tmp_path, old.bootstrap, new.bootstrap)
    running = start_mirror(file)
    try:
        produce(old.bootstrap, "orders", range(100, 150))
        # Changing over.
        mirror_well("run", file, "--once")
    finally:
        kill(running)
    mirror_well("promote", file)
    produce(new.bootstrap, "orders", range(150, 200))
    assert consume(new.bootstrap, 100) == texts(range(100, 200))
    # What comes too late would be lost: it is said, and cut off only when asked for.
    produce(old.bootstrap, "orders", range(900, 905))
    assert "orders would be cut by 5 records" in mirror_well("failback", file)
    assert "orders is cut by 5 records" in mirror_well("failback", file, "--execute")
    assert "nothing to cut" in mirror_well("failback", file, "--execute")
    mirror_well("run", file, "--reverse", "--once")
    assert read(old.bootstrap, "orders") == texts(range(200))
    # And back to where it began.
    mirror_well("promote", file, "--reverse")
    produce(old.bootstrap, "orders", range(200, 220))
    assert consume(old.bootstrap, 20) == texts(range(200, 220))
    mirror_well("failback", file, "--reverse", "--execute")
    mirror_well("run", file, "--once")
    assert bytes_of(new, "orders") == bytes_of(old, "orders")
    with old.admin() as there, new.admin() as here:
        epochs = [
            admin.describe_topics(["orders"])["orders"].partitions[0].leader_epoch
            for admin in (there, here)
        ]
    assert epochs == [2 << 16, 2 << 16]


class Load:
    """Numbers, each sent until it is acknowledged; moves from one cluster to another."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[int] = []
        self.bootstrap = bootstrap
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        producer, at, number = None, "", 0
        while not self._stop.is_set():
            if at != self.bootstrap:
                at = self.bootstrap
                producer = Producer(
                    {
                        "bootstrap.servers": at,
                        "enable.idempotence": True,
                        "message.timeout.ms": 1000,
                        "log_level": 0,
                    }
                )
            assert producer is not None
            failed: list[object] = []
            producer.produce(
                "orders",
                str(number),
                on_delivery=lambda error, _, failed=failed: error and failed.append(error),
            )
            try:
                if producer.flush(5) == 0 and not failed:
                    self.acknowledged.append(number)
                    number += 1
            except KafkaException:
                at = ""


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_change_over_under_load_loses_nothing_that_was_mirrored(
    old: LocalBroker, new: LocalBroker, tmp_path: Path
) -> None:
    create(old.bootstrap, "orders")
    file = mirror_file(tmp_path, old.bootstrap, new.bootstrap)
    running = start_mirror(file)
    load = Load(old.bootstrap)
    try:
        eventually(lambda: end_of(new) > 200, SECONDS_MAX)
        # Nobody gives up what the source has without saying so.
        assert mirror("promote", file).returncode == 1 or end_of(new) >= end_of(old)
        old.kill()
        at_least = end_of(new)
        said = mirror("promote", file, "--now")
        assert said.returncode == 0, said.stderr
        mirrored = end_of(new)
        acknowledged = len(load.acknowledged)
        load.bootstrap = new.bootstrap
        eventually(lambda: len(load.acknowledged) > acknowledged + 100, SECONDS_MAX)
    finally:
        load.stop()
        kill(running)
    assert mirrored >= at_least > 200
    values = [int(each) for each in read(new.bootstrap, "orders")]
    # Everything mirrored is there, in order and once; what came afterwards too.
    assert values[:mirrored] == list(range(mirrored))
    # One that was sent as its broker died may have been written without being acknowledged.
    assert values[mirrored:] == load.acknowledged[-len(values[mirrored:]) :]
    old.start()
    mirror_well("failback", file, "--execute")
    mirror_well("run", file, "--reverse", "--once")
    assert bytes_of(old, "orders") == bytes_of(new, "orders")


def end_of(broker: LocalBroker) -> int:
    place = TopicPartition("orders", 0)
    with broker.admin() as admin:
        if "orders" not in admin.list_topics():
            return 0
        return admin.list_offsets({place: -1})[place].offset
