"""`moldau jmx`: a broker's metrics by the names of Kafka's MBeans, as kafka-jmx.sh prints them.

There is no JMX: what is asked for comes from `/jolokia` of the broker's metrics.http.listener.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given, integer, truth
from moldau.cli.output import Output
from moldau.cli.tool import Tool, run_tool

URL = "http://127.0.0.1:9404/jolokia"
SECONDS_MAX = 60.0
WAIT_MS = 10_000
RETRY_SECONDS = 0.1
ANSWER_BYTES_MAX = 256 * 1024 * 1024
FORMATS = ("original", "properties", "csv", "tsv")
NO_JMX = "there is no JMX; the listener of metrics has no log-in"

Attributes = dict[str, Any]
"""By `MBean:attribute`."""


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    url = checked_url(given.text("jmx-url"))
    queries = given.texts("object-name") or ["*:*"]
    wanted = [name for name in (given.maybe_text("attributes") or "").split(",") if name]
    shape = given.text("report-format").lower()
    if shape not in FORMATS:
        shape = FORMATS[0]
    interval_ms = given.number("reporting-interval")
    is_once = interval_ms < 0 or given.has("one-time")
    out.remark(f"Trying to connect to JMX url: {url}.")
    found = first_read(url, queries, wanted, waits=given.has("wait"))
    if not found:
        raise CommandFault(f"No matched attributes for the queried objects [{', '.join(queries)}].")
    keys = ["time", *sorted(found)]
    if shape == "original":
        out.line(",".join(f'"{key}"' for key in keys))
    while True:
        started = time.monotonic()
        values = {"time": time_text(given.maybe_text("date-format")), **found}
        print_values(shape, keys, values, out)
        out.flush()
        if is_once:
            return
        time.sleep(max(0.0, interval_ms / 1000 - (time.monotonic() - started)))
        again = read(url, queries, wanted)
        # A row with other columns than the first would be put in the wrong ones.
        found = {key: again[key] for key in found if key in again}


def print_values(shape: str, keys: list[str], values: Attributes, out: Output) -> None:
    if out.is_json:
        attributes = [{"name": key, "value": values[key]} for key in keys[1:] if key in values]
        out.json({"time": values["time"], "attributes": attributes})
    if values.keys() != set(keys):
        return
    if shape == "original":
        out.line(",".join(text_of(values[key]) for key in keys))
        return
    form = {"properties": "{}={}", "csv": '{},"{}"', "tsv": "{}\t{}"}[shape]
    for key in keys:
        out.line(form.format(key, text_of(values[key])))


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def time_text(pattern: str | None) -> str:
    if pattern is None:
        return str(int(time.time() * 1000))
    return java_date(pattern, time.localtime(), int(time.time() * 1000) % 1000)


LETTERS = {"y": "%Y", "M": "%m", "d": "%d", "H": "%H", "m": "%M", "s": "%S", "Z": "%z", "z": "%Z"}


def java_date(pattern: str, moment: time.struct_time, millis: int) -> str:
    """A date in the letters of Java's SimpleDateFormat that dates are usually written with."""
    text, position, is_quoted = "", 0, False
    while position < len(pattern):
        letter = pattern[position]
        if letter == "'":
            is_quoted = not is_quoted
            position += 1
            continue
        end = position
        while end < len(pattern) and pattern[end] == letter and not is_quoted:
            end += 1
        count = max(1, end - position)
        if is_quoted or not letter.isalpha():
            text += letter * count
        elif letter == "S":
            text += str(millis).zfill(count)
        elif letter == "y" and count == 2:
            text += time.strftime("%y", moment)
        elif letter == "M" and count > 2:
            text += time.strftime("%b" if count == 3 else "%B", moment)
        elif letter in LETTERS:
            word = time.strftime(LETTERS[letter], moment)
            text += word if count > 1 or not word.isdigit() else str(int(word))
        else:
            raise UsageFault(f"--date-format: the letter {letter} is not known.")
        position += count
    return text


# Asking


def checked_url(text: str) -> str:
    """A URL of HTTP, or host:port of a listener."""
    if text.startswith("service:jmx:"):
        raise UsageFault(
            f"{text} is for JMX, which a Python broker has not; give the address of its"
            f" metrics.http.listener, as {URL}"
        )
    if "://" not in text:
        text = f"http://{text}"
    if not text.startswith(("http://", "https://")):
        raise UsageFault(f"{text} is no address of HTTP, as {URL}")
    return text if "/jolokia" in text else text.rstrip("/") + "/jolokia"


