"""From the rows of a log4j file, of either version, to a plan: what is understood of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from moldau.broker.broker_log.log_layouts import (
    LEVELS,
    PatternLayout,
    UnknownPattern,
    strftime_of,
)
from moldau.broker.broker_log.log_plan import CONSOLE, HOURLY, ROOT, Appender, LoggerPlan, LogPlan
from moldau.broker.broker_log.logger_names import own_name

PRINTING = ("Console", "ConsoleAppender")
FILING = (
    "DailyRollingFileAppender",
    "File",
    "FileAppender",
    "RollingFile",
    "RollingFileAppender",
    "RollingRandomAccessFile",
)
_DATE_OF_FILE_PATTERN = re.compile(r"(.?)%d(?:ate)?\{([^}]*)\}")


class Rows:
    """What a file says, in the words of log4j 2."""

    def __init__(self) -> None:
        self.appenders: dict[str, Mapping[str, str]] = {}
        self.loggers: list[tuple[str, str | None, list[str], bool]] = []

    def appender(self, name: str, row: Mapping[str, str]) -> None:
        self.appenders[name] = row

    def logger(
        self, name: str, level: str | None, appenders: Iterable[str], is_additive: bool = True
    ) -> None:
        self.loggers.append((name, level, list(appenders), is_additive))


def plan_of_rows(rows: Rows) -> LogPlan:
    remarks: list[str] = []
    appenders: dict[str, Appender] = {}
    for name, row in rows.appenders.items():
        found = _appender(name, row, remarks)
        if found is not None:
            appenders[name] = found
    loggers: dict[str, LoggerPlan] = {}
    for name, level, names, is_additive in rows.loggers:
        known = tuple(each for each in names if each in appenders)
        if level is not None and level.upper() not in LEVELS:
            remarks.append(f"the level {level} of the logger {name} is none of log4j's")
            level = None
        own = ROOT if name.lower() == ROOT else own_name(name)
        if own in loggers and not known:
            # Several of Kafka's loggers are one here; what has an appender says where it goes.
            continue
        row_level = level.upper() if level is not None else None
        # Whose every appender is unknown must not fall silent.
        loggers[own] = LoggerPlan(row_level, known, is_additive or bool(names and not known))
    if not any(logger.appenders for logger in loggers.values()):
        remarks.append("no appender of it can be used, so the log is printed")
        appenders[CONSOLE] = Appender()
        root = loggers.get(ROOT, LoggerPlan("INFO"))
        loggers[ROOT] = root._replace(appenders=(CONSOLE,))
    return LogPlan(appenders, loggers, tuple(remarks))


def _appender(name: str, row: Mapping[str, str], remarks: list[str]) -> Appender | None:
    kind = row.get("kind", "")
    if kind not in PRINTING and kind not in FILING:
        remarks.append(f"the appender {name} is of a kind that is not known here, {kind}")
        return None
    path = None
    if kind in FILING:
        path = row.get("fileName", "")
        if not path or "${" in path:
            remarks.append(f"the appender {name} has no file that is known: {path or 'none'}")
            return None
    elif row.get("target", "SYSTEM_OUT").upper() != "SYSTEM_OUT":
        remarks.append(f"the appender {name} prints to standard output, not to {row['target']}")
    return Appender(
        path,
        _pattern(name, row, remarks),
        _suffix(name, row, remarks) if path is not None else None,
        _threshold(name, row, remarks),
    )


def _pattern(name: str, row: Mapping[str, str], remarks: list[str]) -> str | None:
    pattern = row.get("pattern")
    layout = row.get("layout", "PatternLayout")
    if layout not in ("PatternLayout", "EnhancedPatternLayout", ""):
        remarks.append(
            f"the appender {name} has Kafka's layout, not {layout}; kafka.logs.format=json writes "
            "JSON"
        )
        return None
    if pattern is None:
        return None
    try:
        PatternLayout(pattern)
    except UnknownPattern as fault:
        remarks.append(f"the appender {name} has Kafka's layout: {fault}")
        return None
    return pattern


def _suffix(name: str, row: Mapping[str, str], remarks: list[str]) -> str | None:
    """The end of a rolled file's name. A file without a date in it is rolled by size alone."""
    if "datePattern" in row:
        java = row["datePattern"]
    elif "filePattern" in row:
        match = _DATE_OF_FILE_PATTERN.search(row["filePattern"])
        if match is None:
            return None
        java = f"'.'{match[2]}"
    else:
        return None
    try:
        return strftime_of(java)
    except UnknownPattern as fault:
        remarks.append(f"the file of the appender {name} is rolled every hour: {fault}")
        return HOURLY


def _threshold(name: str, row: Mapping[str, str], remarks: list[str]) -> str | None:
    threshold = row.get("threshold") or None
    if threshold is not None and threshold.upper() not in LEVELS:
        remarks.append(f"the threshold {threshold} of the appender {name} is none of log4j's")
        return None
    return threshold.upper() if threshold else None
