"""One user's way to the cluster: an admin client with his log-in, and what it was told lately.

Where nobody has to log in, all share one link. Answers are never shared between users: what one
may see, another may not.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import TYPE_CHECKING, TypeVar

from moldau.aio import Admin
from moldau.console.recent_answers import RecentAnswers, Told

if TYPE_CHECKING:
    from moldau.console.history import History

T = TypeVar("T")
CLIENT_ID = "moldau-console"
ANSWER_MS = 20_000


class ClusterLink:
    def __init__(self, settings: Mapping[str, str], principal: str = "") -> None:
        self.settings = {
            "client.id": CLIENT_ID,
            "default.api.timeout.ms": str(ANSWER_MS),
            "request.timeout.ms": str(ANSWER_MS),
            **settings,
        }
        """Of the client library; the pages of records open consumers and producers with them."""
        self.principal = principal
        """The user's name; empty where nobody has to log in."""
        self.admin = Admin(self.settings)
        self.answers = RecentAnswers()
        self.history: History | None = None
        """What was noticed while the console runs; the frame begins it."""
        self.used_at = time.monotonic()
        self.is_closed = False
        """The user has signed out; streams that are still open end by this."""

    async def recent(
        self, key: Hashable, fetch: Callable[[], Awaitable[T]], *, fresh_s: float = 5.0
    ) -> Told[T]:
        return await self.answers.get(key, fetch, fresh_s=fresh_s)

    def peek(
        self, key: Hashable, fetch: Callable[[], Awaitable[T]], *, fresh_s: float = 5.0
    ) -> Told[T] | None:
        return self.answers.peek(key, fetch, fresh_s=fresh_s)

    async def close(self) -> None:
        self.is_closed = True
        if self.history is not None:
            await self.history.stop()
        await self.answers.close()
        await self.admin.close()
