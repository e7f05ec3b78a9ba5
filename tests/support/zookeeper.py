"""A real ZooKeeper for tests: the server whose jars come with pyspark, on free ports."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from moldau.cli.zookeeper_server import jars, java_command

START_TIMEOUT_S = 60


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


class ZooKeeperProcess:
    """One server; `connect` is its address."""

    def __init__(self, directory: Path, port: int, more: str = "") -> None:
        self.directory = directory
        self.port = port
        self.connect = f"127.0.0.1:{port}"
        directory.mkdir(parents=True, exist_ok=True)
        self._config = directory / "zoo.cfg"
        self._config.write_text(
            f"dataDir={directory / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
            f"tickTime=500\nadmin.enableServer=false\nmaxClientCnxns=0\n"
            f"4lw.commands.whitelist=*\nminSessionTimeout=1000\n{more}"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self.directory / "out.log", "ab") as out:
            self._process = subprocess.Popen(
                java_command(self._config, jars(), heap_mb=128), stdout=out, stderr=out
            )

    def wait(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(self.port):
            assert self._process is not None
            assert self._process.poll() is None, (self.directory / "out.log").read_text()
            assert time.monotonic() < deadline, (self.directory / "out.log").read_text()
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def answers(port: int) -> bool:
    """Whether the server serves clients (an ensemble does so only with a leader)."""
    return "Zookeeper version" in four_letters(port, "srvr")


def four_letters(port: int, word: str) -> str:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 2) as peer:
        peer.settimeout(2)
        peer.sendall(word.encode())
        parts = []
        while part := peer.recv(65536):
            parts.append(part)
        return b"".join(parts).decode()
    return ""


@contextlib.contextmanager
def zookeeper(directory: Path) -> Iterator[ZooKeeperProcess]:
    server = ZooKeeperProcess(directory, free_ports(1)[0])
    server.start()
    try:
        server.wait()
        yield server
    finally:
        server.kill()


@contextlib.contextmanager
def ensemble(directory: Path, size: int = 3) -> Iterator[list[ZooKeeperProcess]]:
    ports = free_ports(3 * size)
    members = "".join(
        f"server.{n + 1}=127.0.0.1:{ports[3 * n + 1]}:{ports[3 * n + 2]}\n" for n in range(size)
    )
    servers = []
    for number in range(size):
        home = directory / f"zookeeper-{number + 1}"
        (home / "data").mkdir(parents=True)
        (home / "data" / "myid").write_text(f"{number + 1}\n")
        more = f"initLimit=10\nsyncLimit=5\n{members}"
        servers.append(ZooKeeperProcess(home, ports[3 * number], more))
    try:
        for server in servers:
            server.start()
        for server in servers:
            server.wait()
        yield servers
    finally:
        for server in servers:
            server.kill()
