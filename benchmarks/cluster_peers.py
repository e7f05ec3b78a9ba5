"""The two clusters that are compared: three brokers and a ZooKeeper of their own each.

The peer is Apache Kafka 3.9, the last with ZooKeeper mode: the same election of controllers, the
same requests to brokers, the same session time-outs. Processes are ended by their own ids.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from benchmarks.cluster_requests import ask_cluster
from moldau.testing.broker_process import BrokerProcess
from moldau.testing.zookeeper_process import ZooKeeperProcess
from tests.support.apache_kafka import GARBAGE_COLLECTOR, free_ports
from tests.support.apache_kafka_39 import java39_command

BROKERS = 3
SESSION_MS = 6000
"""Apache Kafka's default of 18 s would only make waiting longer."""
HEAP = ("-Xms512m", "-Xmx512m")
READY_SECONDS_MAX = 90.0
RETRY_SECONDS = 0.05


class Broker(Protocol):
    port: int

    @property
    def pid(self) -> int: ...

    def spawn(self) -> None: ...

    def kill(self) -> object: ...


class Kafka39Broker:
    """Apache Kafka in ZooKeeper mode with the JVM options of its own start script."""

    def __init__(self, directory: Path, port: int, settings: Mapping[str, str]) -> None:
        self.directory = directory
        self.port = port
        own = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(directory / "data"),
        }
        self.settings = {**own, **settings}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def spawn(self) -> None:
        command = java39_command("kafka.Kafka", self.directory, "INFO")
        jars, main = command[command.index("-cp") :], self.directory / "server.properties"
        logging = next(word for word in command if word.startswith("-Dlog4j"))
        main.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        with (self.directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["java", *HEAP, *GARBAGE_COLLECTOR, logging, *jars, str(main)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def apache(directory: Path, port: int, settings: Mapping[str, str]) -> Broker:
    return Kafka39Broker(directory, port, settings)


def moldau(directory: Path, port: int, settings: Mapping[str, str]) -> Broker:
    return BrokerProcess(directory, port=port, overrides=settings)


MAKERS = {"Apache Kafka": apache, "Moldau": moldau}


class LocalCluster:
    def __init__(self, name: str, directory: Path) -> None:
        zookeeper_port, *ports = free_ports(1 + BROKERS)
        self.zookeeper = ZooKeeperProcess(directory / "zookeeper", zookeeper_port)
        self.brokers: list[Broker] = []
        for number, port in enumerate(ports):
            settings = {
                "broker.id": str(number),
                "zookeeper.connect": self.zookeeper.connect,
                "zookeeper.session.timeout.ms": str(SESSION_MS),
            }
            self.brokers.append(MAKERS[name](directory / f"broker-{number}", port, settings))

    @property
    def pids(self) -> list[int]:
        return [broker.pid for broker in self.brokers]

    @property
    def port(self) -> int:
        """Of some broker, for asking."""
        return self.brokers[0].port

    def start(self) -> None:
        self.zookeeper.start()
        self.zookeeper.wait()
        for broker in self.brokers:
            broker.spawn()
        self.wait_for_all()

    def wait_for_all(self) -> None:
        """Until every broker knows all of them and the controller."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        missing = list(self.brokers)
        while missing:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(missing)} brokers did not join in time")
            with suppress(OSError):
                seen = ask_cluster(missing[0].port, "first")
                if len(seen.brokers) == BROKERS and seen.controller in seen.brokers:
                    del missing[0]
                    continue
            time.sleep(RETRY_SECONDS)

    def stop(self) -> None:
        """Killed: what is on disk is thrown away."""
        for broker in self.brokers:
            broker.kill()
        self.zookeeper.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
