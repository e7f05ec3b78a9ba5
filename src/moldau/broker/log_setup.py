"""The broker's log: Apache Kafka's layout on standard output, and levels that can be changed.

    [2021-04-14 11:04:11,239] INFO [KafkaServer id=0] started (kafka.server.KafkaServer)

Operators' tools that read Kafka's log read this one. A level is INFO unless the environment's
MOLDAU_LOG_LEVEL says otherwise; single loggers are changed while the broker runs.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import TextIO

from moldau.model.log_line_limit import LogLimit

LEVEL_VARIABLE = "MOLDAU_LOG_LEVEL"
ROOT = "root"
LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}
"""Kafka's names."""


LINES_OF_A_KIND = 200
"""Written in ten seconds; more are counted. Whatever a client does, the disk does not fill."""


LINE_LENGTH_MAX = 8_000
"""Characters of a message; a client can have ten thousand partitions named in one line."""


class KafkaLayout(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("[%(asctime)s] %(levelname)s %(message)s (%(name)s)")

    def format(self, record: logging.LogRecord) -> str:
        record.levelname = level_name(record.levelno)
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:
        text = record.message
        if len(text) > LINE_LENGTH_MAX:
            left_out = len(text) - LINE_LENGTH_MAX
            record.message = f"{text[:LINE_LENGTH_MAX]} ({left_out} more characters)"
        return super().formatMessage(record)


class BrokerLoggers:
    """The loggers by name, as clients see and set them in configurations of type BROKER_LOGGER."""

    def levels(self) -> Mapping[str, str]:
        names = {ROOT: level_name(logging.getLogger().level)}
        for name, logger in sorted(logging.root.manager.loggerDict.items()):
            if isinstance(logger, logging.Logger):
                names[name] = level_name(logger.getEffectiveLevel())
        return names

    def set_level(self, logger: str, level: str | None) -> None:
        target = logging.getLogger(None if logger == ROOT else logger)
        target.setLevel(logging.NOTSET if level is None else LEVELS[level])


def set_up_logging(
    stream: TextIO | None = None, environment: Mapping[str, str] = os.environ
) -> None:
    handler = logging.StreamHandler(stream or sys.stdout)
    handler.setFormatter(KafkaLayout())
    handler.addFilter(LogLimit(LINES_OF_A_KIND))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS.get(environment.get(LEVEL_VARIABLE, "").upper(), logging.INFO))
    # A log that cannot be written (a closed pipe, a full disk) must not end the broker.
    logging.raiseExceptions = False
    # Nobody reads these fields, and each costs a call per line.
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False
    # The loop's own remarks are for its developers.
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def level_name(level: int) -> str:
    if level >= logging.CRITICAL + 10:
        return "OFF"
    if level >= logging.CRITICAL:
        return "FATAL"
    if level >= logging.ERROR:
        return "ERROR"
    if level >= logging.WARNING:
        return "WARN"
    return "INFO" if level >= logging.INFO else "DEBUG"
