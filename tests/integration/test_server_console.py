"""`moldau server-start --console`, as `make run` has it: a console that comes and goes with its
broker, and that never keeps the broker from starting."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from moldau.cli.servers import console_beside
from moldau.cli.servers.console_beside import start_beside
from moldau.testing.broker_process import BrokerProcess
from tests.support.eventually import eventually

TOLD = re.compile(r"console            (\S.*)")


class WithConsole(BrokerProcess):
    """As somebody has typed it at a terminal."""

    console = "--console=0"

    def command(self) -> list[str]:
        return [*super().command(), self.console]

    @property
    def told(self) -> str:
        found = TOLD.search(self.log_text)
        assert found is not None, self.log_text
        return found[1]


def started(directory: Path) -> WithConsole:
    return WithConsole(directory, environment={"MAKELEVEL": "1"})


def topics(address: str) -> str:
    with urllib.request.urlopen(f"{address}topics.json", timeout=30) as answer:
        return str(answer.read())


def is_gone(address: str) -> bool:
    try:
        topics(address)
    except (urllib.error.URLError, OSError):
        return True
    return False


def test_a_console_comes_and_goes_with_its_broker(tmp_path: Path) -> None:
    with started(tmp_path) as broker:
        address = broker.told
        assert '"topics":[]' in topics(address)
        broker.stop()
        assert is_gone(address)


def test_a_broker_that_is_killed_leaves_no_console_behind(tmp_path: Path) -> None:
    with started(tmp_path) as broker:
        address = broker.told
        topics(address)
        broker.kill()
        eventually(lambda: is_gone(address))


def test_a_taken_port_is_one_line_and_no_failure(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = started(tmp_path)
        broker.console = f"--console={port}"
        with broker:
            words = f"none: 127.0.0.1:{port} cannot be listened on (Address already in use)"
            assert broker.told == words
            eventually(lambda: broker.log_text.count(str(port)) == 1)


def test_a_missing_package_is_one_line_and_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_beside, "PACKAGES", ("jinja2", "not_there_at_all"))
    beside = start_beside(None, "", 0)  # type: ignore[arg-type]
    assert beside.told == (
        "none: not_there_at_all is not installed (pip install 'moldau[console]')"
    )
    assert beside.process is None
    beside.end()
