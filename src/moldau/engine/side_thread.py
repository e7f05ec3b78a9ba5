"""One thread beside the event loop, for reads that may take long: one after the other, so that
what they hold in memory meanwhile is bounded. Made when it is first needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class SideThread:
    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, self._name)
        under_way = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            return await under_way
        finally:
            under_way.cancel()  # the client may have gone before its turn came
            del under_way  # what it raises remembers this frame: that would be a circle
