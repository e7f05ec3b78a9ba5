"""What a handler waits for in the middle of its work, before it has written anything."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


class MutingWait(asyncio.Future[T]):
    """The next request of the connection has to wait behind a handler that waits for this: should
    it overtake, the records of one producer would be written out of order."""
