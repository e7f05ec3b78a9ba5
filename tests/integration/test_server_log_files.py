"""Kafka's log files, written by real brokers: what stands where, how it is bounded, and that a disk
which takes no more costs lines and nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.broker_process import BrokerProcess
from tests.support.small_disk import mounted

FILES = {
    "controller.log",
    "kafka-authorizer.log",
    "kafka-request.log",
    "log-cleaner.log",
    "server.log",
    "state-change.log",
}
NO_SPACE = "cannot be written: No space left on device"
LAYOUT = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (DEBUG|INFO|WARN|ERROR) .* \([\w.]+\)"
)


class LoggedBroker(BrokerProcess):
    def __init__(self, folder: Path, logs: Path | None = None, **overrides: str) -> None:
        self.logs = logs or folder / "logs"
        named = {key.replace("_", "."): value for key, value in overrides.items()}
        self.environment = {"LOG_DIR": str(self.logs)}
        self.file: Path | None = None
        super().__init__(folder, overrides=named, environment=self.environment)

    def command(self) -> list[str]:
        return [*super().command(), *([str(self.file)] if self.file is not None else [])]

    def text(self, name: str) -> str:
        path = self.logs / name
        return path.read_text() if path.exists() else ""

    def all_text(self) -> str:
        return "".join(path.read_text() for path in sorted(self.logs.iterdir()))

    def create(self, topic: str, partitions: int = 1) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result()

    def set_level(self, logger: str, level: str) -> None:
        words = ["--entity-type", "broker-loggers", "--entity-name", "0", "--alter"]
        change = ["--add-config", f"{logger}={level}"]
        command = [sys.executable, "-m", "moldau.main", "configs"]
        where = ["--bootstrap-server", self.bootstrap]
        subprocess.run([*command, *where, *words, *change], check=True, timeout=60)


def fill(disk: Path) -> None:
    descriptor = os.open(disk / "ballast", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError, match="No space left"):
        while True:
            os.write(descriptor, bytes(4096))
    os.close(descriptor)


def sizes_in(folder: Path) -> dict[str, int]:
    sizes = {}
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # just removed
            sizes[path.name] = path.stat().st_size
    return sizes


def wait_for(is_so: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoggedBroker]:
    with LoggedBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def test_each_line_stands_in_the_file_it_belongs_to(broker: LoggedBroker) -> None:
    broker.create("files", 2)
    made = "New partition creation callback for files-0,files-1 (kafka.controller.KafkaController)"
    wait_for(lambda: made in broker.text("controller.log"), made)
    state = "[Controller id=0 epoch=1] Changed partition files-1"
    told = f"{state} state from NonExistentPartition to NewPartition with assigned replicas 0"
    wait_for(lambda: told in broker.text("state-change.log"), told)
    assert f"{state} from NewPartition to OnlinePartition with state LeaderAndIsr(leader=0" in (
        broker.text("state-change.log")
    )
    assert "[KafkaServer id=0] started (kafka.server.KafkaServer)" in broker.text("server.log")
    for line in ("New partition creation callback", "Changed partition"):
        assert line not in broker.text("server.log")
        assert line not in broker.log_text, "what has a file of its own is not printed"
    assert "[KafkaServer id=0] started" in broker.log_text, "what is in server.log is printed too"
    for path in broker.logs.iterdir():
        assert all(LAYOUT.fullmatch(line) for line in path.read_text().splitlines()), path
    assert {path.name for path in broker.logs.iterdir()} <= FILES
    assert {oct(path.stat().st_mode & 0o777) for path in broker.logs.iterdir()} == {"0o640"}


def test_the_last_lines_of_an_orderly_end_are_there(tmp_path: Path) -> None:
    with LoggedBroker(tmp_path) as broker:
        assert broker.stop() == 0
        lines = broker.text("server.log").splitlines()
        assert lines[-1].endswith(
            "[KafkaServer id=0] shut down completed (kafka.server.KafkaServer)"
        )
        assert broker.log_text.splitlines() == lines


def test_what_was_written_before_a_kill_is_there_and_is_gone_on_with(tmp_path: Path) -> None:
    broker = LoggedBroker(tmp_path)
    broker.start()
    wait_for(lambda: "] started (" in broker.text("server.log"), "the line of the start")
    broker.kill()
    before = broker.text("server.log")
    broker.start()
    broker.stop()
    assert broker.text("server.log").startswith(before)
    assert broker.text("server.log").count("] started (") == 2


def test_a_file_of_another_hour_is_rolled_by_kafkas_name(tmp_path: Path) -> None:
    broker = LoggedBroker(tmp_path)
    broker.logs.mkdir()
    (broker.logs / "server.log").write_text("of an hour long ago\n")
    then = time.mktime((2021, 4, 14, 11, 4, 11, 0, 0, -1))
    os.utime(broker.logs / "server.log", (then, then))
    with broker:
        assert broker.text("server.log.2021-04-14-11") == "of an hour long ago\n"
        assert "long ago" not in broker.text("server.log")


def test_the_files_of_a_busy_broker_stay_within_their_bound(tmp_path: Path) -> None:
    bytes_max = 1024 * 1024
    with LoggedBroker(tmp_path, kafka_logs_retention_bytes=str(bytes_max)) as broker:
        broker.set_level("kafka.request.logger", "DEBUG")
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
        seen: set[str] = set()
        deadline = time.monotonic() + 60
        while len(seen) < 20:
            assert time.monotonic() < deadline, seen
            for _ in range(20):
                producer.produce("busy", b"x")
                assert producer.flush(30) == 0
            sizes = sizes_in(broker.logs)
            assert sum(sizes.values()) <= bytes_max
            seen |= sizes.keys() - FILES
        assert len(sizes) < len(seen)


def test_a_full_disk_for_logs_is_said_and_costs_nothing_but_lines(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk") as disk:
        broker = LoggedBroker(tmp_path, disk / "logs")
        with broker:
            wait_for(lambda: "] started (" in broker.text("server.log"), "the line of the start")
            fill(disk)
            broker.create("served")
            wait_for(lambda: NO_SPACE in broker.log_text, "the full disk is told")
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            errors: list[object] = []
            for _ in range(100):
                producer.produce("served", b"x", on_delivery=lambda error, _: errors.append(error))
            assert producer.flush(30) == 0
            assert errors == [None] * 100
            (disk / "ballast").unlink()
            topics = iter(range(1000))

            def is_gone_on_with() -> bool:
                broker.create(f"y{next(topics)}")
                time.sleep(0.2)
                return "lines are missing here: No space left on device" in broker.all_text()

            wait_for(is_gone_on_with, "the lines that are missing are told")
            assert broker.stop() == 0
        for path in broker.logs.iterdir():
            assert all(LAYOUT.fullmatch(line) for line in path.read_text().splitlines()), path


def test_a_broker_whose_output_nobody_reads_serves_and_ends(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    broker = LoggedBroker(tmp_path)
    # Without files: what is told of requests is printed, and a pipe takes 64 KB.
    environment = {**os.environ, "LOG_DIR": ""}
    broker.process = subprocess.Popen(
        broker.command(), cwd=tmp_path, stdout=writer, stderr=writer, env=environment
    )
    os.close(writer)
    try:
        broker.wait_until_it_answers()
        broker.set_level("kafka.request.logger", "DEBUG")
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
        for _ in range(200):
            producer.produce("unread", b"x")
            assert producer.flush(30) == 0
        assert broker.stop() == 0
    finally:
        os.close(reader)


def test_lines_are_json_if_the_setting_says_so(tmp_path: Path) -> None:
    broker = LoggedBroker(tmp_path, kafka_logs_format="json")
    with broker:
        pass
    said = [json.loads(line) for line in broker.text("server.log").splitlines()]
    assert said[-1]["message"] == "[KafkaServer id=0] shut down completed"
    assert [json.loads(line) for line in broker.log_text.splitlines()] == said


def test_a_log4j_file_beside_the_settings_is_followed(tmp_path: Path) -> None:
    (tmp_path / "log4j.properties").write_text(
        "log4j.rootLogger=INFO, file\n"
        "log4j.appender.file=org.apache.log4j.DailyRollingFileAppender\n"
        "log4j.appender.file.File=${kafka.logs.dir}/mine.log\n"
        "log4j.appender.file.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.file.layout.ConversionPattern=%p|%m%n\n"
        "log4j.appender.gone=org.apache.log4j.jdbc.JDBCAppender\n"
        "log4j.logger.kafka.controller=WARN\n"
    )
    (tmp_path / "server.properties").write_text("num.partitions=1\n")
    broker = LoggedBroker(tmp_path)
    broker.file = tmp_path / "server.properties"
    with broker:
        broker.create("quiet")
    text = broker.text("mine.log")
    assert "INFO|[KafkaServer id=0] started\n" in text
    assert "log4j.properties: the appender gone is of a kind that is not known here" in text
    assert "New partition creation" not in text
    assert broker.log_text == ""


def test_levels_are_changed_by_the_names_of_any_kafka(broker: LoggedBroker) -> None:
    broker.create("before")
    assert "Changed state of replica" not in broker.text("state-change.log")
    broker.set_level("state.change.logger", "DEBUG")
    broker.set_level("org.apache.kafka.controller", "ERROR")
    broker.create("after")
    line = "Changed state of replica 0 for partition after-0 from NewReplica to OnlineReplica"
    wait_for(lambda: line in broker.text("state-change.log"), line)
    assert "after-0" not in broker.text("controller.log")
    assert "before-0" in broker.text("controller.log")
