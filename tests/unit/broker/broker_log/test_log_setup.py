"""The log looks as Apache Kafka's does, goes where a plan says, and its levels can be changed."""

from __future__ import annotations

import io
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from moldau.broker.broker_log.log_layouts import LINE_LENGTH_MAX
from moldau.broker.broker_log.log_plan import Appender, LoggerPlan, LogPlan, plan_of_files
from moldau.broker.broker_log.log_setup import (
    LINES_OF_A_KIND,
    BrokerLoggers,
    LogWishes,
    set_up_logging,
)


@pytest.fixture(autouse=True)
def keep_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.handlers[:] = []
            logger.propagate = True
            logger.setLevel(logging.NOTSET)
    logging.raiseExceptions = True
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = True


class Log:
    """A log that is set up, and what it has printed."""

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        plan: LogPlan | None = None,
        wishes: LogWishes | None = None,
    ) -> None:
        self.stream = io.StringIO()
        self.broker_log = set_up_logging(self.stream, environment or {}, plan, wishes)

    def lines(self) -> list[str]:
        self.broker_log.close()
        return self.stream.getvalue().splitlines()


def test_a_line_has_the_layout_of_apache_kafka() -> None:
    log = Log()
    logging.getLogger("kafka.controller.KafkaController").info("[Controller id=%d] hello", 0)
    logging.getLogger("kafka.server.KafkaServer").warning("careful")
    first, second = log.lines()
    assert re.fullmatch(
        r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] INFO \[Controller id=0\] hello "
        r"\(kafka\.controller\.KafkaController\)",
        first,
    )
    assert second.endswith("] WARN careful (kafka.server.KafkaServer)")


def test_the_environment_gives_the_level() -> None:
    log = Log({"MOLDAU_LOG_LEVEL": "warn"})
    logging.getLogger("kafka.server.KafkaServer").info("not written")
    assert log.lines() == []


def test_single_loggers_are_changed_and_set_back() -> None:
    Log()
    loggers = BrokerLoggers()
    name = "kafka.request.logger.of.this.test"
    logging.getLogger(name)
    assert loggers.levels()[name] == "WARN"
    loggers.set_level(name, "DEBUG")
    assert loggers.levels()[name] == "DEBUG"
    loggers.set_level(name, None)
    assert loggers.levels()[name] == "WARN"
    assert loggers.levels()["root"] == "INFO"


def test_a_log_that_cannot_be_written_is_not_a_fault() -> None:
    log = Log()
    log.stream.close()
    logging.getLogger("kafka.server.KafkaServer").info("into the void")
    log.broker_log.close()


def test_a_message_that_does_not_fit_its_arguments_is_written_as_it_is() -> None:
    log = Log()
    logging.getLogger("kafka.server.KafkaServer").info("%d of %d", 1)
    (line,) = log.lines()
    assert "kafka.server.KafkaServer: '%d of %d' (1,)" in line


def test_lines_of_one_kind_are_counted_instead_of_written_beyond_a_number() -> None:
    log = Log()
    for number in range(1_000):
        logging.getLogger("kafka.coordinator").info("a member without an id, number %d", number)
        logging.getLogger("kafka.coordinator").info("another kind") if number < 3 else None
    assert len(log.lines()) == LINES_OF_A_KIND + 3


FORGED = "eve\n[2026-11-19 10:00:00,000] ERROR forged (kafka.server.KafkaServer)\x1b[2J\u2028\x85"


@pytest.mark.parametrize("pattern", [None, "%p|%m%n"])
def test_a_name_of_a_client_makes_no_line_and_commands_no_terminal(
    tmp_path: Path, pattern: str | None
) -> None:
    plan = LogPlan(
        {"all": Appender(str(tmp_path / "all.log"), pattern)},
        {"root": LoggerPlan("INFO", ("all",))},
    )
    log = Log(plan=plan)
    logging.getLogger("kafka.server").info("Adding new member %s", FORGED)
    try:
        raise ValueError(FORGED)
    except ValueError:
        logging.getLogger("kafka.server").exception("A request of %s failed", FORGED)
    log.broker_log.close()
    first, second, *trace = (tmp_path / "all.log").read_text().split("\n")
    for line in (first, second):
        assert r"eve\n[2026-11-19 10:00:00,000] ERROR forged (kafka.server.KafkaServer)" in line
        assert r"\x1b[2J\u2028\x85" in line
    assert trace.pop() == ""
    assert trace[0] == "\tTraceback (most recent call last):"
    assert all(line.startswith("\t") for line in trace)
    assert not set("\x1b\u2028\x85") & set((tmp_path / "all.log").read_text())


