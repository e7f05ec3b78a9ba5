"""The budgets of one user with one client id, and the short question whether they will do.

Whoever keeps a share may go on with it: a budget that is dropped, or gets another limit, covers
nothing until it is asked again.
"""

from __future__ import annotations

from moldau.model.names import Millis
from moldau.security.quotas.budgets import UNBOUNDED, RateBudget, TimeBudget, TokenBudget


class Unmetered:
    """In the place of a budget while nobody has a quota of its kind."""

    __slots__ = ("last_ns", "room", "spent_ns", "until_ns")

    def __init__(self) -> None:
        self.room: float = UNBOUNDED
        self.until_ns = UNBOUNDED
        self.last_ns = 0
        self.spent_ns = 0

    def spend(self, value: float, now: Millis) -> Millis:
        self.room = UNBOUNDED
        return 0

    def note(self, value: float, now: Millis) -> None:
        self.room = UNBOUNDED


class Share:
    __slots__ = ("fetch", "mutations", "produce", "request")

    def __init__(
        self,
        produce: RateBudget | None = None,
        fetch: RateBudget | None = None,
        request: TimeBudget | None = None,
        mutations: TokenBudget | None = None,
    ) -> None:
        """None for what nobody has a quota of."""
        self.produce = produce or Unmetered()
        self.fetch = fetch
        self.request = request or Unmetered()
        self.mutations = mutations

    def covers(self, request_bytes: int, now_ns: int) -> bool:
        """Whether a Produce that is done by now is certain to be within its quotas. If so its bytes
        are recorded; the time is paid for with the rest of the turn."""
        produce = self.produce
        if (
            request_bytes < produce.room
            and now_ns < produce.until_ns
            and now_ns < self.request.until_ns
        ):
            produce.room -= request_bytes
            produce.last_ns = now_ns
            return True
        return False
