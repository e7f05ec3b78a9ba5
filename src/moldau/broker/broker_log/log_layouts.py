"""How a line looks: Apache Kafka's layout, JSON, or a pattern from somebody's log4j file.

[2021-04-14 11:04:11,239] INFO [KafkaServer id=0] started (kafka.server.KafkaServer)

A message is one line, whatever names clients have given themselves: none can write a line that the
broker has not said, nor speak to the terminal of who reads it. Only traces have more lines, which
begin with a tab.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable
from typing import Any

LINE_LENGTH_MAX = 8_000
"""Characters of a message; a client can have ten thousand partitions named in one line."""
KAFKA_PATTERN = "[%d] %p %m (%c)%n"
LEVELS = {
    "TRACE": logging.DEBUG,
    "ALL": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}
"""Kafka's names."""
_CONTROLS = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_CONVERSION = re.compile(r"%(-?)(\d*)(?:\.-?\d+)?([a-zA-Z]+)(?:\{([^}]*)\})?|%%")
_DATE_WORDS = re.compile(r"'([^']*)'|yyyy|yy|MMM|MM|dd|HH|hh|mm|ss|SSS|EEE|EEEE|a|Z|XXX")
_DATE_CODES = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMM": "%b",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "EEE": "%a",
    "EEEE": "%A",
    "a": "%p",
    "Z": "%z",
    "XXX": "%z",
}
Part = Callable[[logging.LogRecord], str]


class UnknownPattern(ValueError):
    """A conversion that only Java can make; the sentence names it."""


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


def shortened(message: str, record: logging.LogRecord) -> str:
    """Unless its author has seen to its length."""
    if len(message) <= LINE_LENGTH_MAX or getattr(record, "is_whole", False):
        return message
    return f"{message[:LINE_LENGTH_MAX]} ({len(message) - LINE_LENGTH_MAX} more characters)"


def one_line(message: str) -> str:
    """What would end the line, or command a terminal, as Python writes it in texts."""
    if message.isprintable():
        return message
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], message)


class TextLayout(logging.Formatter):
    """What layouts that people read have in common."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(shortened(record.message, record))
        return self.line(record)

    def line(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        return "\n".join(f"\t{one_line(line)}" for line in super().formatException(ei).split("\n"))


class KafkaLayout(TextLayout):
    def __init__(self) -> None:
        super().__init__("[%(asctime)s] %(levelname)s %(message)s (%(name)s)")

    def format(self, record: logging.LogRecord) -> str:
        record.levelname = level_name(record.levelno)
        return super().format(record)


class JsonLayout(logging.Formatter):
    """One object a line, for programs that collect logs."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.localtime(record.created)
        zone = time.strftime("%z", seconds)
        said = {
            "timestamp": f"{time.strftime('%Y-%m-%dT%H:%M:%S', seconds)}.{int(record.msecs):03d}"
            f"{zone[:3]}:{zone[3:]}",
            "level": level_name(record.levelno),
            "logger": record.name,
            "message": shortened(record.getMessage(), record),
        }
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False)


class PatternLayout(TextLayout):
    """A pattern of log4j. Raises UnknownPattern."""

    def __init__(self, pattern: str) -> None:
        super().__init__()
        self._parts = _parts(pattern)

    def line(self, record: logging.LogRecord) -> str:
        return "".join(part(record) for part in self._parts)


def layout_of(pattern: str | None, is_json: bool) -> logging.Formatter:
    if is_json:
        return JsonLayout()
    if pattern is None or pattern == KAFKA_PATTERN:
        return KafkaLayout()
    return PatternLayout(pattern)


def strftime_of(java_pattern: str) -> str:
    """A pattern of Java's dates for `time.strftime`; SSS stays. Raises UnknownPattern."""

    def code(match: re.Match[str]) -> str:
        if match[0].startswith("'"):
            return (match[1] or "'").replace("%", "%%")
        return _DATE_CODES.get(match[0], match[0])

    rest = _DATE_WORDS.sub("", java_pattern)
    if re.search("[A-Za-z]", rest):
        raise UnknownPattern(f"the date pattern {java_pattern} has letters that are not understood")
    return _DATE_WORDS.sub(code, java_pattern)


def _parts(pattern: str) -> list[Part]:
    parts: list[Part] = []
    text = pattern.rstrip("\n").removesuffix("%n")
    end = 0
    for match in _CONVERSION.finditer(text):
        parts.append(_fixed(text[end : match.start()]))
        end = match.end()
        parts.append(_fixed("%") if match[0] == "%%" else _conversion(match))
    parts.append(_fixed(text[end:]))
    return parts


def _fixed(text: str) -> Part:
    return lambda record: text


def _conversion(match: re.Match[str]) -> Part:
    left, width, word, argument = match[1], int(match[2] or 0), match[3], match[4]
    part = _date(argument) if word in ("d", "date") else _words(word, argument)
    if part is None:
        raise UnknownPattern(f"the pattern {match[0]} is not understood")
    if not width:
        return part
    return lambda record: part(record).ljust(width) if left else part(record).rjust(width)


def _words(word: str, argument: str | None) -> Part | None:
    match word:
        case "p" | "level":
            return lambda record: level_name(record.levelno)
        case "m" | "msg" | "message":
            return lambda record: record.message
        case "c" | "logger" | "C":
            count = int(argument) if argument and argument.isdigit() else 0
            return lambda record: ".".join(record.name.split(".")[-count:])
        case "t" | "thread":
            return lambda record: record.threadName or "main"
        case "n":
            return _fixed("\n")
        case "x" | "X" | "ex" | "throwable":
            return _fixed("")
        case "F" | "file":
            return lambda record: record.filename
        case "L" | "line":
            return lambda record: str(record.lineno)
        case "M" | "method":
            return lambda record: record.funcName or ""
    return None


def _date(argument: str | None) -> Part:
    named = {"ISO8601": "yyyy-MM-dd HH:mm:ss,SSS", "DEFAULT": "yyyy-MM-dd HH:mm:ss,SSS"}
    named["ABSOLUTE"] = "HH:mm:ss,SSS"
    form = strftime_of(named.get(argument or "DEFAULT", argument or ""))
    return lambda record: time.strftime(
        form.replace("SSS", f"{int(record.msecs):03d}"), time.localtime(record.created)
    )
