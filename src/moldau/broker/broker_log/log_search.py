"""Decides what the broker's log is to be: by its settings, its environment and log4j files.

A log4j file that is named in KAFKA_LOG4J_OPTS or KAFKA_OPTS, or stands beside server.properties,
says itself what is written where. Without one Kafka's usual files are written if somebody has said
where: by kafka.logs.dir, LOG_DIR or -daemon. Otherwise the log is only printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.broker_log.log_plan import LogPlan, plan_of_console, plan_of_files
from moldau.broker.broker_log.log_setup import LogWishes

if TYPE_CHECKING:
    from moldau.config.broker_config import BrokerConfig

FOLDER_VARIABLE = "LOG_DIR"
FOLDER_BY_DEFAULT = "logs"
NAMES = ("log4j2.yaml", "log4j2.yml", "log4j.properties")
"""Looked for beside server.properties, the first that is there is read."""
FLAGS = ("log4j2.configurationFile", "log4j.configurationFile", "log4j.configuration")


class LogPlaces(NamedTuple):
    """What only the command knows."""

    settings_folder: Path | None = None
    """Where server.properties stands."""
    console_file: Path | None = None
    """Where standard output goes, if the broker runs in the background."""


def plan_for(config: BrokerConfig, environment: Mapping[str, str], places: LogPlaces) -> LogPlan:
    folder = config.kafka_logs_dir or environment.get(FOLDER_VARIABLE)
    if not folder and places.console_file is not None:
        folder = str(places.console_file.parent)
    found = _log4j_file(environment, places.settings_folder)
    if found is not None:
        from moldau.broker.broker_log.log4j_files import plan_of

        given = plan_of(found, folder or FOLDER_BY_DEFAULT, environment)
        if given.loggers:
            return given
        usual = plan_of_files(folder) if folder else plan_of_console()
        return usual._replace(remarks=given.remarks)
    return plan_of_files(folder) if folder else plan_of_console()


def wishes_of(config: BrokerConfig, places: LogPlaces) -> LogWishes:
    return LogWishes(
        config.kafka_logs_format.lower() == "json",
        config.kafka_logs_retention_files,
        config.kafka_logs_retention_bytes,
        config.node_id,
        places.console_file,
    )


def _log4j_file(environment: Mapping[str, str], settings_folder: Path | None) -> Path | None:
    if "log4j" in environment.get("KAFKA_LOG4J_OPTS", "") + environment.get("KAFKA_OPTS", ""):
        from moldau.config.java_options import log_flags

        given = log_flags(environment)
        for flag in FLAGS:
            if flag in given:
                return Path(given[flag].removeprefix("file:"))
    if settings_folder is not None:
        for name in NAMES:
            if (settings_folder / name).is_file():
                return settings_folder / name
    return None
