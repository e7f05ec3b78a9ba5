"""`moldau log-scrub` as an operator runs it: sentences, JSON, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.logs import LogBench, SmallSettings, batch


def scrub(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "moldau.main", "log-scrub", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_damage_is_named_and_told_by_the_exit_code(tmp_path: Path) -> None:
    bench = LogBench(tmp_path, SmallSettings(segment_bytes=1000))
    for _ in range(10):
        bench.append(batch(2))
    bench.log.close()
    whole = scrub("--log-dir", str(tmp_path))
    assert whole.returncode == 0, whole.stderr
    assert whole.stdout.endswith("none damaged.\n")

    path = bench.file(0, ".log")
    content = bytearray(path.read_bytes())
    content[100] ^= 0x40
    path.write_bytes(content)
    damaged = scrub("--log-dir", str(tmp_path))
    assert damaged.returncode == 3
    assert f"{path} is damaged at bytes 0 to" in damaged.stdout
    assert "offsets 0 to 1: the checksum is wrong." in damaged.stdout
    answer = json.loads(scrub("--log-dir", str(tmp_path), "--json").stdout)
    assert [row["partition"] for row in answer["damaged"]] == ["logs-0"]


def test_a_missing_directory_is_one_sentence() -> None:
    missing = scrub("--log-dir", "/no/such/directory")
    assert missing.returncode == 1
    assert missing.stderr + missing.stdout == (
        "cannot read /no/such/directory: No such file or directory\n"
    )
