"""The log4j files that people have: what they say is done, and what cannot be done is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.broker.broker_log.log4j_files import plan_of
from moldau.broker.broker_log.log_layouts import PatternLayout
from moldau.broker.broker_log.log_plan import Appender, LoggerPlan, LogPlan
from moldau.broker.broker_log.log_search import LogPlaces, plan_for
from moldau.config.broker_config import BrokerConfig

LOG4J_1 = """
log4j.rootLogger=INFO, stdout, kafkaAppender
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.appender.kafkaAppender=org.apache.log4j.DailyRollingFileAppender
log4j.appender.kafkaAppender.DatePattern='.'yyyy-MM-dd-HH
log4j.appender.kafkaAppender.File=${kafka.logs.dir}/server.log
log4j.appender.kafkaAppender.layout=org.apache.log4j.PatternLayout
log4j.appender.kafkaAppender.layout.ConversionPattern=%-5p %c{1} %m%n
log4j.appender.kafkaAppender.Threshold=WARN
log4j.appender.cleanerAppender=org.apache.log4j.DailyRollingFileAppender
log4j.appender.cleanerAppender.File=${kafka.logs.dir}/log-cleaner.log
log4j.appender.mail=org.apache.log4j.net.SMTPAppender
log4j.logger.kafka=DEBUG
log4j.logger.kafka.log.LogCleaner=INFO, cleanerAppender
log4j.additivity.kafka.log.LogCleaner=false
log4j.logger.kafka.network.RequestChannel$=WARN, mail
log4j.logger.kafka.raft=LOUD
"""
LOG4J_2 = """
Configuration:
  Properties:
    Property:
      - {name: kafka.logs.dir, value: "."}
      - {name: logPattern, value: "[%d] %p %m (%c)%n"}
  Appenders:
    Console:
      name: STDOUT
      PatternLayout: {pattern: "${logPattern}"}
    RollingFile:
      - name: KafkaAppender
        fileName: "${sys:kafka.logs.dir}/server.log"
        filePattern: "${sys:kafka.logs.dir}/server.log.%d{yyyy-MM-dd-HH}"
        PatternLayout: {pattern: "${logPattern}"}
        TimeBasedTriggeringPolicy: {modulate: true, interval: 1}
      - name: Sized
        fileName: "${env:OTHER_DIR}/sized.log"
        filePattern: "sized.log.%i"
  Loggers:
    Root:
      level: WARN
      AppenderRef: [{ref: STDOUT}, {ref: KafkaAppender}]
    Logger:
      - {name: org.apache.kafka.controller, level: TRACE, additivity: false,
         AppenderRef: {ref: Sized}}
      - {name: kafka.request.logger, level: OFF}
"""


def read(folder: Path, name: str, text: str, environment: dict[str, str] | None = None) -> LogPlan:
    (folder / name).write_text(text)
    return plan_of(folder / name, "/var/logs", environment or {})


def test_a_properties_file_of_kafka_3_is_followed(tmp_path: Path) -> None:
    plan = read(tmp_path, "log4j.properties", LOG4J_1)
    kafka = "[%d] %p %m (%c)%n"
    assert plan.appenders == {
        "stdout": Appender(None, kafka, None),
        "kafkaAppender": Appender(
            "/var/logs/server.log", "%-5p %c{1} %m%n", ".%Y-%m-%d-%H", "WARN"
        ),
        "cleanerAppender": Appender("/var/logs/log-cleaner.log", None, ".%Y-%m-%d"),
    }
    assert plan.loggers == {
        "root": LoggerPlan("INFO", ("stdout", "kafkaAppender")),
        "kafka": LoggerPlan("DEBUG"),
        "kafka.log.LogCleaner": LoggerPlan("INFO", ("cleanerAppender",), False),
        "kafka.request.logger": LoggerPlan("WARN"),
        "kafka.raft": LoggerPlan(None),
    }
    file = tmp_path / "log4j.properties"
    assert plan.remarks == (
        f"{file}: the appender mail is of a kind that is not known here, SMTPAppender",
        f"{file}: the level LOUD of the logger kafka.raft is none of log4j's",
    )
    assert plan.writes_files


def test_a_yaml_file_of_kafka_4_is_followed(tmp_path: Path) -> None:
    plan = read(tmp_path, "log4j2.yaml", LOG4J_2, {"OTHER_DIR": "/other"})
    kafka = "[%d] %p %m (%c)%n"
    assert plan.appenders == {
        "STDOUT": Appender(None, kafka, None),
        "KafkaAppender": Appender("/var/logs/server.log", kafka, ".%Y-%m-%d-%H"),
        "Sized": Appender("/other/sized.log", None, None),
    }
    assert plan.loggers == {
        "root": LoggerPlan("WARN", ("STDOUT", "KafkaAppender")),
        "kafka.controller": LoggerPlan("TRACE", ("Sized",), False),
        "kafka.request.logger": LoggerPlan("OFF"),
    }
    assert plan.remarks == ()


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("log4j2.yaml", "a: [", "while parsing a flow node"),
        ("log4j2.yaml", "Loggers: {}", "it has no Configuration"),
        ("log4j.properties", "rootLogger.level = info", "it has none of log4j 1's keys"),
        ("log4j2.xml", "<Configuration/>", "only log4j.properties and log4j2.yaml are read"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    plan = read(tmp_path, name, text)
    assert plan.loggers == {}
    (remark,) = plan.remarks
    assert remark.startswith(f"{tmp_path / name} is not followed: {reason}")


def test_a_file_without_a_usable_appender_leaves_what_is_printed(tmp_path: Path) -> None:
    plan = read(tmp_path, "log4j.properties", "log4j.rootLogger=WARN, gone\n")
    assert plan.loggers["root"] == LoggerPlan("WARN", ("stdout",))
    assert plan.remarks[-1].endswith("no appender of it can be used, so the log is printed")


@pytest.mark.parametrize("variable", ["KAFKA_LOG4J_OPTS", "KAFKA_OPTS"])
def test_the_file_is_found_by_the_environment_or_beside_the_settings(
    tmp_path: Path, variable: str
) -> None:
    config, _ = BrokerConfig.parse({"broker.id": "0", "log.dirs": "data"})
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "log4j.properties").write_text("log4j.rootLogger=ERROR, A\n")
    (tmp_path / "named.properties").write_text("log4j.rootLogger=WARN, A\n")
    beside = LogPlaces(tmp_path / "beside")
    named = {variable: f"-Xmx1g -Dlog4j.configuration=file:{tmp_path}/named.properties"}
    assert plan_for(config, {}, LogPlaces()).loggers["root"].level == "INFO"
    assert plan_for(config, {}, beside).loggers["root"].level == "ERROR"
    assert plan_for(config, named, beside).loggers["root"].level == "WARN"


def test_a_pattern_of_log4j_is_written_as_log4j_would() -> None:
    import logging

    layout = PatternLayout("%d{yyyy/MM/dd'T'HH:mm:ss.SSS} %-5p [%t] %c{2}: 100%% %m%n")
    record = logging.LogRecord("kafka.server.KafkaServer", 30, "", 0, "%s", ("said",), None)
    record.created, record.msecs, record.threadName = 1_700_000_000.25, 250, None
    text = layout.format(record)
    assert text[4] == "/" and text[19:24] == ".250 "
    assert text[24:] == "WARN  [main] server.KafkaServer: 100% said"