def first_read(url: str, queries: list[str], wanted: list[str], *, waits: bool) -> Attributes:
    """Tries again for a while if nobody answers yet, or not every name is there that is waited
    for."""
    has_patterns = any("*" in query or "?" in query for query in queries)
    ends = time.monotonic() + WAIT_MS / 1000
    while True:
        try:
            found = read(url, queries, wanted)
        except OSError as fault:
            reason = getattr(fault, "reason", fault)
            if time.monotonic() >= ends:
                raise CommandFault(
                    f"Could not connect to JMX url {url} after {WAIT_MS} ms: {reason}"
                ) from None
            print(f"Could not connect to JMX url: {url}. Exception: {reason}.", file=sys.stderr)
            time.sleep(RETRY_SECONDS)
            continue
        missing = [] if has_patterns or not waits else missing_of(url, queries)
        if not missing:
            return found
        if time.monotonic() >= ends:
            raise CommandFault(
                f"Could not find all requested object names after {WAIT_MS} ms."
                f" Missing {','.join(missing)}"
            )
        print("Could not find all object names, retrying", file=sys.stderr)
        time.sleep(RETRY_SECONDS)


def read(url: str, queries: list[str], wanted: list[str]) -> Attributes:
    found: Attributes = {}
    for query, answer in zip(queries, ask(url, "read", queries), strict=True):
        if answer["status"] == 404:
            continue
        if answer["status"] != 200:
            raise CommandFault(f"{query}: {answer['error']}")
        value = answer["value"]
        name = answer["request"]["mbean"]
        beans = value if "*" in query or "?" in query else {name: value}
        for bean, attributes in beans.items():
            for attribute, each in attributes.items():
                if not wanted or attribute in wanted:
                    found[f"{bean}:{attribute}"] = each
    return found


def missing_of(url: str, queries: list[str]) -> list[str]:
    answers = ask(url, "search", queries)
    return [
        query for query, answer in zip(queries, answers, strict=True) if not answer.get("value")
    ]


def ask(url: str, kind: str, queries: list[str]) -> list[dict[str, Any]]:
    """One answer for each query. Raises OSError if there is none."""
    config = {"canonicalNaming": False}
    rows = [{"type": kind, "mbean": query, "config": config} for query in queries]
    request = urllib.request.Request(
        url, json.dumps(rows).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
            body = answer.read(ANSWER_BYTES_MAX)
    except urllib.error.HTTPError as fault:
        reason = fault.read(500).decode(errors="replace").strip()
        raise CommandFault(f"{url} answers {fault.code}: {reason}") from None
    try:
        answers = json.loads(body)
    except ValueError:
        raise CommandFault(f"{url} is no address that serves /jolokia") from None
    if not isinstance(answers, list) or len(answers) != len(queries):
        raise CommandFault(f"{url} is no address that serves /jolokia")
    return answers


TOOL = Tool(
    name="jmx",
    does="Prints a broker's metrics by the names of Kafka's MBeans, again and again.",
    flags=(
        Flag(
            "--object-name",
            "An MBean, or a pattern of several; all without it.",
            takes="NAME",
            repeats=True,
        ),
        Flag("--attributes", "Only these attributes, separated by commas.", takes="A1,A2"),
        Flag(
            "--reporting-interval",
            "Milliseconds between two lines; below 0 there is only one.",
            takes="MS",
            kind=integer,
            default=2000,
        ),
        Flag("--one-time", "Print once and end.", takes="true", kind=truth, bare=True),
        Flag("--date-format", "How times are written, as SimpleDateFormat has it.", takes="FORMAT"),
        Flag(
            "--jmx-url",
            "Where the broker's metrics.http.listener is.",
            takes="URL",
            default=URL,
        ),
        Flag(
            "--report-format",
            "original (one line each time), properties, csv or tsv.",
            takes="FORMAT",
            default=FORMATS[0],
        ),
        Flag("--jmx-auth-prop", takes="NAME=PASSWORD", hidden=True, no_effect=NO_JMX),
        Flag("--jmx-ssl-enable", takes="true", hidden=True, no_effect=NO_JMX),
        Flag("--wait", "Wait until all MBeans that are named are there."),
    ),
    main=main,
    answers_in_lines=True,
    needs_words=False,
    examples=(
        "moldau jmx --object-name kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec"
        " --attributes Count,OneMinuteRate --one-time",
    ),
)
