"""Two ways to run a broker for a test: in a process of its own, or on a thread of this one.

A process can be killed and paused, and shares nothing with the test. A thread starts faster, and a
debugger reaches into it. Both keep their data when they stop, so both can be started again.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from moldau.testing.own_loop import OwnLoop

if TYPE_CHECKING:
    from moldau.broker.broker import Broker

HOST = "127.0.0.1"
START_SECONDS_MAX = 20.0
STOP_SECONDS_MAX = 20.0
POLL_SECONDS = 0.005
LOG_LINES_SHOWN = 20


class BrokerStartError(RuntimeError):
    """The broker did not start; the message has the end of its log."""


class Runner(Protocol):
    def start(self, settings: Mapping[str, str], port: int) -> None:
        """Return once the port accepts connections. BrokerStartError says why it does not."""

    def stop(self) -> None:
        """In order, so that nothing needs recovery."""

    def kill(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    @property
    def is_running(self) -> bool: ...

    @property
    def log_text(self) -> str: ...


class ProcessRunner:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._log_path = directory / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log_text(self) -> str:
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def start(self, settings: Mapping[str, str], port: int) -> None:
        words = [f"{key}={value}" for key, value in settings.items()]
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "moldau.testing.child", *words],
                cwd=self._directory,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not accepts(port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._end(signal.SIGKILL)
                lines = self.log_text.splitlines()[-LOG_LINES_SHOWN:]
                raise BrokerStartError("the broker did not start:\n" + "\n".join(lines))
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        finally:
            assert process.stdin is not None
            process.stdin.close()


class ThreadRunner:
    def __init__(self) -> None:
        self._own: OwnLoop | None = None
        self._broker: Broker | None = None

    @property
    def is_running(self) -> bool:
        return self._broker is not None

    @property
    def log_text(self) -> str:
        """Goes to this process's `logging`, where pytest shows it."""
        return ""

    def start(self, settings: Mapping[str, str], port: int) -> None:
        from moldau.broker.broker import Broker, StartFault
        from moldau.config.broker import BrokerConfig
        from moldau.config.definition import ConfigError

        try:
            config, _ = BrokerConfig.parse(settings)
        except ConfigError as fault:
            raise BrokerStartError(f"the broker did not start: {fault}") from None
        self._own = own = OwnLoop("moldau-test-broker")

        async def start() -> Broker:
            broker = Broker(config, own.loop)
            try:
                await broker.start()
            except StartFault:
                await broker.stop()
                raise
            return broker

        try:
            self._broker = own.run(start())
        except StartFault as fault:
            own.close()
            raise BrokerStartError(f"the broker did not start: {fault}") from None

    def stop(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None and self._own is not None:
            self._own.run(broker.stop())
            self._own.close()

    def kill(self) -> None:
        raise NotImplementedError(
            "a broker in this process cannot be killed; use `broker()` or the fixture moldau_broker"
        )

    def pause(self) -> None:
        raise NotImplementedError(
            "a broker in this process cannot be paused; use `broker()` or the fixture moldau_broker"
        )

    def resume(self) -> None:
        """Never paused."""


def accepts(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), 1.0).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
