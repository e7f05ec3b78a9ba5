"""The answers of `moldau sql`: an aligned table, CSV, a JSON object a line, or Parquet.

An answer is written as it comes, some thousand rows at a time, whatever its size.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from moldau.cli.command_faults import CommandFault, UsageFault
from moldau.cli.output import BOLD, Output

if TYPE_CHECKING:
    import pyarrow

ROWS_AT_ONCE = 1_000
"""A table's columns are as wide as the first so many rows need."""
PARTIAL = ".partial"


def write(answer: pyarrow.RecordBatchReader, form: str, out: Output, path: str | None) -> None:
    if form == "parquet":
        if path is None and out.is_terminal:
            raise UsageFault("Parquet is not for a screen: give --output FILE")
        _to_file(path, lambda stream: _parquet(answer, stream), out)
        return
    lines = {"csv": _csv, "json": _json, "table": _table}[form]
    if path is None:
        for line in lines(answer, out):
            out.json_line(line) if out.is_json else out.line(line)
        return

    def write_text(stream: Any) -> None:
        for line in lines(answer, Output(io.StringIO(), is_terminal=False)):
            stream.write(line.encode("utf-8", "surrogateescape") + b"\n")

    _to_file(path, write_text, out)


def _to_file(path: str | None, fill: Callable[[Any], None], out: Output) -> None:
    """A file is there when it is whole, and never in part."""
    if path is None:
        out.flush()
        fill(sys.stdout.buffer)
        return
    try:
        with open(path + PARTIAL, "wb") as stream:
            fill(stream)
        os.replace(path + PARTIAL, path)
    except OSError as fault:
        raise CommandFault(f"{path} cannot be written: {fault.strerror}") from None
    finally:
        if os.path.exists(path + PARTIAL):
            os.unlink(path + PARTIAL)


def _parquet(answer: pyarrow.RecordBatchReader, stream: Any) -> None:
    from pyarrow.parquet import ParquetWriter

    with ParquetWriter(stream, answer.schema, compression="zstd") as writer:
        for batch in answer:
            writer.write_batch(batch)


def _slices(answer: pyarrow.RecordBatchReader) -> Iterator[list[tuple[Any, ...]]]:
    for batch in answer:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            piece = batch.slice(start, ROWS_AT_ONCE)
            yield list(zip(*(column.to_pylist() for column in piece.columns), strict=True))


def _csv(answer: pyarrow.RecordBatchReader, out: Output) -> Iterator[str]:
    yield _csv_lines([answer.schema.names])
    keep = _quiet if out.is_terminal else str
    for rows in _slices(answer):
        yield _csv_lines([keep(_cell(each)) for each in row] for row in rows)


def _csv_lines(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().removesuffix("\n")


def _json(answer: pyarrow.RecordBatchReader, out: Output) -> Iterator[str]:
    names = answer.schema.names
    for rows in _slices(answer):
        for row in rows:
            value = {name: _plain(each) for name, each in zip(names, row, strict=True)}
            yield json.dumps(value, ensure_ascii=False)


def _table(answer: pyarrow.RecordBatchReader, out: Output) -> Iterator[str]:
    names = answer.schema.names
    widths: list[int] = []
    for rows in _slices(answer):
        texts = [[_quiet(_cell(each)) for each in row] for row in rows]
        if not widths:
            columns = zip(names, *texts, strict=True)
            widths = [max(len(cell) for cell in column) for column in columns]
            yield out.paint(_line(names, widths), BOLD)
        for row in texts:
            yield _line(row, widths)
    if not widths:
        yield out.paint("  ".join(names), BOLD)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()


def _quiet(text: str) -> str:
    """A record must not command the terminal, nor break its line."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def _cell(value: Any) -> str:
    plain = _plain(value)
    if plain is None:
        return ""
    if isinstance(plain, str):
        return plain
    return json.dumps(plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """As JSON has it: bytes as text, or in hex where they are none."""
    if isinstance(value, bytes):
        text = _text(value)
        return "\\x" + value.hex() if text is None else text
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _text(content: bytes) -> str | None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return text if all(each.isprintable() or each in "\t\n" for each in text) else None
