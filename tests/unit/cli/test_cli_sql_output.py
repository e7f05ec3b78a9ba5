"""Answers of `moldau sql`: tables, CSV, JSON, Parquet, and nothing that commands a terminal."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.output import Output
from moldau.cli.records.sql_output import write

ROWS = [
    {"id": 1, "value": b"text", "note": "a\x1b[2Jb\nc", "rate": float("nan")},
    {"id": None, "value": b"\xff\x00", "note": None, "rate": 0.5},
]
SCHEMA = pa.schema(
    [("id", pa.int64()), ("value", pa.binary()), ("note", pa.string()), ("rate", pa.float64())]
)


def answer(rows: list[dict[str, Any]] = ROWS, schema: Any = SCHEMA) -> pa.RecordBatchReader:
    return pa.Table.from_pylist(rows, schema).to_reader()


def said(form: str, *, is_terminal: bool = False, **given: Any) -> list[str]:
    stream = io.StringIO()
    write(answer(**given), form, Output(stream, is_terminal=is_terminal), None)
    return stream.getvalue().splitlines()


def test_a_table_is_aligned_and_commands_nothing() -> None:
    assert said("table") == [
        "id  value   note          rate",
        "1   text    a\\x1b[2Jb\\nc  nan",
        "    \\xff00                0.5",
    ]
    assert said("table", rows=[]) == ["id  value  note  rate"]
    assert not any("\x1b[2J" in line for line in said("csv", is_terminal=True))


def test_json_is_an_object_a_line_that_everybody_can_read() -> None:
    rows = [json.loads(line, parse_constant=pytest.fail) for line in said("json")]
    assert rows == [
        {"id": 1, "value": "text", "note": "a\x1b[2Jb\nc", "rate": "nan"},
        {"id": None, "value": "\\xff00", "note": None, "rate": 0.5},
    ]


def test_csv_has_a_header_and_quotes() -> None:
    at = datetime(2026, 11, 20, 12, tzinfo=UTC)
    schema = pa.schema([("at", pa.timestamp("ms", "UTC")), ("tags", pa.list_(pa.string()))])
    lines = said("csv", rows=[{"at": at, "tags": ["a", 'b"']}], schema=schema)
    assert lines == ["at,tags", '2026-11-20 12:00:00.000+00:00,"[""a"", ""b\\""""]"']


def test_a_file_is_there_when_it_is_whole(tmp_path: Path) -> None:
    out = Output(io.StringIO(), is_terminal=True)
    path = tmp_path / "answer.parquet"
    write(answer(), "parquet", out, str(path))
    assert pyarrow.parquet.read_table(path).num_rows == 2

    def broken() -> Any:
        yield from answer()
        raise RuntimeError("no more")

    torn = pa.RecordBatchReader.from_batches(SCHEMA, broken())
    with pytest.raises(RuntimeError):
        write(torn, "csv", out, str(tmp_path / "torn.csv"))
    assert [each.name for each in tmp_path.iterdir()] == ["answer.parquet"]
    with pytest.raises(CommandFault, match="cannot be written: No such file or directory"):
        write(answer(), "csv", out, str(tmp_path / "none" / "x.csv"))
    with pytest.raises(UsageFault, match="give --output FILE"):
        write(answer(), "parquet", out, None)
