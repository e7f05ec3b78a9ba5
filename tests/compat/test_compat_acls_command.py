"""`moldau acls` and Apache Kafka's kafka-acls say the same, line by line, on brokers of their own.

Both take the same session from an empty broker on, each over a SASL_SSL listener. Where Apache
Kafka prints what a hash map holds, the lines are compared in any order.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from moldau.testing.broker_process import BrokerProcess
from moldau.testing.broker_security import Security
from tests.support.apache_kafka import run_tool, tool_command

pytestmark = pytest.mark.compat

CLASS = "org.apache.kafka.tools.AclCommand"
SECONDS_MAX = 300


class Line(NamedTuple):
    words: str
    stdin: str = ""
    is_map_ordered: bool = False

    def __str__(self) -> str:
        return self.words


READ = "--allow-principal User:alice --operation Read --topic orders"
DENY = "--deny-principal User:bob --deny-host 10.0.0.1 --operation Write --operation Describe"
ROLES = "--topic orders --allow-principal User:carol"
SESSION = (
    Line("--list"),
    Line(f"--add {READ}"),
    Line(f"--add {READ}"),
    Line("--list --topic orders"),
    Line("--list --topic nothing"),
    Line(f"--add {DENY} --topic pay --resource-pattern-type prefixed", is_map_ordered=True),
    Line("--list --topic payments --resource-pattern-type match", is_map_ordered=True),
    Line("--list --topic pay --resource-pattern-type any", is_map_ordered=True),
    Line(f"--add --producer --idempotent --transactional-id tx {ROLES}", is_map_ordered=True),
    Line(f"--add --consumer --group readers {ROLES}", is_map_ordered=True),
    Line("--add --allow-principal User:dan --cluster --operation Alter"),
    Line("--add --allow-principal User:dan --delegation-token abc --operation Describe"),
    Line("--add --allow-principal User:dan --user-principal User:eve --operation CreateTokens"),
    Line("--add --allow-principal User:* --topic * --operation Read"),
    Line("--list", is_map_ordered=True),
    Line("--list --principal User:dan", is_map_ordered=True),
    Line("--list --principal User:alice --principal User:nobody --topic orders"),
    Line("--list --group readers"),
    Line("--list --cluster", is_map_ordered=True),
    Line(f"--remove {READ}", stdin="n\n"),
    Line(f"--remove {READ}", stdin="y\n"),
    Line("--remove --group readers", stdin="y\n"),
    Line("--remove --force --topic orders --transactional-id tx"),
    Line("--list --topic orders"),
    Line("--list --transactional-id tx"),
    Line("--list --topic pay --resource-pattern-type prefixed", is_map_ordered=True),
)
MISTAKES = (
    "--list --add --topic orders",
    "--topic orders",
    "--add --topic orders",
    "--add --allow-principal alice --topic orders --operation Read",
    "--add --allow-principal User:alice --operation Read --cluster",
    "--add --allow-principal User:alice --operation Read",
    "--add --allow-principal User:alice --operation Fly --topic orders",
    "--add --producer --allow-principal User:alice",
    "--add --producer --deny-principal User:alice --topic orders",
    "--add --consumer --allow-principal User:alice --topic orders",
    "--add --idempotent --consumer --allow-principal User:alice --topic orders --group g",
    "--add --allow-principal User:alice --topic orders --resource-pattern-type match",
    "--remove --principal User:alice --topic orders",
)


class Runner(NamedTuple):
    """One of the tools, and the broker it works on."""

    is_java: bool
    bootstrap: str
    config: Path
    scratch: Path

    def run(self, words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        at = ("--bootstrap-server", self.bootstrap, "--command-config", str(self.config))
        given = (*at, *words.split())
        if self.is_java and stdin:
            return run_at_terminal([*tool_command(CLASS, self.scratch), *given], stdin)
        if self.is_java:
            return run_tool(CLASS, *given, scratch=self.scratch, seconds_max=SECONDS_MAX)
        return subprocess.run(
            [sys.executable, "-m", "moldau.main", "acls", *given],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )


@pytest.fixture(scope="module")
def runners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Runner, Runner]]:
    folder = tmp_path_factory.mktemp("acls")
    overrides = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root",
    }
    security = [Security("SASL_SSL", users={"root": "root-secret"}) for _ in range(2)]
    ours = BrokerProcess(folder / "ours", security=security[0], overrides=overrides)
    theirs = BrokerProcess(folder / "theirs", security=security[1], overrides=overrides)
    with ours, theirs:
        made = []
        for broker, secured, is_java in zip((ours, theirs), security, (False, True), strict=True):
            config = broker.directory / "client.properties"
            lines = [f"{key}={value}\n" for key, value in secured.client_settings().items()]
            config.write_text("".join(lines))
            made.append(Runner(is_java, broker.bootstrap, config, broker.directory))
        yield made[0], made[1]


@pytest.mark.parametrize("line", SESSION, ids=str)
def test_a_session_reads_the_same(runners: tuple[Runner, Runner], line: Line) -> None:
    ours, theirs = (runner.run(line.words, line.stdin) for runner in runners)
    assert ours.returncode == theirs.returncode == 0, ours.stderr + theirs.stderr
    shown = [run.stdout.splitlines() for run in (ours, theirs)]
    if line.is_map_ordered:
        shown = [sorted(text.strip() for text in lines) for lines in shown]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_told_in_the_same_words(runners: tuple[Runner, Runner], words: str) -> None:
    ours, theirs = (runner.run(words) for runner in runners)
    assert ours.returncode == theirs.returncode == 1
    wanted, *_ = lines_of(theirs)
    # It lists operations in the order of a hash map.
    told = [sorted(re.findall(r"[^\s,\[\]]+", line)) for line in lines_of(ours)]
    assert sorted(re.findall(r"[^\s,\[\]]+", wanted)) in told, f"Apache Kafka says: {wanted}"


def lines_of(run: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in (run.stdout + run.stderr).splitlines() if line.strip()]


def run_at_terminal(command: list[str], typed: str) -> subprocess.CompletedProcess[str]:
    """The Java tool asks its questions on a terminal only."""
    ours, theirs = pty.openpty()
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.OPOST
    modes[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        said = b""
        # The end of a terminal is an error on its other side.
        with contextlib.suppress(OSError):
            while piece := os.read(ours, 65_536):
                said += piece
        assert process.stderr is not None
        faults = process.stderr.read()
    os.close(ours)
    return subprocess.CompletedProcess(command, process.returncode, said.decode(), faults.decode())
