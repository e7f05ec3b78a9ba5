"""`moldau sql`: questions to a cluster in SQL, answered by DuckDB in this process."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from moldau.cli.command_clients import bootstrap_of, client_faults, properties_file, reach
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON_LINES, Tool, run_tool

if TYPE_CHECKING:
    from moldau.tables.value_formats import ValueFormat

FORMATS = ("table", "csv", "json", "parquet")
CLEAR = "\x1b[2J\x1b[H"


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def main(given: Given, out: Output) -> None:
    statement = given.words[0] if given.words else ""
    if not statement and not sys.stdin.isatty():
        statement = sys.stdin.read()
    if not statement.strip():
        raise UsageFault("What is to be asked? Give a statement, in quotes")
    seconds = seconds_of(given.maybe_text("watch"))
    path = given.maybe_text("output")
    if seconds is not None and path is not None:
        raise UsageFault("--watch repeats on the screen: leave --output out")
    settings = properties_file(given.text("command-config")) if given.has("command-config") else {}
    settings["bootstrap.servers"] = bootstrap_of(given, out)
    with client_faults(), table_faults():
        formats = formats_of(given)
        reach(settings["bootstrap.servers"], settings, out)
        ask(given, out, settings, formats, (statement, path, seconds))


def ask(
    given: Given,
    out: Output,
    settings: dict[str, str],
    formats: dict[str, ValueFormat],
    question: tuple[str, str | None, float | None],
) -> None:
    from moldau.cli.records.sql_output import write
    from moldau.tables.sql_session import SqlSession

    statement, path, seconds = question
    with closing(SqlSession(settings, formats)) as session:
        while True:
            answer = session.ask(statement)
            if seconds is not None and out.is_terminal:
                out.write(CLEAR)
            form = "json" if given.has("json") else given.text("format")
            write(answer, form, out, path)
            if seconds is None:
                return
            out.flush()
            time.sleep(seconds)
            if not out.is_terminal:
                out.line()


def seconds_of(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:
        raise UsageFault(f"--watch cannot be {text}: give the seconds between two answers")
    return seconds


def formats_of(given: Given) -> dict[str, ValueFormat]:
    """What the values of topics are, as far as it is said."""
    from moldau.tables.avro_format import Avro
    from moldau.tables.value_formats import Json

    formats: dict[str, ValueFormat] = {}
    malformed = given.text("malformed")
    for text in given.texts("values"):
        topic, equals, columns = text.partition("=")
        words = [each.strip().partition(" ") for each in columns.split(",")]
        kinds = {name: kind.strip() for name, _, kind in words}
        if not equals or not all(kinds.values()):
            raise UsageFault(f"--values cannot be {text}: write 'orders=id int64, amount float64'")
        formats[topic.strip()] = Json(kinds, malformed=malformed)
    topics = [each.strip() for each in (given.maybe_text("avro") or "").split(",") if each.strip()]
    registry = given.maybe_text("schema-registry")
    if bool(topics) != bool(registry):
        raise UsageFault("--avro and --schema-registry belong together: give both")
    for topic in topics:
        formats[topic] = Avro(registry=registry, subject=f"{topic}-value", malformed=malformed)
    return formats


@contextmanager
def table_faults() -> Iterator[None]:
    from moldau.tables.table_faults import TableError

    try:
        yield
    except TableError as fault:
        raise CommandFault(str(fault)) from None


TOOL = Tool(
    name="sql",
    does="Asks a cluster in SQL. Every topic is a table; so are topics, partitions, groups, lag,"
    " settings and brokers.",
    flags=(
        BOOTSTRAP,
        COMMAND_CONFIG,
        JSON_LINES,
        Flag(
            "--format", "How the answer is written.", takes="FORM", default="table", one_of=FORMATS
        ),
        Flag("--output", "Where to; a file that is there is replaced.", takes="FILE"),
        Flag(
            "--values",
            "The columns of a topic whose values are JSON, with Arrow's types. May be repeated.",
            takes="TOPIC=COLUMNS",
            repeats=True,
        ),
        Flag(
            "--malformed",
            "What becomes of a value that cannot be read: the command fails, or it is null.",
            takes="fail|null",
            default="fail",
            one_of=("fail", "null"),
        ),
        Flag("--avro", "Topics whose values are Avro by the registry.", takes="LIST"),
        Flag("--schema-registry", "Where the schemas are.", takes="URL"),
        Flag(
            "--watch",
            "Ask again every so many seconds, until Ctrl-C.",
            takes="SECONDS",
            bare="2",
        ),
    ),
    main=main,
    answers_in_lines=True,
    words_max=1,
    words_usage='"select …"',
    examples=(
        'moldau sql --bootstrap-server localhost:9092 "select partition, count(*) from orders'
        ' group by 1"',
        'moldau sql --bootstrap-server localhost:9092 --watch 5 "from lag"',
    ),
    notes="A topic at an earlier moment: orders AT (TIMESTAMP => now() - interval 1 hour). The last"
    " value of each key: latest.customers.",
)
