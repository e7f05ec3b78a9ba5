"""Runs `moldau backup` and `moldau restore` as users do, and damages what they have written."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

SECONDS_MAX = 120


def moldau(*words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "moldau.main", *words],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env=None if env is None else {**os.environ, **env},
    )


def back_up(bootstrap: str, directory: Path, *words: str) -> str:
    """One moment; what the command said."""
    command = ("backup", "--bootstrap-server", bootstrap, "--target-dir", str(directory))
    done = moldau(*command, "--snapshot", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def restore(bootstrap: str, directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return moldau(
        "restore", "--bootstrap-server", bootstrap, "--source-dir", str(directory), *words
    )


def restore_whole(bootstrap: str, directory: Path, *words: str) -> str:
    done = restore(bootstrap, directory, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "everything is the same" in done.stdout
    return done.stdout


def files_of(directory: Path) -> list[Path]:
    """Those that hold batches."""
    return sorted(directory.glob("data/*/*/*.batches"))


def flip_a_byte(path: Path, chance: random.Random) -> int:
    """Where."""
    content = bytearray(path.read_bytes())
    at = chance.randrange(len(content))
    content[at] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    return at


def run_script(name: str, *words: str, env: Mapping[str, str] | None = None) -> str:
    """One of the scripts in bin; what it said."""
    script = Path(__file__).parent.parent.parent / "bin" / name
    own = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [script, *words],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env={**os.environ, **own, **(env or {})},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
