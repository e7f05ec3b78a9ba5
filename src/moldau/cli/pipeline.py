"""`moldau pipeline`: look into pipelines on Spark.

`query` shows the state in a checkpoint as a table, or keeps a compacted topic in memory and looks
keys up in it, once or over HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.cli.command_clients import bootstrap_of, client_faults, properties_file, reach
from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.flags import Flag, Given
from moldau.cli.output import Output
from moldau.cli.tool import BOOTSTRAP, COMMAND_CONFIG, JSON, Tool, run_tool

CURRENT_SECONDS_MAX = 60.0
ROWS_SHOWN = "20"


def run(arguments: Sequence[str]) -> int:
    return run_tool(TOOL, arguments)


def query(given: Given, out: Output) -> None:
    if given.has("checkpoint") == given.has("topic"):
        raise UsageFault("Say what to query: --checkpoint for state, or --topic for a live view.")
    if given.has("checkpoint"):
        _show_state(given, out)
    else:
        _view(given, out)


def _show_state(given: Given, out: Output) -> None:
    try:
        from moldau.pipelines import session
        from moldau.pipelines.query import state_of
        from moldau.pipelines.session import SessionError
        from moldau.pipelines.sink.sink_options import SinkError
    except ImportError as fault:
        raise CommandFault(f"Queries of state need pyspark: {fault}") from None
    limit = int(given.text("limit")) if given.has("limit") else int(ROWS_SHOWN)
    try:
        spark = session("moldau pipeline query", "local[1]")
        frame = state_of(
            spark,
            given.text("checkpoint"),
            operator=int(given.text("operator")) if given.has("operator") else 0,
            variable=given.text("state") if given.has("state") else None,
        )
        rows = [row.asDict(recursive=True) for row in frame.limit(limit).collect()]
    except (SessionError, SinkError) as fault:
        raise CommandFault(str(fault)) from None
    if given.has("json"):
        out.json(rows)
        return
    names = tuple(frame.columns)
    out.table(names, [tuple(str(row[name]) for name in names) for row in rows])


def _view(given: Given, out: Output) -> None:
    from moldau.pipelines.tables.live_view import LiveView, ViewError

    topic = given.text("topic")
    key, value = (
        given.text(name) if given.has(name) else "string" for name in ("key-format", "value-format")
    )
    settings: dict[str, Any] = {}
    if given.has("command-config"):
        settings |= properties_file(given.text("command-config"))
        settings.pop("bootstrap.servers", None)
    bootstrap = bootstrap_of(given, out)
    with client_faults():
        reach(bootstrap, settings, out)
    try:
        with LiveView(bootstrap, topic, key=key, value=value, **settings) as view:
            if not view.wait_until_current(CURRENT_SECONDS_MAX):
                raise CommandFault(f"{topic} could not be read within {CURRENT_SECONDS_MAX:.0f} s")
            if given.has("serve"):
                _serve(view, given, out)
                return
            if given.has("key"):
                rows = [(given.text("key"), view.get(given.text("key")))]
                if rows[0][1] is None:
                    raise CommandFault(f"There is no key {given.text('key')} in {topic}")
            else:
                rows = view.items(
                    limit=int(given.text("limit")) if given.has("limit") else int(ROWS_SHOWN)
                )
    except ViewError as fault:
        raise CommandFault(str(fault)) from None
    if given.has("json"):
        out.json([{"key": key, "value": value} for key, value in rows])
    else:
        out.table(("KEY", "VALUE"), [(str(key), str(value)) for key, value in rows])


def _serve(view: object, given: Given, out: Output) -> None:
    """Until Ctrl-C."""
    import threading

    from moldau.pipelines.tables.live_view import LiveView

    assert isinstance(view, LiveView)
    address = view.serve(port=int(given.text("serve")))
    if out.is_json:
        out.json({"topic": view.topic, "keys": len(view), "address": f"{address}/keys/"})
    out.line(f"{len(view)} keys of {view.topic} at {address}/keys/KEY; stop with Ctrl-C")
    out.flush()
    threading.Event().wait()


QUERY = Tool(
    name="pipeline query",
    does="Shows the state of a pipeline, or looks keys up in a compacted topic.",
    flags=(
        BOOTSTRAP,
        COMMAND_CONFIG,
        Flag("--checkpoint", "Show the state kept in this checkpoint.", takes="FOLDER"),
        Flag("--operator", "Which stateful operator; 0 is the last one.", takes="NUMBER"),
        Flag("--state", "Which state of a join: versions, buffered, left, right.", takes="NAME"),
        Flag("--topic", "Look into this compacted topic.", takes="TOPIC"),
        Flag("--key", "The key to look up.", takes="KEY"),
        Flag("--key-format", "How to read keys: string, long, integer, json.", takes="FORMAT"),
        Flag("--value-format", "How to read values: string, long, json, …", takes="FORMAT"),
        Flag("--limit", "How many rows to show at most; 20 if nothing is said.", takes="NUMBER"),
        Flag("--serve", "Answer look-ups over HTTP on this port of 127.0.0.1.", takes="PORT"),
        JSON,
    ),
    main=query,
    examples=(
        "moldau pipeline query --bootstrap-server localhost:9092 --topic streams-wordcount-output"
        " --value-format long --key kafka",
        "moldau pipeline query --checkpoint ckpt/wordcount",
    ),
)

TOOL = Tool(
    name="pipeline",
    does="Looks into pipelines on Spark: the state that they keep, and tables in topics.",
    flags=(),
    main=query,
    commands=(QUERY,),
    examples=(
        "moldau pipeline query --checkpoint ckpt/wordcount",
        "moldau pipeline query --bootstrap-server localhost:9092 "
        "--topic streams-wordcount-output --key hello --value-format long",
    ),
)
