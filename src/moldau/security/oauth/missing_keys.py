"""Ids of keys that tokens named and nobody published: when to ask for the keys before their time.

Whoever has no account can send tokens with made-up ids. So an id is asked for once in a minute, few
of them are remembered, and there is a pause between two questions whatever is asked for.
"""

from __future__ import annotations

from collections import OrderedDict

REMEMBERED_MAX = 16
REMEMBERED_MS = 60_000
ID_LENGTH_MAX = 1000
PAUSE_MS = 1000


class MissingKeys:
    def __init__(self) -> None:
        self._asked_at_ms: OrderedDict[str, int] = OrderedDict()
        self._last_ms: int | None = None

    def is_worth_asking(self, key_id: str, now_ms: int) -> bool:
        """Whether to ask now; then the question counts as asked."""
        if len(key_id) > ID_LENGTH_MAX:
            return False
        before = self._asked_at_ms.get(key_id)
        if before is not None and 0 <= now_ms - before < REMEMBERED_MS:
            return False
        if self._last_ms is not None and 0 <= now_ms - self._last_ms < PAUSE_MS:
            return False
        self._last_ms = self._asked_at_ms[key_id] = now_ms
        self._asked_at_ms.move_to_end(key_id)
        if len(self._asked_at_ms) > REMEMBERED_MAX:
            self._asked_at_ms.popitem(last=False)
        return True

    def __len__(self) -> int:
        return len(self._asked_at_ms)
