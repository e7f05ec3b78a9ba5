"""What the loop spends on one connection: reading, decrypting, decoding, sending.

Kept only while somebody has a quota of it. What the handler of a request has cost may be charged at
once, by whoever charges it; the rest of the turn is paid for when the turn ends, and the time
before the log-in together with the first request.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from moldau.security.quotas.budgets import TimeBudget
    from moldau.security.quotas.client_share import Unmetered

NS_PER_MS: Final = 1_000_000


class LoopTime:
    __slots__ = ("_budget", "_now_ns", "_paid_until_ns", "_unpaid_ns")

    def __init__(self, now_ns: Callable[[], int] = perf_counter_ns) -> None:
        self._now_ns = now_ns
        self._paid_until_ns = 0
        """Of the turn that runs now; 0 between two of them."""
        self._unpaid_ns = 0
        """Of turns before anybody could pay."""
        self._budget: TimeBudget | Unmetered | None = None

    def paid_by(self, budget: TimeBudget | Unmetered | None) -> None:
        """Of a client that asks by several names, whichever was last asked about pays."""
        self._budget = budget
        if budget is not None and self._unpaid_ns:
            budget.note(self._unpaid_ns, self._now_ns() // NS_PER_MS)
            self._unpaid_ns = 0

    def charge(self, worked_ns: int) -> None:
        """So much of the turn that runs now is paid for already."""
        if self._paid_until_ns:
            self._paid_until_ns += worked_ns

    def due_ns(self, now_ns: int) -> int:
        """All of the turn that nobody has paid for yet, to be charged now."""
        if not self._paid_until_ns:
            return 0
        due_ns = now_ns - self._paid_until_ns
        self._paid_until_ns = now_ns
        return max(0, due_ns)

    def turn(self, work: Callable[[], None]) -> None:
        if self._paid_until_ns:
            work()  # what began this turn pays for it
            return
        self._paid_until_ns = self._now_ns()
        try:
            work()
        finally:
            ended_ns = self._now_ns()
            due_ns = ended_ns - self._paid_until_ns
            self._paid_until_ns = 0
            budget = self._budget
            if budget is None:
                self._unpaid_ns += due_ns
            elif ended_ns < budget.until_ns and due_ns > 0:
                budget.spent_ns += due_ns
                budget.last_ns = ended_ns
            else:
                budget.note(max(0, due_ns), ended_ns // NS_PER_MS)
