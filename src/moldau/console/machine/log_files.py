"""The log files of one directory, read from their ends in parts of a bounded size."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FILES_MAX = 500
PART_BYTES = 4 << 20
"""How far one page looks back."""
ENTRIES_MAX = 500
ENTRY_CHARS_MAX = 8_000
HEAD_BYTES = 200
NAME = re.compile(r"[\w.\-]+\.(log|out|txt)([.\-][\w.\-]+)?")
LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_HEAD = re.compile(rb"^(?:\[\d{4}-|\d{4}-\d\d-\d\d|\{)", re.MULTILINE)
_LEVEL = re.compile(
    rb"\[[^\]\n]{10,40}\] (%(all)s)\b|\"level\": ?\"(%(all)s)\""
    % {b"all": "|".join(LEVELS).encode()}
)


class LogFile(NamedTuple):
    name: str
    size_bytes: int
    modified_ms: float


class Entry(NamedTuple):
    level: str
    """Empty where the file does not tell it."""
    text: str
    """With the lines that follow its first: a traceback belongs to what it explains."""


class Part(NamedTuple):
    entries: list[Entry]
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
    """The last entries before a place that hold `words` and are of `least` or a graver level."""
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
    begun_at = start
    if start:
        # What the part begins with may be the rest of an entry; the older part has it whole.
        head = _HEAD.search(content)
        begun_at += head.start() if head is not None else content.find(b"\n") + 1
    gravest = LEVELS.index(least) if least in LEVELS else 0
    chosen: list[tuple[int, Entry]] = []
    for offset, raw in _entries(content[begun_at - start :]):
        head = _LEVEL.search(raw[:HEAD_BYTES])
        level = "" if head is None else (head[1] or head[2]).decode()
        is_grave = not gravest or (level in LEVELS and LEVELS.index(level) >= gravest)
        if is_grave and (not words or words in raw.lower()):
            chosen.append((begun_at + offset, Entry(level, _text(raw))))
    if len(chosen) > ENTRIES_MAX:
        chosen = chosen[-ENTRIES_MAX:]
        begun_at = chosen[0][0]
    return Part([entry for _, entry in chosen], end - begun_at, begun_at, end, size)


def _entries(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Each with where it begins. An entry begins with its time, or with a brace."""
    begins = [found.start() for found in _HEAD.finditer(content)]
    if content and (not begins or begins[0]):
        begins.insert(0, 0)
    for begin, end in zip(begins, [*begins[1:], len(content)], strict=True):
        yield begin, content[begin:end]


def _text(raw: bytes) -> str:
    text = raw.decode(errors="backslashreplace").rstrip("\r\n")
    return text if len(text) <= ENTRY_CHARS_MAX else text[:ENTRY_CHARS_MAX] + " …"
