"""A broker as a process of its own: the log, the loop, the signals, the greeting, the exit code.

Stops in order on SIGTERM, SIGINT and SIGHUP; a second SIGINT ends the process at once, which
loses nothing either, but the next start has to recover.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from moldau.broker.background_jobs import Background
from moldau.broker.broker import Broker, StartFault
from moldau.broker.broker_log.log_search import LogPlaces, plan_for, wishes_of
from moldau.broker.broker_log.log_setup import BrokerLog, set_up_logging
from moldau.broker.freed_memory import plan_trimming
from moldau.config.broker_config import BrokerConfig
from moldau.net.connection import Connection
from moldau.records import batch_kernel

log = logging.getLogger("kafka.server.KafkaServer")
signal_log = logging.getLogger("org.apache.kafka.common.utils.LoggingSignalHandler")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LOOP_WATCH = "MOLDAU_LOOP_WATCH"
FREEZE_AGAIN_SECONDS = (5.0, 30.0, 120.0)
SMALL_START = 50_000
"""Objects. The start of a broker with few logs makes thirty thousand, hardly any of them garbage:
looking for that would take milliseconds just when the first client is let in."""
COLLECT_AFTER = (20_000, 5, 20)
"""Objects that are made before a collection of the young, then rounds. Nearly everything is freed
by its count; with Python's own numbers one long request makes the collector look at all of its rows
again and again, and everybody waits."""
SWITCH_SECONDS = 0.001
"""How long a thread that works may keep the interpreter while the loop wants it. The loop gives it
up at every read, write and send, so it waits that long several times for one request."""


def run_broker(
    config: BrokerConfig,
    remarks: Sequence[str] = (),
    on_started: Callable[[Broker], None] | None = None,
    places: LogPlaces | None = None,
) -> int:
    """Run until told to stop; the exit code. `remarks` are what reading the settings gave,
    `places` where log files and what is said about them may be."""
    places = places or LogPlaces()
    plan = plan_for(config, os.environ, places)
    broker_log = set_up_logging(plan=plan, wishes=wishes_of(config, places))
    try:
        return _run_logged(config, remarks, on_started, broker_log)
    finally:
        broker_log.close()


def _run_logged(
    config: BrokerConfig,
    remarks: Sequence[str],
    on_started: Callable[[Broker], None] | None,
    broker_log: BrokerLog,
) -> int:
    for remark in remarks:
        log.warning("%s", remark)
    if not batch_kernel.COMPILED:
        log.warning(
            "running uncompiled: every record is checked by plain Python, which is much slower. "
            "Install a C compiler and install Moldau again"
        )
    _allow_many_files()
    with asyncio.Runner() as runner:
        return runner.run(_Process(config, on_started, broker_log).run())


def _allow_many_files() -> None:
    """Segments and connections need descriptors: take as many as the system lets us have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def end_faulty_connection(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The last net under callbacks of the loop: a fault nobody foresaw ends one connection, which
    would otherwise wait for ever, and leaves its trace in the log."""
    loop.default_exception_handler(context)
    callback = getattr(context.get("handle"), "_callback", None)
    connection = getattr(callback, "__self__", None)
    if isinstance(connection, Connection):
        connection.refuse("an unforeseen fault in the broker")


class _Process:
    def __init__(
        self,
        config: BrokerConfig,
        on_started: Callable[[Broker], None] | None,
        broker_log: BrokerLog,
    ) -> None:
        self._config = config
        self._log = broker_log
        self._on_started = on_started
        self._told_to_stop = asyncio.Event()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(end_faulty_connection)
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        broker = Broker(self._config, loop)
        watch = None
        if os.environ.get(LOOP_WATCH):
            from moldau.net.loop_watch import watch_loop

            watch = watch_loop(loop, lambda: broker.state.value)
        upkeep = Background(loop)
        plan_trimming(upkeep)
        try:
            return await self._run(broker, loop)
        finally:
            await upkeep.stop()
            if watch is not None:
                watch.stop()

    async def _run(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> int:
        starting = loop.create_task(broker.start())
        telling = loop.create_task(self._told_to_stop.wait())
        await asyncio.wait((starting, telling), return_when=asyncio.FIRST_COMPLETED)
        try:
            if starting.done():
                starting.result()
                self._settle(loop)
                if self._on_started is not None:
                    # A greeting stands below the lines of the start.
                    self._log.flush()
                    self._on_started(broker)
                failing = loop.create_task(broker.has_failed.wait())
                await asyncio.wait((telling, failing), return_when=asyncio.FIRST_COMPLETED)
                for task in (telling, failing):
                    task.cancel()
            else:
                starting.cancel()
                await asyncio.wait((starting,))
        except StartFault as fault:
            telling.cancel()
            log.error(
                "[KafkaServer id=%d] Fatal error during KafkaServer startup. Prepare to shutdown",
                broker.config.node_id,
            )
            log.error("%s", fault)
            await broker.stop()
            return 1
        await broker.stop()
        return 1 if broker.has_failed.is_set() else 0

    def _signalled(self, number: signal.Signals) -> None:
        if self._told_to_stop.is_set() and number == signal.SIGINT:
            signal_log.warning("Terminating process at once due to a second SIGINT")
            self._log.flush()
            os._exit(130)
        signal_log.info("Terminating process due to signal %s", signal.Signals(number).name)
        self._told_to_stop.set()

    def _settle(self, loop: asyncio.AbstractEventLoop) -> None:
        """What the start has made stays for good: a collection need not look at it again. So a few
        times more later, when requests have loaded what they need."""
        if gc.get_count()[0] > SMALL_START:
            gc.collect()
        gc.freeze()
        gc.set_threshold(*COLLECT_AFTER)
        sys.setswitchinterval(SWITCH_SECONDS)
        for seconds in FREEZE_AGAIN_SECONDS:
            loop.call_later(seconds, gc.freeze)
