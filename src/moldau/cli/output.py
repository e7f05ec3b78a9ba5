"""What a command prints: Kafka's plain text in a pipe; colours and aligned tables on a terminal.

All text goes through one `Output`, so that a test can look at it and a closed pipe is noticed in
one place. Nothing here knows what is printed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

BOLD, RED, YELLOW, DIM = "1", "31", "33", "2"


class Output:
    def __init__(self, stream: TextIO | None = None, *, is_terminal: bool | None = None) -> None:
        self.stream = sys.stdout if stream is None else stream
        self.is_terminal = self.stream.isatty() if is_terminal is None else is_terminal
        self.has_colours = self.is_terminal and "NO_COLOR" not in os.environ
        self.is_json = False
        """Whether the answer is data: then what is said in text is left out, for the data say it
        too. Remarks stay."""
        self.has_answered = False

    def line(self, text: str = "") -> None:
        self.write(text + "\n")

    def write(self, text: str) -> None:
        if not self.is_json:
            self.stream.write(text)

    def bytes(self, content: bytes) -> None:
        """As they are, whatever encoding the terminal has."""
        raw = getattr(self.stream, "buffer", None)
        if raw is None:
            self.stream.write(content.decode("utf-8", "replace"))
        else:
            self.stream.flush()
            raw.write(content)

    def flush(self) -> None:
        self.stream.flush()

    def json(self, value: Any) -> None:
        import json

        indent = 2 if self.is_terminal else None
        text = json.dumps(value, indent=indent, default=plain, ensure_ascii=False)
        self.stream.write(text + "\n")
        self.has_answered = True

    def remark(self, text: str) -> None:
        """For people, beside the answer: on stderr, so that a pipe stays clean."""
        print(text, file=sys.stderr, flush=True)

    def json_line(self, text: str) -> None:
        """One of many answers, which is JSON already."""
        self.stream.write(text + "\n")
        self.has_answered = True

    def warn(self, text: str) -> None:
        """A line that Kafka's tool prints before its answer, and that data do not say."""
        self.remark(text) if self.is_json else self.line(text)

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self.has_colours else text

    def table(self, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Aligned columns under a header; for terminals."""
        texts = [[shown(cell) for cell in row] for row in rows]
        widths = [len(title) for title in header]
        for row in texts:
            widths = [max(width, len(cell)) for width, cell in zip(widths, row, strict=True)]
        self.line(self.paint(_joined(header, widths), BOLD))
        for row in texts:
            self.line(_joined(row, widths))


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    return "  ".join(padded).rstrip()


def shown(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, list | tuple | set):
        return ",".join(str(each) for each in cell)
    return str(cell)


def plain(value: object) -> Any:
    """For json: what it cannot write by itself."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Exception):
        from moldau.cli.answers import fault_of

        return fault_of(value)
    return str(value)
