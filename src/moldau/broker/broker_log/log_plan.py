"""Which lines go where: loggers, their levels, and what they are written to.

The table below is that of Apache Kafka 3.9, whose logger names Moldau's loggers have. It is in
force where log files are asked for; a log4j file of the operator takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

ROOT = "root"
CONSOLE = "stdout"
HOURLY = ".%Y-%m-%d-%H"
"""What is added to the name of a file that is over."""


class Appender(NamedTuple):
    path: str | None = None
    """None for standard output."""
    pattern: str | None = None
    """None for Kafka's own."""
    suffix: str | None = HOURLY
    """Of a file that has been rolled; None for one that is rolled by size alone."""
    threshold: str | None = None


class LoggerPlan(NamedTuple):
    level: str | None = None
    """None for that of its parent."""
    appenders: tuple[str, ...] = ()
    is_additive: bool = True
    """Whether its lines also go where its parent's go."""


class LogPlan(NamedTuple):
    appenders: Mapping[str, Appender]
    loggers: Mapping[str, LoggerPlan]
    remarks: tuple[str, ...] = ()
    """What of a log4j file cannot be done here, one sentence each."""

    @property
    def writes_files(self) -> bool:
        used = {name for logger in self.loggers.values() for name in logger.appenders}
        return any(self.appenders[name].path is not None for name in used)


FILES = {
    "server.log": (ROOT, "INFO"),
    "controller.log": ("kafka.controller", "TRACE"),
    "state-change.log": ("state.change.logger", "INFO"),
    "kafka-request.log": ("kafka.request.logger", "WARN"),
    "log-cleaner.log": ("kafka.log.LogCleaner", "INFO"),
    "kafka-authorizer.log": ("kafka.authorizer.logger", "INFO"),
}
"""The logger that each file is made of, and its level."""


def plan_of_files(folder: str) -> LogPlan:
    """Kafka's files. What has a file of its own is not printed."""
    appenders = {CONSOLE: Appender()}
    appenders |= {name: Appender(f"{folder}/{name}") for name in FILES}
    loggers = {
        logger: LoggerPlan(level, (name,), is_additive=False)
        for name, (logger, level) in FILES.items()
    }
    loggers[ROOT] = LoggerPlan("INFO", (CONSOLE, "server.log"))
    return LogPlan(appenders, loggers)


def plan_of_console() -> LogPlan:
    """Standard output alone. Steps of single partitions and requests are too much for it unless
    somebody asks."""
    quiet = {name: LoggerPlan("WARN") for name in ("state.change.logger", "kafka.request.logger")}
    return LogPlan({CONSOLE: Appender()}, {ROOT: LoggerPlan("INFO", (CONSOLE,)), **quiet})
