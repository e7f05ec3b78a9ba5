"""The list of changes that were made through the console: a file with one JSON object per line.

Who (principal, address, browser), what (title, the same as a command), and what came of it. A
refused or failed change is in it too. Never a secret. The page shows the youngest lines.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

KEPT_MAX = 500
LINE_MAX = 64 * 1024
FILE_BYTES_MAX = 64 * 1024 * 1024
FILES_MAX = 10
"""Full ones get .1, .2 and so on, the oldest the highest. So many that nobody who only fails to
sign in, at the pace that he may, writes what was changed out of them within a month."""


class AuditList:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._youngest: deque[dict[str, Any]] = deque(maxlen=KEPT_MAX)
        self._turn = asyncio.Lock()

    def load(self) -> None:
        """What earlier consoles have written; a line that was cut off by a crash is passed over."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, self.path.stat().st_size - KEPT_MAX * 1024))
                lines = file.read().splitlines()
        except FileNotFoundError:
            return
        for line in lines[-KEPT_MAX:]:
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                self._youngest.append(row)

    def youngest(self, most: int = KEPT_MAX) -> list[dict[str, Any]]:
        return list(self._youngest)[::-1][:most]

    async def write(self, row: Mapping[str, Any]) -> None:
        """On disk when this returns; OSError if it cannot be written."""
        full = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **row}
        line = json.dumps(full, ensure_ascii=False)[:LINE_MAX] + "\n"
        async with self._turn:
            await asyncio.to_thread(self._append, line.encode())
        self._youngest.append(full)

    def _make_room(self) -> None:
        names = [self.path, *(Path(f"{self.path}.{number}") for number in range(1, FILES_MAX))]
        for younger, older in zip(names[-2::-1], names[:0:-1], strict=True):
            if younger.exists():
                os.replace(younger, older)

    def _append(self, line: bytes) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        file = os.open(self.path, flags, 0o600)
        try:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":
                # A crash has cut the last line off; this one is not to be lost with it.
                line = b"\n" + line
            if size > FILE_BYTES_MAX:
                self._make_room()
                os.close(file)
                file = os.open(self.path, flags, 0o600)
            os.write(file, line)
            os.fsync(file)
        finally:
            os.close(file)
