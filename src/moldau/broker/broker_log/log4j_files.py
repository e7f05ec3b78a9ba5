"""Reads the log4j.properties or log4j2.yaml of a Kafka broker: levels, appenders, layouts.

What cannot be done here is said in one sentence each, and the rest holds. A file that cannot be
read at all gives a plan without loggers: then Kafka's usual ones are in force.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moldau.broker.broker_log.log4j_rows import Rows, plan_of_rows
from moldau.broker.broker_log.log_plan import LogPlan

LOOKED_UP = re.compile(r"\$\{([^{}]*)\}")
LOOK_UPS_MAX = 20
"""Values may name one another; a circle ends here."""


def plan_of(file: Path, folder: str, environment: Mapping[str, str]) -> LogPlan:
    """`folder` stands for ${kafka.logs.dir}."""
    from moldau.config.java_options import log_flags

    known = {**log_flags(environment), "kafka.logs.dir": folder}
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix in (".yaml", ".yml"):
            rows = _rows_of_yaml(text, known, environment)
        elif file.suffix == ".properties":
            rows = _rows_of_properties(text, known, environment)
        else:
            raise ValueError("only log4j.properties and log4j2.yaml are read")
    except OSError as fault:
        return _unread(file, str(fault.strerror))
    except (ValueError, ImportError) as fault:
        return _unread(file, str(fault))
    plan = plan_of_rows(rows)
    remarks = tuple(f"{file}: {each}" for each in plan.remarks)
    return plan._replace(remarks=remarks)


def _unread(file: Path, reason: str) -> LogPlan:
    return LogPlan({}, {}, (f"{file} is not followed: {reason}",))


# log4j.properties


def _rows_of_properties(
    text: str, known: Mapping[str, str], environment: Mapping[str, str]
) -> Rows:
    from moldau.config.properties import parse_properties

    given = parse_properties(text)
    if not any(key.startswith("log4j.") for key in given):
        raise ValueError("it has none of log4j 1's keys (log4j2.properties is not read)")
    values = {key: _filled(value, given | dict(known), environment) for key, value in given.items()}
    rows = Rows()
    for key, value in values.items():
        words = key.split(".")
        if key == "log4j.rootLogger" or key == "log4j.rootCategory":
            rows.logger("root", *_level_and_names(value))
        elif key.startswith(("log4j.logger.", "log4j.category.")):
            name = ".".join(words[2:])
            is_additive = values.get(f"log4j.additivity.{name}", "true").lower() != "false"
            rows.logger(name, *_level_and_names(value), is_additive)
        elif key.startswith("log4j.appender.") and len(words) == 3:
            start = f"{key}."
            own = {k.removeprefix(start): v for k, v in values.items() if k.startswith(start)}
            rows.appender(words[2], _of_log4j_1(value, own))
    return rows


def _level_and_names(value: str) -> tuple[str | None, list[str]]:
    words = [word.strip() for word in value.split(",")]
    return words[0] or None, [word for word in words[1:] if word]


def _of_log4j_1(kind: str, own: Mapping[str, str]) -> dict[str, str]:
    """With the words of log4j 2."""
    path = own.get("File")
    found = {
        "kind": kind.rpartition(".")[2],
        "fileName": path,
        "datePattern": own.get("DatePattern", "'.'yyyy-MM-dd" if "Daily" in kind else None),
        "pattern": own.get("layout.ConversionPattern"),
        "layout": own.get("layout", "").rpartition(".")[2],
        "threshold": own.get("Threshold"),
        "target": own.get("Target"),
    }
    return {key: value for key, value in found.items() if value}


# log4j2.yaml


def _rows_of_yaml(text: str, known: Mapping[str, str], environment: Mapping[str, str]) -> Rows:
    try:
        import yaml
    except ImportError:
        raise ImportError("it needs PyYAML: pip install 'moldau[log4j]'") from None
    try:
        # The plain loader: every value is a text, and OFF is no boolean.
        top = yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError as fault:
        raise ValueError(" ".join(str(fault).split())) from None
    if not isinstance(top, dict) or not isinstance(top.get("Configuration"), dict):
        raise ValueError("it has no Configuration")
    tree: dict[str, Any] = top["Configuration"]
    own = {str(row["name"]): str(row.get("value")) for row in _all(tree, "Properties", "Property")}
    given = own | dict(known)
    rows = Rows()
    for kind, appenders in _mapping(tree.get("Appenders")).items():
        for each in _list(appenders):
            appender = {key: _filled(value, given, environment) for key, value in _flat(each)}
            rows.appender(appender.get("name", kind), {"kind": kind, **appender})
    loggers = _mapping(tree.get("Loggers"))
    for each in (*_list(loggers.get("Root")), *_list(loggers.get("Logger"))):
        name = str(each.get("name", "root"))
        level = str(each["level"]) if "level" in each else None
        refs = [str(ref["ref"]) for ref in _list(each.get("AppenderRef"))]
        is_additive = str(each.get("additivity", "true")).lower() != "false"
        rows.logger(name, level, refs, is_additive)
    return rows


def _flat(appender: Mapping[str, Any]) -> list[tuple[str, str]]:
    """An appender's own values, and those of its layout."""
    found = []
    for key, value in appender.items():
        if key.endswith("Layout"):
            found.append(("layout", key))
            found += [(k, str(v)) for k, v in _mapping(value).items()]
        elif key == "ThresholdFilter":
            found.append(("threshold", str(_mapping(value).get("level", ""))))
        elif not isinstance(value, (dict, list)):
            found.append((key, str(value)))
    return found


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[dict[str, Any]]:
    """YAML of log4j has one as a mapping and several as a list of them."""
    return [each for each in (value if isinstance(value, list) else [value]) if _mapping(each)]


def _all(tree: Mapping[str, Any], *path: str) -> list[dict[str, Any]]:
    found: Any = tree
    for word in path:
        found = _mapping(found).get(word)
    return [each for each in _list(found) if "name" in each]


def _filled(value: str, known: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """With ${name}, ${sys:name} and ${env:NAME} replaced; what nobody knows stays."""

    def found(match: re.Match[str]) -> str:
        kind, colon, name = match[1].partition(":")
        if not colon:
            return known.get(match[1], match[0])
        name, _, default = name.partition(":-")
        if kind == "env":
            return environment.get(name, default or match[0])
        return known.get(name, default or match[0])

    for _ in range(LOOK_UPS_MAX):
        filled = LOOKED_UP.sub(found, value)
        if filled == value:
            break
        value = filled
    return value
