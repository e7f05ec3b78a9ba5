"""What the loop spends on one connection: reading, decrypting, decoding, sending.

Kept only while somebody has a quota of it. What the handler of a request has cost is charged at
once, by whoever charges it; the rest of the turn is paid for when the turn ends, and the time
before the log-in together with the first request.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class LoopTime:
    __slots__ = ("_pay", "_unpaid_ns", "charged_ns")

    def __init__(self) -> None:
        self.charged_ns = 0
        """Of the turn that runs now, what somebody has paid for already."""
        self._unpaid_ns = 0
        self._pay: Callable[[int], None] | None = None

    def paid_by(self, pay: Callable[[int], None] | None) -> None:
        self._pay = pay

    def turn(self, work: Callable[[], None]) -> None:
        begun_ns = time.perf_counter_ns()
        work()
        self._unpaid_ns += time.perf_counter_ns() - begun_ns - self.charged_ns
        self.charged_ns = 0
        if self._pay is not None:
            unpaid_ns, self._unpaid_ns = self._unpaid_ns, 0
            self._pay(max(0, unpaid_ns))
