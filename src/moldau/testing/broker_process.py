"""A real `moldau server-start` in a process of its own, with every step in the caller's hands.

    with BrokerProcess(tmp_path, overrides={"num.partitions": "3"}) as broker:
        print(broker.bootstrap)
        broker.kill()

`LocalBroker` is the comfortable form; this is for tests of the process itself: spawn it and wait
later, see its exit code, run it under another command. Each broker gets its own directory and a
port that was free a moment ago. What the broker printed is in `log_text`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import ssl

    from moldau.testing.broker_security import Security

HOST = "127.0.0.1"
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
POLL_SECONDS = 0.005
LOG_LINES_SHOWN = 20
API_VERSIONS_V0 = struct.pack(">ihhih", 10, 18, 0, 1, -1)


class BrokerStartError(RuntimeError):
    """The broker did not start; the message has the end of its log."""


class BrokerStopError(RuntimeError):
    """The broker did not end in time and was killed."""


def free_port() -> int:
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """All different, and free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def answers(port: int, timeout_s: float = 1.0, context: ssl.SSLContext | None = None) -> bool:
    """Whether something on that port answers an ApiVersions request, over TLS with a context."""
    try:
        with contextlib.ExitStack() as stack:
            client = stack.enter_context(socket.create_connection((HOST, port), timeout_s))
            if context is not None:
                client = stack.enter_context(context.wrap_socket(client, server_hostname=HOST))
            client.sendall(API_VERSIONS_V0)
            return len(client.recv(4)) > 0
    except OSError:
        return False


class BrokerProcess:
    """`overrides` are settings given on the command line; they win over the defaults here."""

    start_seconds_max = START_SECONDS_MAX
    stdin = subprocess.DEVNULL

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        overrides: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        main: str = "moldau.main",
        prefix: Sequence[str] = (),
        security: Security | None = None,
    ) -> None:
        """`main` is the module to run, for a broker that a test has tampered with; `prefix` a
        command that runs it. With `security` its listener is a secured one."""
        self.prefix = prefix
        self.directory = directory
        self.main = main
        self.port = port or free_port()
        self.bootstrap = f"{HOST}:{self.port}"
        self.data = directory / "data"
        self.log_path = directory / "broker.log"
        self.process: subprocess.Popen[bytes] | None = None
        # A folder of its own for the file by which `server-stop` finds the broker, and no
        # greeting in the log when the tests are run by make. Log files only where a test asks.
        own = {"MOLDAU_RUN_DIR": str(directory / "run"), "MAKELEVEL": "", "LOG_DIR": ""}
        own["KAFKA_LOG4J_OPTS"] = ""
        self._environment = {**own, **(environment or {})}
        self.probe_context: ssl.SSLContext | None = None
        secured: Mapping[str, str] = {}
        if security is not None:
            security.prepare(directory, self.data)
            secured = security.broker_settings(self.bootstrap)
            self.probe_context = security.probe_context()
        self.settings = {
            "broker.id": "0",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.data),
            **secured,
            **(overrides or {}),
        }

    @property
    def pid(self) -> int:
        assert self.process is not None, "the broker was not started"
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def command(self) -> list[str]:
        words = [*self.prefix, sys.executable, "-m", self.main, "server-start"]
        for key, value in self.settings.items():
            words += ["--override", f"{key}={value}"]
        return words

    def spawn(self) -> None:
        """Start the process without waiting for it to answer."""
        assert self.process is None, "the broker runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                cwd=self.directory,
                stdin=self.stdin,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._environment},
            )

    def start(self) -> None:
        """Return once it answers. BrokerStartError says why it does not."""
        self.spawn()
        self.wait_until_it_answers()

    def wait_until_it_answers(self) -> None:
        assert self.process is not None, "the broker was not started"
        deadline = time.monotonic() + self.start_seconds_max
        while not answers(self.port, context=self.probe_context):
            has_ended = self.process.poll() is not None
            if has_ended or time.monotonic() > deadline:
                why = "it ended" if has_ended else f"no answer in {self.start_seconds_max:g} s"
                self.kill()
                lines = self.log_text.splitlines()[-LOG_LINES_SHOWN:]
                raise BrokerStartError(f"the broker did not start, {why}:\n" + "\n".join(lines))
            time.sleep(POLL_SECONDS)

    def stop(self) -> int:
        """SIGTERM and wait; the exit code. A broker that was stopped before stays so."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """kill -9 and wait; the exit code."""
        return self._end(signal.SIGKILL)

    def send(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def wait(self, timeout_s: float = STOP_SECONDS_MAX) -> int:
        """Wait for a process that ends by itself; the exit code. BrokerStopError if it does not."""
        assert self.process is not None, "the broker was not started"
        process, self.process = self.process, None
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerStopError(f"the broker did not end in time:\n{self.log_text}") from None
        finally:
            if process.stdin is not None:
                process.stdin.close()

    def _end(self, number: int) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(number)
        return self.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


class ChildProcess(BrokerProcess):
    """A broker that ends with the process that started it, and reads no environment."""

    stdin = subprocess.PIPE

    def command(self) -> list[str]:
        words = [f"{key}={value}" for key, value in self.settings.items()]
        return [sys.executable, "-m", "moldau.testing.broker_child", *words]
