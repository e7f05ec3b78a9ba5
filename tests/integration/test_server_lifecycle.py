"""Start and stop of a real broker process, as its operator sees them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from confluent_kafka.admin import AdminClient

from moldau.testing.broker_process import BrokerProcess, answers, free_port

START_LINES = (
    "INFO [KafkaServer id=0] starting version=",
    "INFO [KafkaServer id=0] state=Starting (kafka.server.KafkaServer)",
    "INFO Loading logs from log dirs",
    "INFO Cluster ID = ",
    "INFO Awaiting socket connections on 127.0.0.1:",
    "INFO [KafkaServer id=0] state=Running (kafka.server.KafkaServer)",
    "INFO [KafkaServer id=0] started (kafka.server.KafkaServer)",
)
STOP_LINES = (
    "INFO [KafkaServer id=0] shutting down (kafka.server.KafkaServer)",
    "INFO [KafkaServer id=0] Starting controlled shutdown (kafka.server.KafkaServer)",
    "INFO [ReplicaFetcherManager on broker 0] Removed fetcher for partitions Set() "
    "(kafka.server.ReplicaFetcherManager)",
    "INFO Shutting down. (kafka.log.LogManager)",
    "INFO Shutdown complete. (kafka.log.LogManager)",
    "INFO [KafkaServer id=0] shut down completed (kafka.server.KafkaServer)",
)
LAYOUT = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (INFO|WARN|ERROR) .* \([\w.]+\)")


def assert_in_order(text: str, lines: tuple[str, ...]) -> None:
    position = 0
    for line in lines:
        position = text.find(line, position)
        assert position >= 0, f"{line!r} is missing or out of order in:\n{text}"


def advertised_address(bootstrap: str) -> str:
    (broker,) = (
        AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).brokers.values()
    )
    return f"{broker.host}:{broker.port}"


def test_a_broker_starts_and_stops_with_kafkas_lines(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    assert_in_order(broker.log_text, START_LINES)
    assert broker.stop() == 0
    terminating = (
        "INFO Terminating process due to signal SIGTERM "
        "(org.apache.kafka.common.utils.LoggingSignalHandler)"
    )
    assert_in_order(broker.log_text, (*START_LINES, terminating, *STOP_LINES))
    assert all(LAYOUT.fullmatch(line) for line in broker.log_text.splitlines())
    assert (broker.data / ".kafka_cleanshutdown").exists()


def test_ctrl_c_stops_a_broker_cleanly(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    assert broker.process is not None
    broker.process.send_signal(signal.SIGINT)
    assert broker.wait() == 0
    assert "Terminating process due to signal SIGINT" in broker.log_text
    assert "Traceback" not in broker.log_text
    assert (broker.data / ".kafka_cleanshutdown").exists()


def test_a_broker_says_when_it_recovers_from_an_unclean_stop(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    assert "state=RecoveringFromUncleanShutdown" not in broker.log_text
    broker.kill()
    broker.start()
    states = ("state=Starting", "state=RecoveringFromUncleanShutdown", "state=Running")
    assert_in_order(broker.log_text.rpartition("starting version")[2], states)
    assert broker.stop() == 0
    broker.start()
    assert "Recovering" not in broker.log_text.rpartition("starting version")[2]
    assert broker.stop() == 0


def test_a_second_broker_in_the_same_directory_ends_with_kafkas_words(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "first") as first:
        second = BrokerProcess(tmp_path / "second", overrides={"log.dirs": str(first.data)})
        second.spawn()
        assert second.wait() == 1
        assert_in_order(
            second.log_text,
            (
                "ERROR [KafkaServer id=0] Fatal error during KafkaServer startup. "
                "Prepare to shutdown (kafka.server.KafkaServer)",
                f"Failed to acquire lock on file .lock in {first.data}. A Kafka instance in "
                "another process or thread is using this directory.",
                "INFO [KafkaServer id=0] shut down completed",
            ),
        )
        assert "Traceback" not in second.log_text
        assert answers(first.port)


def test_a_taken_port_is_one_sentence_and_leaves_the_directory_usable(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "first") as first:
        second = BrokerProcess(tmp_path / "second", port=first.port)
        second.spawn()
        assert second.wait() == 1
        errors = [line for line in second.log_text.splitlines() if " ERROR " in line]
        assert len(errors) == 2
        assert f"failed to bind to 127.0.0.1:{first.port}: the port is taken." in errors[1]
        assert "Traceback" not in second.log_text
    second = BrokerProcess(tmp_path / "second")
    with second:
        assert "Recovering" not in second.log_text.rpartition("starting version")[2]


def test_an_unknown_key_is_a_warning_and_a_bad_value_ends_the_start(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "odd", overrides={"num.partitons": "3"}) as odd:
        assert "WARN unknown configuration key num.partitons; did you mean num.partitions?" in (
            odd.log_text
        )
    bad = BrokerProcess(tmp_path / "bad", overrides={"num.partitions": "many"})
    bad.spawn()
    assert bad.wait() == 1
    assert len(bad.log_text.splitlines()) == 1
    assert "num.partitions" in bad.log_text
    assert not bad.data.exists()


def test_a_port_that_the_system_chose_is_advertised(tmp_path: Path) -> None:
    port = free_port()
    listeners = f"INSIDE://127.0.0.1:{port},OUTSIDE://127.0.0.1:0"
    overrides = {
        "listeners": listeners,
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }
    with BrokerProcess(tmp_path, port=port, overrides=overrides) as broker:
        found = re.findall(r"Awaiting socket connections on 127.0.0.1:(\d+)\.", broker.log_text)
        inside, outside = (int(text) for text in found)
        assert inside == port
        assert outside not in (0, port)
        # Each client is told the address of the listener that it came through.
        assert advertised_address(f"127.0.0.1:{inside}") == f"127.0.0.1:{inside}"
        assert advertised_address(f"127.0.0.1:{outside}") == f"127.0.0.1:{outside}"


def test_a_greeting_shows_commands_that_work(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, environment={"MAKELEVEL": "1"}) as broker:
        greeting = broker.log_text
        assert f"bootstrap server   {broker.bootstrap}" in greeting
        assert f"data               {broker.data}" in greeting
        assert re.search(r"compiled kernels   (yes|no)", greeting)
        send, receive, show = re.findall(r"    (.*moldau (?:console|topics).*)", greeting)
        folder = str(Path(sys.executable).parent)
        paths = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        for command in (send, f"{receive} --max-messages 1", show):
            ran = subprocess.run(
                command, shell=True, env=paths, capture_output=True, timeout=30, check=False
            )
            assert ran.returncode == 0, ran.stderr.decode()
        assert ran.stdout.decode().split() == ["__consumer_offsets", "greetings"]


def test_without_a_terminal_there_is_no_greeting(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, environment={"MAKELEVEL": ""}) as broker:
        assert "bootstrap server" not in broker.log_text
