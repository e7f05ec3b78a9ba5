"""A disk of a few megabytes that a test can fill. Only root may mount one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DISK_BYTES = 4 << 20


@contextmanager
def mounted(path: Path) -> Iterator[Path]:
    """Skips the test where mounting is not possible."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting is not possible here")
    try:
        yield path
    finally:
        # One that stays mounted after a failure cannot be cleared away by any later run.
        while path.is_mount():
            subprocess.run(["umount", "-l", str(path)], check=True)
