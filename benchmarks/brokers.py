"""The two brokers that are compared, each on an empty log and with its default settings."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

from benchmarks.doors import Door
from moldau.testing.broker_process import BrokerProcess
from tests.support import apache_kafka, apache_kafka_39


class Peer(Protocol):
    """A broker that is ready to be launched; making one is not part of what is measured."""

    port: int
    way_in: Door | None
    """How the load enters; None for `port` without any lock."""

    @property
    def pid(self) -> int: ...

    def launch(self) -> None: ...

    def stop(self) -> object: ...


class Moldau(BrokerProcess):
    way_in: Door | None = None

    def launch(self) -> None:
        self.spawn()


class Apache(apache_kafka.ApacheKafka):
    way_in: Door | None = None


def apache(directory: Path) -> Peer:
    """Its storage is formatted here, as an operator does once before the first start."""
    broker = Apache(directory)
    broker.format()
    return broker


def moldau(directory: Path) -> Peer:
    return Moldau(directory)


PEERS: dict[str, Callable[[Path], Peer]] = {"Apache Kafka": apache, "Moldau": moldau}


def versions(wanted: set[str]) -> dict[str, str]:
    """Of all that took part in these groups of measures."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    apache = []
    if wanted - {"cluster"}:
        apache.append(f"{apache_kafka.VERSION}, heap 1 GB")
    if "cluster" in wanted:
        apache.append(f"{apache_kafka_39.VERSION} in ZooKeeper mode as a cluster, heap 512 MB each")
    return {
        "Apache Kafka": f"{' and '.join(apache)}, on {java.splitlines()[0]}",
        "Moldau": f"{version('moldau')} on Python {platform.python_version()}"
        + ("" if kernel_is_compiled() else ", not compiled"),
        "Linux": platform.release(),
    }


def kernel_is_compiled() -> bool:
    from moldau.records import batch_kernel

    return not str(batch_kernel.__file__).endswith(".py")


def machine() -> dict[str, str]:
    cpu = Path("/proc/cpuinfo").read_text()
    model = next((row for row in cpu.splitlines() if row.startswith("model name")), "unknown")
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "processor": model.partition(":")[2].strip() or platform.machine(),
        "cores": str(cpu.count("processor\t")),
        "memory": f"{memory_kib / 1024**2:.0f} GiB",
    }
