"""A journal whose commits and faults a test chooses."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.engine.machine import JournalFault, JournalListener
from moldau.model.errors import Error


class ManualJournal:
    """`facts` is what was appended, `durable` what would survive a crash now."""

    def __init__(self, *, commits_at_once: bool = False) -> None:
        self.facts: list[object] = []
        self.durable_count = 0
        self.refuses_with: JournalFault | None = None
        self._commits_at_once = commits_at_once
        self._listener: JournalListener | None = None

    @property
    def durable(self) -> list[object]:
        return self.facts[: self.durable_count]

    def listen(self, listener: JournalListener) -> None:
        self._listener = listener

    def append(self, facts: Sequence[object]) -> int:
        if self.refuses_with is not None:
            raise self.refuses_with
        self.facts += facts
        position = len(self.facts) - 1
        if self._commits_at_once:
            self.commit()
        return position

    def commit(self, count: int | None = None) -> None:
        """Everything so far, or the first `count` facts."""
        assert self._listener is not None
        self.durable_count = len(self.facts) if count is None else count
        self._listener.committed(self.durable_count - 1)

    def fail(self, error: Error, message: str = "") -> None:
        assert self._listener is not None
        self._listener.failed(JournalFault(error, message))
