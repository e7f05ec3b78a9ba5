"""The code blocks of a page, run in their order as a reader would run them.

`sh` blocks are lines of a shell, `python` blocks are programs; one that begins with `# name.py` is
written to that file instead, for a later line to run. A `text` block is what the block before it
prints, line for line, among other lines.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\w+\.py)\n")
SECONDS_MAX = 300


class Block(NamedTuple):
    kind: str
    text: str


def blocks_of(text: str) -> list[Block]:
    return [Block(*match.groups()) for match in BLOCK.finditer(text)]


class Reader:
    """Types the blocks into a shell, in a folder of its own."""

    def __init__(self, folder: Path, instead: Mapping[str, str]) -> None:
        """`instead` is what stands here for what the page says: addresses, for example."""
        self.folder = folder
        self.instead = instead
        self.printed = ""
        programs = Path(sys.executable).parent
        self.environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "MOLDAU_RUN_DIR": str(folder / "run"),
            "MOLDAU_BOOTSTRAP_SERVER": "",
            "LOG_DIR": str(folder / "logs"),
        }

    def follow(self, block: Block) -> None:
        text = block.text
        for said, here in self.instead.items():
            text = text.replace(said, here)
        named = FILE.match(text)
        if block.kind == "text":
            missing = [line for line in text.splitlines() if line not in self.printed]
            assert not missing, f"{missing} is not in {self.printed}"
        elif block.kind == "python" and named is not None:
            (self.folder / named[1]).write_text(text)
        elif block.kind == "python":
            self.run(sys.executable, "-c", text)
        elif block.kind == "sh":
            self.run("bash", "-euo", "pipefail", "-c", text)

    def run(self, *command: str) -> None:
        ran = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
        assert ran.returncode == 0, f"{command[-1]}\n{ran.stdout}\n{ran.stderr}"
        self.printed = ran.stdout
