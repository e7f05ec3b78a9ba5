"""dump-log on messages of the formats before 0.11, line by line as Kafka's tool has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.cli.files.dump_log import run
from moldau.records.batch_codec import Record, encode_batch
from moldau.records.compression import Codec
from tests.support.old_messages import LOG_APPEND_TIME, Old, compressed, message

FIRST = message(Old(b"key", b"value", 1000), 1, 5)
GIVEN = compressed([Old(None, b"x", 7), Old(b"k", None, 8)], 1, Codec.GZIP, 6, LOG_APPEND_TIME, 99)
OLDEST = message(Old(None, b"old"), 0, 8)


def crc(content: bytes) -> int:
    return int.from_bytes(content[12:16], "big")


def dumped(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, *more: str) -> str:
    path = tmp_path / f"{5:020}.log"
    path.write_bytes(content)
    assert run(["--files", str(path), *more]) == 0
    head, start, *lines = capsys.readouterr().out.splitlines()
    assert (head, start) == (f"Dumping {path}", "Log starting offset: 5")
    return "\n".join(lines)


def test_messages_are_shown_with_their_own_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second, third = len(FIRST), len(FIRST) + len(GIVEN)
    assert dumped(tmp_path, capsys, FIRST + GIVEN + OLDEST) == (
        f"offset: 5 position: 0 CreateTime: 1000 size: {len(FIRST)} magic: 1 compresscodec: none"
        f" crc: {crc(FIRST)} isvalid: true\n"
        f"offset: 7 position: {second} LogAppendTime: 99 size: {len(GIVEN)} magic: 1"
        f" compresscodec: gzip crc: {crc(GIVEN)} isvalid: true\n"
        f"offset: 8 position: {third} NoTimestampType: -1 size: {len(OLDEST)} magic: 0"
        f" compresscodec: none crc: {crc(OLDEST)} isvalid: true"
    )


def test_records_within_are_shown_with_theirs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = [crc(message(Old(None, b"x", 7), 1)), crc(message(Old(b"k", None, 8), 1, 1))]
    content = FIRST + GIVEN + encode_batch([Record(8, 9, b"k", b"v")], base_offset=8)
    lines = dumped(tmp_path, capsys, content, "--print-data-log").splitlines()
    assert [line for line in lines if line.startswith("|")] == [
        f"| offset: 5 CreateTime: 1000 keySize: 3 valueSize: 5 isValid: true crc: {crc(FIRST)}"
        " key: key payload: value",
        f"| offset: 6 LogAppendTime: 99 keySize: -1 valueSize: 1 isValid: true crc: {inner[0]}"
        " payload: x",
        f"| offset: 7 LogAppendTime: 99 keySize: 1 valueSize: -1 isValid: true crc: {inner[1]}"
        " key: k",
        "| offset: 8 CreateTime: 9 keySize: 1 valueSize: 1 sequence: -1 headerKeys: []"
        " key: k payload: v",
    ]


def test_damage_and_torn_ends_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = bytearray(FIRST)
    damaged[-1] ^= 1
    lines = dumped(tmp_path, capsys, bytes(damaged) + OLDEST[:-2], "--deep-iteration").splitlines()
    assert lines[0].endswith("isvalid: false")
    assert "isValid: false" in lines[1]
    assert lines[2] == f"Found {len(OLDEST) - 2} invalid bytes at the end of {5:020}.log"
