"""What a handler waits for in the middle of its work, before it has written anything: nothing of
the same connection overtakes it, and it is done to its end even if the client leaves, as in
Apache Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

T = TypeVar("T")


class MutingWait(asyncio.Future[T]):
    """The next request of the connection has to wait behind a handler that waits for this: should
    it overtake, the records of one producer would be written out of order."""


async def done_beside(executor: Executor | None, work: Callable[..., T], *arguments: Any) -> T:
    """What `work` returns or raises, from a thread; without an executor one of the loop's own."""
    under_way = asyncio.get_running_loop().run_in_executor(executor, work, *arguments)
    is_done: MutingWait[None] = MutingWait()

    def note(_: object) -> None:
        if not is_done.done():
            is_done.set_result(None)

    under_way.add_done_callback(note)
    try:
        await is_done
        return under_way.result()
    finally:
        under_way.cancel()  # the broker may stop before its turn came
        # What it raises remembers this frame: in a circle what it worked on would stay in memory.
        del under_way
