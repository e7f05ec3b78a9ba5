"""dump-log on the files beside a log that holds old messages, and on damaged snapshots."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from moldau.cli.files.dump_log import run
from moldau.records.checksum import crc32c
from moldau.storage.log_state.producer_snapshots import encode_snapshot
from moldau.storage.log_state.producer_state import ProducerEntry
from tests.support.old_messages import Old, plain

OLDS = [Old(b"k", b"v", 1000), Old(b"k", b"v", 2000), Old(b"k", b"v", 1500)]
SIZE = len(plain(OLDS[:1], 1))


def dumped(
    path: Path, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[list[str], list[str]]:
    """What is said of the file, and what is wrong with it."""
    assert run(["--files", str(path), *more]) == 0
    printed = capsys.readouterr()
    return printed.out.splitlines()[1:], printed.err.splitlines()


def test_indexes_are_compared_with_old_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / f"{0:020}.log").write_bytes(plain(OLDS, 1))
    index, times = (tmp_path / f"{0:020}{suffix}" for suffix in (".index", ".timeindex"))
    index.write_bytes(struct.pack(">iiii", 1, SIZE, 3, 2 * SIZE))
    times.write_bytes(struct.pack(">qiqi", 1000, 0, 1999, 1))
    assert dumped(index, capsys) == (
        [f"offset: 1 position: {SIZE}", f"offset: 3 position: {2 * SIZE}"],
        [f"Mismatches in :{index}", "  Index offset: 3, log offset: 2"],
    )
    assert dumped(times, capsys, "--verify-index-only") == (
        [],
        [
            f"Found timestamp mismatch in :{times}",
            "  Index timestamp: 1999, log timestamp: 2000",
        ],
    )


def test_a_damaged_snapshot_is_told_in_kafkas_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = bytearray(encode_snapshot([ProducerEntry(7, 2, 3, 778, 6), ProducerEntry(8, 0)]))
    stored = int.from_bytes(content[2:6], "big")
    content[15] ^= 1
    path = tmp_path / f"{9:020}.snapshot"
    path.write_bytes(content)
    assert dumped(path, capsys) == (
        [],
        [
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}."
            f" Computed crc: {crc32c(bytes(content[6:]))}"
        ],
    )
