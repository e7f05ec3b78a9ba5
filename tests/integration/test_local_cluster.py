"""`moldau cluster start`, `status` and `stop`: a whole cluster by three commands."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually


class Commands:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "moldau.main", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def cluster(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("cluster", *words, "--dir", str(self.folder))

    def status(self) -> dict[str, list[dict[str, Any]]]:
        told: dict[str, list[dict[str, Any]]] = json.loads(self.cluster("status", "--json").stdout)
        return told


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    commands = Commands(tmp_path / "cluster")
    yield commands
    commands.cluster("stop")


def free_port_for_three() -> int:
    """Brokers listen on it and the two after; ZooKeeper a thousand above. Below those that the
    system hands out to others meanwhile."""
    for port in random.Random(os.getpid()).sample(range(12_000, 30_000), 100):
        if all(map(is_free, (port, port + 1, port + 2, port + 1000))):
            return port
    raise AssertionError("no three ports in a row are free")


def is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def test_a_cluster_is_started_mended_shown_and_stopped(commands: Commands) -> None:
    port = free_port_for_three()
    started = commands.cluster("start", "--brokers", "3", "--port", str(port))
    assert started.returncode == 0, started.stderr
    assert started.stdout.splitlines()[0] == "3 brokers are up: " + ",".join(
        f"127.0.0.1:{port + n}" for n in range(3)
    )
    told = commands.status()
    assert [(b["id"], b["port"], b["state"]) for b in told["brokers"]] == [
        (n, port + n, "running") for n in range(3)
    ]
    assert [b["isController"] for b in told["brokers"]].count(True) == 1
    assert [z["state"] for z in told["zookeepers"]] == ["running"]

    address = f"127.0.0.1:{port}"
    flags = ["--create", "--topic", "t", "--partitions", "1", "--replication-factor", "3"]
    made = commands.run("topics", "--bootstrap-server", address, *flags)
    assert made.stdout == "Created topic t.\n", made.stderr

    victim = told["brokers"][1]["pid"]
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: commands.status()["brokers"][1]["state"] == "stopped")
    again = commands.cluster("start")
    assert again.returncode == 0, again.stderr
    assert again.stderr == f"starting broker-1 on 127.0.0.1:{port + 1}\n"
    told = commands.status()
    assert [b["state"] for b in told["brokers"]] == ["running"] * 3
    assert told["brokers"][1]["pid"] != victim

    assert commands.cluster("stop").returncode == 0
    table = commands.cluster("status")
    assert table.returncode == 1
    assert "running" not in table.stdout
    nothing = commands.cluster("stop")
    assert nothing.stdout == f"No cluster runs in {commands.folder}\n"


def test_what_cannot_be_is_one_sentence(commands: Commands) -> None:
    none = commands.cluster("status")
    assert none.returncode == 1
    assert none.stderr == (
        f"there is no cluster in {commands.folder}; `moldau cluster start` makes one.\n"
    )
    for words, sentence in (
        (["--brokers", "0"], "--brokers 0 must be 1 to 100."),
        (["--zookeepers", "2"], "--zookeepers 2 must be 1, 3, 5 or 7: a majority decides."),
    ):
        ended = commands.cluster("start", *words)
        assert (ended.returncode, ended.stderr) == (1, sentence + "\n")


def test_a_taken_port_is_told_before_anything_is_started(commands: Commands) -> None:
    port = free_port_for_three()
    with socket.create_server(("127.0.0.1", port + 1)):
        ended = commands.cluster("start", "--port", str(port))
    assert (ended.returncode, ended.stderr) == (
        1,
        f"broker-1 cannot listen on 127.0.0.1:{port + 1}: another process does. "
        "Choose another --port.\n",
    )
    assert not commands.folder.exists()
