"""Runs `moldau mirror` as users do, and compares what two clusters hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from moldau.testing.local_broker import LocalBroker
from tests.support.backups import moldau

DATA = "*.log"


def mirror_file(directory: Path, source: str, target: str, **settings: str) -> Path:
    """`source` and `target` are bootstrap servers; in keys `_` stands for a dot."""
    rows = {
        "source.bootstrap.servers": source,
        "target.bootstrap.servers": target,
        "topics.regex": ".*",
        "refresh.ms": "200",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
    path = directory / "mirror.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in rows.items()))
    return path


def mirror(*words: Any) -> subprocess.CompletedProcess[str]:
    return moldau("mirror", *(str(word) for word in words))


def mirror_well(*words: Any) -> str:
    """What it said."""
    done = mirror(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def start_mirror(path: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "moldau.main", "mirror", "run", str(path), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def bytes_of(broker: LocalBroker, topic: str, partition: int = 0) -> bytes:
    """The batches of a partition, as its segments hold them."""
    directory = broker.data / f"{topic}-{partition}"
    return b"".join(path.read_bytes() for path in sorted(directory.glob(DATA)))
