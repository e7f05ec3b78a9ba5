"""`moldau top` in a terminal of its own, and in a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from moldau import Admin, Consumer, Producer
from moldau.admin import NewTopic
from moldau.testing.broker_process import BrokerProcess, free_port

COMMAND = [sys.executable, "-m", "moldau.main", "top", "--interval", "0.5"]
FRAME = "\x1b[H"
COLOUR = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
SECONDS_MAX = 60


class Running(NamedTuple):
    bootstrap: str
    metrics: str


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    metrics = f"127.0.0.1:{free_port()}"
    folder: Path = tmp_path_factory.mktemp("top")
    settings = {"metrics.http.listener": metrics, "group.initial.rebalance.delay.ms": "0"}
    with BrokerProcess(folder, overrides=settings) as process:
        at = process.bootstrap
        with Admin(bootstrap_servers=at) as admin:
            admin.create_topics([NewTopic("orders", 2, 1)])
        with Producer(bootstrap_servers=at) as producer:
            for _ in range(5):
                producer.send("orders", b"tea").result(60)
        with Consumer(
            bootstrap_servers=at, group_id="billing", auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(["orders"])
            while not consumer.poll(1.0):
                pass
            consumer.commit()
        yield Running(at, metrics)


class Terminal:
    """A pseudo terminal of some size with the command in it."""

    def __init__(self, words: list[str], columns: int, **environment: str) -> None:
        self.master, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        cleared = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            words, stdin=inner, stdout=inner, stderr=inner, env={**cleared, **environment}
        )
        os.close(inner)
        self.text = ""

    def wait_for(self, *words: str) -> str:
        """The screen once it shows all of the words."""
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.5)[0]:
                try:
                    self.text += os.read(self.master, 65536).decode(errors="replace")
                except OSError:
                    break
            frame = self.text.rpartition(FRAME)[2]
            if all(word in COLOUR.sub("", frame) for word in words):
                return frame
        raise AssertionError(f"{words} never came: {self.text[-3000:]!r}")

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def end(self) -> int:
        self.type("q")
        return self.process.wait(SECONDS_MAX)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.mark.parametrize("columns", [80, 200])
def test_the_screen_shows_the_cluster_and_obeys_keys(broker: Running, columns: int) -> None:
    metrics = ("--metrics", broker.metrics)
    with Terminal([*COMMAND, "-b", broker.bootstrap, *metrics], columns) as terminal:
        last = "p pause" if columns > 80 else "p pa"
        frame = terminal.wait_for(
            "BROKERS (1)", "orders", "billing", "SLOW REQUESTS", "Produce", last
        )
        assert "\x1b[1m" in frame
        lines = [COLOUR.sub("", line) for line in frame.split("\r\n")]
        assert len(lines) == 30
        assert max(len(line) for line in lines) <= columns
        assert any("BROKERS" in line and "GROUPS" in line for line in lines) is (columns == 200)
        terminal.type("g")
        alone = terminal.wait_for("GROUPS (1)", "LAG", "billing")
        assert "BROKERS" not in alone
        terminal.type("r")
        requests = terminal.wait_for("SLOW REQUESTS", "Produce", "P99.9 MS")
        found = re.search(r"  Produce +([0-9.]+) +([0-9.]+) +([0-9.]+)", requests)
        assert found is not None
        p99, p50, p999 = (float(text) for text in found.groups())
        assert 0 < p50 <= p99 <= p999
        terminal.type("p")
        terminal.wait_for("paused")
        assert terminal.end() == 0


def test_without_colours_there_are_none(broker: Running) -> None:
    with Terminal([*COMMAND, "-b", broker.bootstrap], 100, NO_COLOR="1") as terminal:
        frame = terminal.wait_for("BROKERS (1)", "orders", "--metrics")
        assert not re.search(r"\x1b\[[0-9;]*m", frame)
        assert terminal.end() == 0


def test_a_pipe_gets_plain_text_once(broker: Running) -> None:
    ran = subprocess.run(
        [*COMMAND, "-b", broker.bootstrap], capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("BROKERS (1)") == 1
    assert "\x1b" not in ran.stdout
    assert re.search(r"^  orders +[0-9.]+ +5 +2", ran.stdout, re.MULTILINE)
