"""The log looks as Apache Kafka's does, and its levels can be changed."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator

import pytest

from moldau.broker.log_setup import (
    LINE_LENGTH_MAX,
    LINES_OF_A_KIND,
    BrokerLoggers,
    set_up_logging,
)


@pytest.fixture(autouse=True)
def keep_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions = True
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = True


def test_a_line_has_the_layout_of_apache_kafka() -> None:
    stream = io.StringIO()
    set_up_logging(stream, {})
    logging.getLogger("kafka.controller.KafkaController").info("[Controller id=%d] hello", 0)
    logging.getLogger("kafka.server.KafkaServer").warning("careful")
    first, second = stream.getvalue().splitlines()
    assert re.fullmatch(
        r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] INFO \[Controller id=0\] hello "
        r"\(kafka\.controller\.KafkaController\)",
        first,
    )
    assert second.endswith("] WARN careful (kafka.server.KafkaServer)")


def test_the_environment_gives_the_level() -> None:
    stream = io.StringIO()
    set_up_logging(stream, {"MOLDAU_LOG_LEVEL": "warn"})
    logging.getLogger("kafka.server.KafkaServer").info("not written")
    assert stream.getvalue() == ""


def test_single_loggers_are_changed_and_set_back() -> None:
    set_up_logging(io.StringIO(), {})
    loggers = BrokerLoggers()
    name = "kafka.request.logger.of.this.test"
    logging.getLogger(name)
    assert loggers.levels()[name] == "INFO"
    loggers.set_level(name, "DEBUG")
    assert loggers.levels()[name] == "DEBUG"
    loggers.set_level(name, None)
    assert loggers.levels()[name] == "INFO"
    assert loggers.levels()["root"] == "INFO"


def test_a_log_that_cannot_be_written_is_not_a_fault() -> None:
    stream = io.StringIO()
    set_up_logging(stream, {})
    stream.close()
    logging.getLogger("kafka.server.KafkaServer").info("into the void")


def test_lines_of_one_kind_are_counted_instead_of_written_beyond_a_number() -> None:
    stream = io.StringIO()
    set_up_logging(stream, {})
    for number in range(1_000):
        logging.getLogger("kafka.coordinator").info("a member without an id, number %d", number)
        logging.getLogger("kafka.coordinator").info("another kind") if number < 3 else None
    lines = stream.getvalue().splitlines()
    assert len(lines) == LINES_OF_A_KIND + 3


def test_a_long_line_is_cut() -> None:
    stream = io.StringIO()
    set_up_logging(stream, {})
    logging.getLogger("kafka.controller").info("New topics: %s", "x" * 100_000)
    (line,) = stream.getvalue().splitlines()
    assert len(line) < 2 * LINE_LENGTH_MAX
    assert "(92012 more characters)" in line
