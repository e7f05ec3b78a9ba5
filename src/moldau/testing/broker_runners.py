"""Two ways to run a broker for a test: in a process of its own, or on a thread of this one.

A process can be killed and paused, and shares nothing with the test. A thread starts faster, and a
debugger reaches into it. Both keep their data when they stop, so both can be started again.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from moldau.testing.broker_process import BrokerStartError, BrokerStopError, ChildProcess
from moldau.testing.own_loop import OwnLoop

if TYPE_CHECKING:
    import ssl

    from moldau.broker.broker import Broker


class Runner(Protocol):
    probe_context: ssl.SSLContext | None
    """How to ask whether it answers; None in plain text."""

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
        self.probe_context: ssl.SSLContext | None = None
        self._directory = directory
        self._process: ChildProcess | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.process else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    @property
    def log_text(self) -> str:
        return "" if self._process is None else self._process.log_text

    def start(self, settings: Mapping[str, str], port: int) -> None:
        self._process = ChildProcess(self._directory, port=port, overrides=settings)
        self._process.probe_context = self.probe_context
        self._process.start()

    def stop(self) -> None:
        if self._process is not None:
            # One that hangs is killed; what that means is for the test to see in the log.
            with suppress(BrokerStopError):
                self._process.stop()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send(number)


class ThreadRunner:
    def __init__(self) -> None:
        self.probe_context: ssl.SSLContext | None = None
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
        from moldau.config.broker_config import BrokerConfig
        from moldau.config.setting_definition import ConfigError

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
