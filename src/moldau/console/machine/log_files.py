"""The log files of one directory, read from their ends in parts of a bounded size."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

FILES_MAX = 500
PART_BYTES = 4 << 20
"""How far one page looks back."""
LINES_MAX = 500
LINE_CHARS_MAX = 2_000
NAME = re.compile(r"[\w.\-]+\.(log|out|txt)([.\-][\w.\-]+)?")
LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_LEVEL = re.compile(r"\[[^\]]{10,40}\] (" + "|".join(LEVELS) + r")\b|\"level\": ?\"(\w+)\"")


class LogFile(NamedTuple):
    name: str
    size_bytes: int
    modified_ms: float


class Line(NamedTuple):
    level: str
    """Of the entry that the line is of; empty where none was seen before it."""
    text: str


class Part(NamedTuple):
    lines: list[Line]
    """In the order of the file."""
    looked_bytes: int
    start: int
    """Where the part begins in the file; what is before it is older."""
    end: int
    size_bytes: int


class UnknownFileError(Exception):
    """The directory has no such log file."""


def log_files(directory: str) -> list[LogFile]:
    """The youngest first. OSError if the directory cannot be read."""
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if not NAME.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                continue
            status = entry.stat(follow_symlinks=False)
            found.append(LogFile(entry.name, status.st_size, status.st_mtime * 1000))
    return sorted(found, key=lambda row: -row.modified_ms)[:FILES_MAX]


def read_part(
    directory: str, name: str, *, before: int | None, words: str = "", least: str = ""
) -> Part:
    """The last lines before a place that hold `words` and are of `least` or a graver level."""
    if not NAME.fullmatch(name):
        raise UnknownFileError(name)
    try:
        # Whoever may write into the directory must not lead us out of it.
        descriptor = os.open(Path(directory) / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        raise UnknownFileError(name) from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnknownFileError(name)
        size = status.st_size
        end = size if before is None else max(0, min(before, size))
        start = max(0, end - PART_BYTES)
        file.seek(start)
        content = file.read(end - start)
    return _chosen(content, start, end, size, words.encode().lower(), least)


def _chosen(content: bytes, start: int, end: int, size: int, words: bytes, least: str) -> Part:
    offset = start
    if start:
        # The first line may be half of one; the older part has it whole.
        offset += content.find(b"\n") + 1
    begun_at = offset
    chosen: list[tuple[int, Line]] = []
    level = ""
    gravest = LEVELS.index(least) if least in LEVELS else 0
    for raw in content[offset - start :].splitlines(keepends=True):
        head = _LEVEL.search(raw[:200].decode(errors="replace"))
        if head is not None:
            level = head[1] or head[2]
        is_grave = not gravest or (level in LEVELS and LEVELS.index(level) >= gravest)
        if is_grave and (not words or words in raw.lower()):
            chosen.append((offset, Line(level, _text(raw))))
        offset += len(raw)
    if len(chosen) > LINES_MAX:
        chosen = chosen[-LINES_MAX:]
        begun_at = chosen[0][0]
    return Part([line for _, line in chosen], end - begun_at, begun_at, end, size)


def _text(raw: bytes) -> str:
    text = raw.decode(errors="backslashreplace").rstrip("\r\n")
    return text if len(text) <= LINE_CHARS_MAX else text[:LINE_CHARS_MAX] + " …"
