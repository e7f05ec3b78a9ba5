"""What was changed through this console, and by whom."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from moldau.console.page import Asked, Shown

ROWS = 200


def moment_of(row: Mapping[str, Any]) -> float | None:
    """None if the file, which others may write too, tells none."""
    try:
        return datetime.fromisoformat(str(row.get("time"))).timestamp() * 1000
    except ValueError:
        return None


async def listed(asked: Asked) -> Shown:
    """The last word on each change: begun, done or failed."""
    rows, seen = [], set()
    for row in asked.audit.youngest():
        number = row.get("id")
        if number is not None and number in seen:
            continue
        seen.add(number)
        rows.append(row)
    if asked.settings.asks_for_login:
        # What others do is for those who may read the file.
        rows = [row for row in rows if row.get("principal") == asked.link.principal]
    return {
        "changes": [{**row, "ms": moment_of(row)} for row in rows[:ROWS]],
        "path": str(asked.audit.path),
        "own_only": asked.settings.asks_for_login,
    }
