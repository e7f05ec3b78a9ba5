"""A real `moldau server-start` in a process of its own, for tests that need the whole broker.

Each broker gets its own directory and a port that was free a moment ago. `start` returns once
the broker answers ApiVersions, so a test never sleeps; what the broker printed is in `log_text`.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

START_SECONDS_MAX = 20.0
STOP_SECONDS_MAX = 20.0
API_VERSIONS_V0 = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int, timeout_s: float = 1.0) -> bool:
    """Whether something on that port answers an ApiVersions request."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_s) as client:
            client.sendall(API_VERSIONS_V0)
            return len(client.recv(4)) > 0
    except OSError:
        return False


class BrokerProcess:
    """`overrides` are settings given on the command line; they win over the defaults here."""

    start_seconds_max = START_SECONDS_MAX

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        overrides: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        main: str = "moldau.main",
        prefix: Sequence[str] = (),
    ) -> None:
        """`main` is the module to run, for a broker that a test has tampered with; `prefix` a
        command that runs it."""
        self.prefix = prefix
        self.directory = directory
        self.main = main
        self.port = port or free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.data = directory / "data"
        self.log_path = directory / "broker.log"
        self.process: subprocess.Popen[bytes] | None = None
        # A folder of its own for the file by which `server-stop` finds the broker, and no
        # greeting in the log when the tests are run by make.
        own = {"MOLDAU_RUN_DIR": str(directory / "run"), "MAKELEVEL": ""}
        self._environment = {**own, **(environment or {})}
        self.settings = {
            "broker.id": "0",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.data),
            **(overrides or {}),
        }

    @property
    def pid(self) -> int:
        assert self.process is not None, "the broker was not started"
        return self.process.pid

    @property
    def log_text(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else ""

    def spawn(self) -> None:
        """Start the process without waiting for it to answer."""
        assert self.process is None, "the broker runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [*self.prefix, sys.executable, "-m", self.main, "server-start"]
        for key, value in self.settings.items():
            command += ["--override", f"{key}={value}"]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._environment},
            )

    def start(self) -> None:
        self.spawn()
        self.wait_until_it_answers()

    def wait_until_it_answers(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + self.start_seconds_max
        while not answers(self.port):
            if self.process.poll() is not None:
                raise AssertionError(f"the broker ended at its start:\n{self.log_text}")
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the broker did not answer in time:\n{self.log_text}")
            time.sleep(0.01)

    def stop(self) -> int:
        """SIGTERM and wait; the exit code. A broker that was stopped before stays so."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        return self._end(signal.SIGKILL)

    def wait(self, timeout_s: float = STOP_SECONDS_MAX) -> int:
        """Wait for a process that ends by itself; the exit code."""
        assert self.process is not None
        process, self.process = self.process, None
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the broker did not end in time:\n{self.log_text}") from None

    def _end(self, signal_number: int) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(signal_number)
        return self.wait()

    def __enter__(self) -> BrokerProcess:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