def test_a_long_line_is_cut() -> None:
    log = Log()
    logging.getLogger("kafka.server").info("New topics: %s", "x" * 100_000)
    (line,) = log.lines()
    assert len(line) < 2 * LINE_LENGTH_MAX
    assert "(92012 more characters)" in line


def test_what_has_a_file_of_its_own_stands_there_and_nowhere_else(tmp_path: Path) -> None:
    log = Log(plan=plan_of_files(str(tmp_path)))
    loggers = {
        "server.log": "kafka.server.KafkaServer",
        "controller.log": "kafka.controller.KafkaController",
        "state-change.log": "state.change.logger",
        "kafka-request.log": "kafka.request.logger",
        "log-cleaner.log": "kafka.log.LogCleaner",
        "kafka-authorizer.log": "kafka.authorizer.logger",
    }
    for file, logger in loggers.items():
        logging.getLogger(logger).warning("for %s", file)
    (printed,) = log.lines()
    assert "for server.log" in printed
    assert sorted(os.listdir(tmp_path)) == sorted(loggers)
    for file, logger in loggers.items():
        (line,) = (tmp_path / file).read_text().splitlines()
        assert line.endswith(f" WARN for {file} ({logger})")


def test_lines_can_be_json_objects(tmp_path: Path) -> None:
    log = Log(plan=plan_of_files(str(tmp_path)), wishes=LogWishes(is_json=True))
    logging.getLogger("kafka.server.KafkaServer").error("it says %s", '"no"\n')
    (printed,) = log.lines()
    said = json.loads(printed)
    assert said.pop("timestamp")[4] == "-"
    assert said == {
        "level": "ERROR",
        "logger": "kafka.server.KafkaServer",
        "message": 'it says "no"\n',
    }
    assert (tmp_path / "server.log").read_text() == f"{printed}\n"


def test_two_brokers_do_not_write_the_same_files(tmp_path: Path) -> None:
    first = Log(plan=plan_of_files(str(tmp_path)))
    second = Log(plan=plan_of_files(str(tmp_path)), wishes=LogWishes(node_id=7))
    logging.getLogger("kafka.server.KafkaServer").info("hello")
    printed = second.lines()
    assert "Another process writes its log files to" in printed[0]
    assert f"Those of this broker go to {tmp_path}/broker-7" in printed[1]
    assert "hello" in (tmp_path / "broker-7" / "server.log").read_text()
    assert not (tmp_path / "server.log").exists()
    assert first.lines() == []


def test_a_folder_that_cannot_be_made_leaves_what_is_printed(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    log = Log(plan=plan_of_files(str(tmp_path / "logs")))
    logging.getLogger("kafka.controller.KafkaController").info("printed after all")
    first, second, third = log.lines()
    assert "Log files cannot be written to" in first and "File exists" in first
    assert "The log is only printed" in second
    assert "printed after all" in third


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("kafka.controller", "kafka.controller.KafkaController"),
        ("org.apache.kafka.controller", "kafka.controller.KafkaController"),
        ("kafka.network.RequestChannel$", "kafka.request.logger"),
        ("org.apache.kafka.storage.internals.log.LogCleaner", "kafka.log.LogCleaner"),
        ("org.apache.kafka.coordinator.group", "kafka.coordinator.group.GroupCoordinator"),
        ("root", "kafka.server.KafkaServer"),
    ],
)
def test_a_name_of_any_version_of_kafka_sets_our_logger(name: str, own: str) -> None:
    Log()
    loggers = BrokerLoggers()
    assert loggers.has(name)
    loggers.set_level(name, "ERROR")
    assert loggers.levels()[own] == "ERROR"


def test_a_logger_that_writes_nothing_is_not_known() -> None:
    assert not BrokerLoggers().has("kafka.raft")
    assert not BrokerLoggers().has("org.apache.kafka.raft.KafkaRaftClient")
