"""Pipelines on Spark as their checkpoints tell: batches, offsets, state. Reads files only.

Spark writes `offsets/N` when it plans the batch N (where each source's part of it ends), and
`commits/N` when it is done; the times of the files say how long it took. That holds for every
query of Structured Streaming with a checkpoint on this machine, also for those that rest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

CHECKPOINTS_MAX = 200
FOLDERS_MAX = 5_000
DEPTH_MAX = 3
BATCHES_MAX = 60
FILE_BYTES_MAX = 4 << 20
STATE_FILES_MAX = 20_000

Offsets = dict[tuple[str, int], int]


class Batch(NamedTuple):
    number: int
    planned_ms: float
    done_ms: float | None
    """None: it was begun and not finished yet, or never."""
    offsets: Offsets
    """Where it ends, of sources that are topics."""
    records: int | None
    """How far the offsets went on from the batch before; None for the first that is there."""

    @property
    def seconds(self) -> float | None:
        return None if self.done_ms is None else max(0.0, (self.done_ms - self.planned_ms) / 1000)


class StateSize(NamedTuple):
    operator: str
    partitions: int
    files: int
    size_bytes: int


class Checkpoint(NamedTuple):
    name: str
    """The folder below the one that was named."""
    query_id: str
    batches: list[Batch]
    """The youngest last."""
    watermark_ms: int
    fault: str = ""

    @property
    def last_done(self) -> Batch | None:
        return next((each for each in self.batches[::-1] if each.done_ms is not None), None)

    @property
    def is_in_batch(self) -> bool:
        return bool(self.batches) and self.batches[-1].done_ms is None


def checkpoint_names(directory: str) -> list[str]:
    """The folders of checkpoints, by their way from `directory`. OSError if it is not there."""
    if not directory:
        return []
    os.scandir(directory).close()
    root = Path(directory)
    found: list[str] = []
    waiting, looked = [(root, 0)], 0
    while waiting and looked < FOLDERS_MAX and len(found) < CHECKPOINTS_MAX:
        folder, depth = waiting.pop()
        looked += 1
        names = set(_folders(folder))
        if "offsets" in names and (folder / "metadata").is_file():
            found.append(str(folder.relative_to(root)))
        elif depth < DEPTH_MAX:
            waiting += [(folder / name, depth + 1) for name in sorted(names, reverse=True)]
    return sorted(found)


def _folders(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield entry.name
    except OSError:
        return


def read_checkpoint(directory: str, name: str, *, batches: int = BATCHES_MAX) -> Checkpoint:
    """`name` is one of `checkpoint_names`; what cannot be read is said in `fault`."""
    folder = Path(directory) / name
    try:
        query_id = str(json.loads(_text(folder / "metadata")).get("id", ""))
        planned = _numbers(folder / "offsets")
        done = dict(_numbers(folder / "commits"))
        rows: list[Batch] = []
        watermark_ms, before = 0, None
        for number, planned_ms in planned[-batches - 1 :]:
            offsets, watermark_ms = parse_offsets(_text(folder / "offsets" / str(number)))
            records = None if before is None else _advance(before, offsets)
            rows.append(Batch(number, planned_ms, done.get(number), offsets, records))
            before = offsets
    except (OSError, ValueError, AttributeError) as fault:
        return Checkpoint(name, "", [], 0, f"it cannot be read: {fault}"[:300])
    return Checkpoint(name, query_id, rows[-batches:], watermark_ms)


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(FILE_BYTES_MAX).decode()


def _numbers(folder: Path) -> list[tuple[int, float]]:
    """The batches that have a file there, with its time in milliseconds."""
    found = []
    if folder.is_dir():
        with os.scandir(folder) as entries:
            found = [
                (int(entry.name), entry.stat().st_mtime * 1000)
                for entry in entries
                if entry.name.isascii() and entry.name.isdigit()
            ]
    return sorted(found)


def parse_offsets(text: str) -> tuple[Offsets, int]:
    """Spark's log of offsets: its version, a line about the batch, a line for each source. The
    offsets of sources that are topics, and the watermark. ValueError if it is something else."""
    lines = text.splitlines()
    if len(lines) < 2 or not lines[0].startswith("v"):
        raise ValueError("a file of offsets does not begin with its version")
    about = json.loads(lines[1])
    sources = lines[2:]
    if lines[0] != "v1":
        # Later versions name the sources: one object with all of them.
        sources = [
            each if isinstance(each, str) else json.dumps(each)
            for line in lines[2:]
            for each in _named_sources(line)
        ]
    found: Offsets = {}
    for line in sources:
        source = _json(line)
        if isinstance(source, dict):
            found.update(_topics_of(source))
    return found, int(about.get("batchWatermarkMs", 0))


def _named_sources(line: str) -> list[Any]:
    value = _json(line)
    is_named = isinstance(value, dict) and all(
        isinstance(each, str | None) for each in value.values()
    )
    return list(value.values()) if is_named and value else [line]


def _json(text: str | None) -> Any:
    try:
        return json.loads(text or "null")
    except ValueError:
        return None


def _topics_of(source: Mapping[str, Any]) -> Offsets:
    return {
        (topic, int(partition)): offset
        for topic, partitions in source.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
        if partition.isascii() and partition.isdigit() and isinstance(offset, int)
    }


def _advance(before: Offsets, after: Offsets) -> int:
    return sum(max(0, end - before.get(place, end)) for place, end in after.items())


def state_sizes(directory: str, name: str) -> list[StateSize]:
    """What the state of each operator takes on disk, old versions that Spark keeps included."""
    folder = Path(directory) / name / "state"
    found, left = [], STATE_FILES_MAX
    for operator in sorted(_folders(folder)):
        if not operator.isdigit():
            continue
        files = size = 0
        for place, _, names in os.walk(folder / operator):
            for each in names[:left]:
                try:
                    size += os.stat(os.path.join(place, each), follow_symlinks=False).st_size
                except OSError:
                    continue
                files += 1
            left -= min(left, len(names))
        parts = sum(each.isdigit() for each in _folders(folder / operator))
        found.append(StateSize(operator, parts, files, size))
    return found
