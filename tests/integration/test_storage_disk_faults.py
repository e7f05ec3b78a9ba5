"""Disks that are full, read-only or gone while a broker runs on two of them: what lies on the bad
one is refused with KAFKA_STORAGE_ERROR, the other serves, and nothing acknowledged is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import BrokerProcess

DISK_BYTES = 4 << 20
VALUE = os.urandom(20_000)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "small"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting is not possible here")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


class Bench:
    """A broker with a large and a small disk, and a topic with a partition on each."""

    def __init__(self, tmp_path: Path, small: Path) -> None:
        large = tmp_path / "large"
        overrides = {"log.dirs": f"{large},{small}", "log.flush.interval.messages": "1"}
        self.broker = BrokerProcess(tmp_path / "broker", overrides=overrides)
        self.broker.start()
        self.admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for future in self.admin.create_topics([NewTopic("t", 2, 1)]).values():
            future.result(20)
        (self.bad,) = [int(path.name[-1]) for path in small.iterdir() if path.is_dir()]
        self.good = 1 - self.bad
        self.acknowledged: dict[int, list[int]] = {0: [], 1: []}

    def produce(self, partition: int, count: int) -> list[KafkaError]:
        """The errors; offsets of what was acknowledged are remembered."""
        errors: list[KafkaError] = []

        def answered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                errors.append(error)
            else:
                self.acknowledged[partition].append(message.offset() or 0)

        settings = {"bootstrap.servers": self.broker.bootstrap, "retries": 0, "linger.ms": 0}
        producer = Producer({**settings, "message.timeout.ms": 20_000})
        for _ in range(count):
            producer.produce("t", VALUE, partition=partition, on_delivery=answered)
            producer.flush(20)
        return errors

    def stored(self, partition: int) -> list[int]:
        settings = {"bootstrap.servers": self.broker.bootstrap, "group.id": "g"}
        consumer = Consumer({**settings, "enable.partition.eof": True})
        consumer.assign([TopicPartition("t", partition, 0)])
        offsets = []
        while (message := consumer.poll(20)) is not None and not message.error():
            assert message.value() == VALUE
            offsets.append(message.offset() or 0)
        consumer.close()
        return offsets

    def check_nothing_lost(self) -> None:
        for partition in (0, 1):
            assert set(self.acknowledged[partition]) <= set(self.stored(partition))


def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path, small_disk: Path) -> None:
    bench = Bench(tmp_path, small_disk)
    try:
        errors = bench.produce(bench.bad, DISK_BYTES // len(VALUE) + 20)
        assert errors
        assert {error.name() for error in errors} <= {"KAFKA_STORAGE_ERROR", "LEADER_NOT_AVAILABLE"}
        assert bench.produce(bench.good, 3) == []
        assert "No space left on device" in bench.broker.log_text
        assert "Traceback" not in bench.broker.log_text
    finally:
        bench.broker.kill()
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    bench.broker.start()
    try:
        bench.check_nothing_lost()
        assert bench.produce(bench.bad, 3) == []
    finally:
        assert bench.broker.stop() == 0


def test_a_directory_that_is_removed_stops_nobody_else(tmp_path: Path, small_disk: Path) -> None:
    bench = Bench(tmp_path, small_disk)
    try:
        assert bench.produce(bench.bad, 3) == []
        assert bench.produce(bench.good, 3) == []
        shutil.rmtree(small_disk / f"t-{bench.bad}")
        bench.produce(bench.bad, 2)
        assert bench.produce(bench.good, 3) == []
        assert set(bench.acknowledged[bench.good]) <= set(bench.stored(bench.good))
        assert "Traceback" not in bench.broker.log_text
    finally:
        bench.broker.kill()


def test_a_read_only_directory_is_left_out_at_the_start(tmp_path: Path, small_disk: Path) -> None:
    bench = Bench(tmp_path, small_disk)
    try:
        assert bench.produce(bench.bad, 3) == []
        assert bench.produce(bench.good, 3) == []
    finally:
        assert bench.broker.stop() == 0
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    bench.broker.start()
    try:
        assert f"Log directory {small_disk} is offline" in bench.broker.log_text
        assert bench.produce(bench.good, 3) == []
        assert bench.stored(bench.good) == bench.acknowledged[bench.good]
    finally:
        assert bench.broker.stop() == 0
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    bench.broker.start()
    try:
        bench.check_nothing_lost()
    finally:
        assert bench.broker.stop() == 0
