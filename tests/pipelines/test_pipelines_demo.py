"""What `make demo` runs ends by itself, with the counts of Python and the console consumer."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SECONDS_MAX = 280


@pytest.mark.long
def test_the_demo_shows_right_counts_and_ends() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "pipelines" / "demo.py")],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sent = [line for line in done.stdout.splitlines() if line.startswith('demo: sent "')]
    expected = Counter(word for line in sent for word in line.split('"')[1].split())
    printed = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    assert {word: int(count) for word, count in printed} == expected
    assert "demo: all counts are right" in done.stdout
