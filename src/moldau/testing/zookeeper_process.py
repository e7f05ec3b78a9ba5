"""A real ZooKeeper for tests, alone or as an ensemble: the one that `moldau` itself starts.

    with moldau.testing.zookeeper() as server:
        print(server.connect)  # for zookeeper.connect

Needs Java 17, and the jars that come with pyspark (`pip install 'moldau[spark]'`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from moldau.testing.broker_process import HOST, free_ports

START_SECONDS_MAX = 60.0
ANSWER_SECONDS_MAX = 2.0
POLL_SECONDS = 0.05
HEAP = "-Xmx128M -Xms64M"
SETTINGS = (
    "tickTime=500",
    "minSessionTimeout=1000",
    "admin.enableServer=false",
    "maxClientCnxns=0",
    "4lw.commands.whitelist=*",
)


class ZooKeeperStartError(RuntimeError):
    """ZooKeeper did not start; the message has the end of what it printed."""


class ZooKeeperProcess:
    """One server; `connect` is its address. Its data outlive a kill."""

    def __init__(
        self, directory: Path, port: int | None = None, more: str = "", java_options: str = ""
    ) -> None:
        """`more`: further lines of zoo.cfg."""
        self.directory = directory
        self._java_options = java_options
        self.port = port or free_ports(1)[0]
        self.connect = f"{HOST}:{self.port}"
        directory.mkdir(parents=True, exist_ok=True)
        self._config = directory / "zoo.cfg"
        own = (f"dataDir={directory / 'data'}", f"clientPort={self.port}")
        lines = (*own, f"clientPortAddress={HOST}", *SETTINGS, more)
        self._config.write_text("".join(f"{line}\n" for line in lines if line))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log_text(self) -> str:
        path = self.directory / "out.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def pid(self) -> int:
        assert self._process is not None, "ZooKeeper was not started"
        return self._process.pid

    def start(self) -> None:
        """Without waiting for it to answer. The process becomes ZooKeeper's own."""
        with (self.directory / "out.log").open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "moldau.main", "zookeeper-server-start", str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={"KAFKA_HEAP_OPTS": HEAP, **os.environ, "KAFKA_OPTS": self._java_options},
            )

    def wait(self) -> None:
        """Return once it serves clients. ZooKeeperStartError says why it does not."""
        assert self._process is not None, "ZooKeeper was not started"
        deadline = time.monotonic() + START_SECONDS_MAX
        while not serves(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ZooKeeperStartError(f"ZooKeeper did not start:\n{self.log_text[-3000:]}")
            time.sleep(POLL_SECONDS)

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None, "ZooKeeper was not started"
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def serves(port: int) -> bool:
    """Whether the server serves clients (an ensemble does so only with a leader)."""
    return "Zookeeper version" in four_letters(port, "srvr")


def four_letters(port: int, word: str) -> str:
    """What it says to one of its words of four letters; nothing if it cannot be asked."""
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), 2) as peer:
        peer.settimeout(ANSWER_SECONDS_MAX)
        peer.sendall(word.encode())
        parts = []
        while part := peer.recv(65536):
            parts.append(part)
        return b"".join(parts).decode()
    return ""


@contextlib.contextmanager
def zookeeper(
    directory: str | os.PathLike[str] | None = None, *, more: str = "", java_options: str = ""
) -> Iterator[ZooKeeperProcess]:
    """A server for the length of a `with` block; without a `directory` its data go with it."""
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="zookeeper-"))
        server = ZooKeeperProcess(Path(directory), more=more, java_options=java_options)
        stack.callback(server.kill)
        server.start()
        server.wait()
        yield server


@contextlib.contextmanager
def ensemble(
    directory: Path, size: int = 3, *, more: Sequence[str] = (), java_options: str = ""
) -> Iterator[list[ZooKeeperProcess]]:
    """Several servers that agree among themselves; `more`: further lines for each."""
    ports = free_ports(3 * size)
    members = "\n".join(
        f"server.{n + 1}={HOST}:{ports[3 * n + 1]}:{ports[3 * n + 2]}" for n in range(size)
    )
    servers = []
    for number in range(size):
        home = directory / f"zookeeper-{number + 1}"
        (home / "data").mkdir(parents=True)
        (home / "data" / "myid").write_text(f"{number + 1}\n")
        own = more[number] if more else ""
        lines = f"initLimit=10\nsyncLimit=5\n{members}\n{own}"
        servers.append(ZooKeeperProcess(home, ports[3 * number], lines, java_options))
    try:
        for server in servers:
            server.start()
        for server in servers:
            server.wait()
        yield servers
    finally:
        for server in servers:
            server.kill()
