"""Disks that are full, read-only, gone or closed to a broker that has two of them, when it starts
and while it runs: what lies on the bad one is refused with KAFKA_STORAGE_ERROR, the other serves,
one sentence says what is wrong, and nothing acknowledged is lost."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.broker_process import BrokerProcess
from tests.support.eventually import eventually
from tests.support.small_disk import DISK_BYTES, mounted

VALUE = random.Random(1).randbytes(20_000)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "small") as path:
        yield path


WITHOUT_PRIVILEGES = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
"""Runs a command as root that permissions of files bind as they bind others."""


class Bench:
    """A broker with a large and a small disk, and a topic with a partition on each."""

    def __init__(self, tmp_path: Path, small: Path, prefix: Sequence[str] = ()) -> None:
        self.small = small
        self.large = large = tmp_path / "large"
        overrides = {"log.dirs": f"{large},{small}", "log.flush.interval.messages": "1"}
        self.broker = BrokerProcess(tmp_path / "broker", overrides=overrides, prefix=prefix)
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

    def fill_both(self) -> None:
        assert self.produce(self.bad, 3) == []
        assert self.produce(self.good, 3) == []

    def check_only_the_small_one_fails(self, reason: str) -> None:
        """Soon, with one sentence, and as a whole."""
        sentence = f"Log directory {self.small} is offline: "
        eventually(lambda: sentence in self.broker.log_text)
        (line,) = [row for row in self.broker.log_text.splitlines() if sentence in row]
        assert reason in line
        errors = self.produce(self.bad, 1)
        assert {error.name() for error in errors} == {"KAFKA_STORAGE_ERROR"}
        assert self.produce(self.good, 3) == []
        assert self.stored(self.good) == self.acknowledged[self.good]
        assert "Traceback" not in self.broker.log_text

    def start_again_and_check(self) -> None:
        self.broker.start()
        try:
            self.check_nothing_lost()
            self.fill_both()
        finally:
            assert self.broker.stop() == 0

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
        eventually(lambda: "No space left on device" in bench.broker.log_text)
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
        eventually(lambda: f"Log directory {small_disk} is offline" in bench.broker.log_text)
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


def test_a_disk_that_becomes_read_only_goes_offline_as_a_whole(
    tmp_path: Path, small_disk: Path
) -> None:
    bench = Bench(tmp_path, small_disk)
    try:
        bench.fill_both()
        # The same files through a read-only mount: a plain one is refused while files are open.
        subprocess.run(["mount", "--bind", str(small_disk), str(small_disk)], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(small_disk)], check=True)
        bench.check_only_the_small_one_fails("Read-only file system")
    finally:
        assert bench.broker.stop() == 0
    subprocess.run(["umount", "-l", str(small_disk)], check=True)
    bench.start_again_and_check()


def test_a_log_directory_that_is_removed_goes_offline_as_a_whole(tmp_path: Path) -> None:
    small = tmp_path / "small"
    bench = Bench(tmp_path, small)
    try:
        bench.fill_both()
        small.rename(tmp_path / "elsewhere")
        bench.check_only_the_small_one_fails("it was removed or emptied")
    finally:
        assert bench.broker.stop() == 0
    (tmp_path / "elsewhere").rename(small)
    bench.start_again_and_check()


def test_a_log_directory_without_permission_goes_offline_as_a_whole(tmp_path: Path) -> None:
    small = tmp_path / "small"
    bench = Bench(tmp_path, small, prefix=WITHOUT_PRIVILEGES)
    try:
        bench.fill_both()
        small.chmod(0o000)
        bench.check_only_the_small_one_fails("Permission denied")
    finally:
        assert bench.broker.stop() == 0
    bench.broker.start()
    try:
        # At the start as well, and with the same words.
        eventually(lambda: f"Log directory {small} is offline: cannot use" in bench.broker.log_text)
        assert bench.produce(bench.good, 1) == []
    finally:
        assert bench.broker.stop() == 0
    small.chmod(0o755)
    bench.start_again_and_check()


def test_a_broker_starts_on_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    bench = Bench(tmp_path, small_disk)
    try:
        bench.produce(bench.good, 3)
        assert bench.produce(bench.bad, DISK_BYTES // len(VALUE) + 20)
    finally:
        bench.broker.kill()
    bench.broker.start()
    try:
        assert bench.produce(bench.good, 3) == []
        assert bench.stored(bench.good) == bench.acknowledged[bench.good]
        assert "Traceback" not in bench.broker.log_text
    finally:
        bench.broker.kill()
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    bench.start_again_and_check()


def test_a_full_disk_serves_again_once_there_is_room(tmp_path: Path, small_disk: Path) -> None:
    bench = Bench(tmp_path, small_disk)
    ballast = small_disk / "ballast"
    try:
        bench.fill_both()
        with ballast.open("wb") as file:
            free = os.statvfs(small_disk)
            file.write(bytes(free.f_bavail * free.f_frsize))
        errors = bench.produce(bench.bad, 1)
        assert {error.name() for error in errors} == {"KAFKA_STORAGE_ERROR"}
        ballast.unlink()
        assert bench.produce(bench.bad, 2) == []
        assert "is offline" not in bench.broker.log_text
    finally:
        assert bench.broker.stop() == 0
    bench.start_again_and_check()


def test_a_broker_without_any_directory_left_stops_with_a_sentence(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    shutil.rmtree(broker.data)
    assert broker.wait() == 1
    last = f"Shutdown broker because all log dirs in {broker.data} have failed"
    eventually(lambda: broker.log_text.count(last) == 1)
    assert "Traceback" not in broker.log_text


def test_a_broker_that_may_not_use_its_only_directory_does_not_start(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, prefix=WITHOUT_PRIVILEGES)
    broker.data.mkdir()
    broker.data.chmod(0o500)
    broker.spawn()
    assert broker.wait() == 1
    sentence = f"cannot use log directory {broker.data}: not readable and writable"
    eventually(lambda: sentence in broker.log_text)
    assert "Traceback" not in broker.log_text
