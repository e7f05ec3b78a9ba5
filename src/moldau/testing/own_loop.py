"""An event loop on a thread of its own, for what serves while a test's thread blocks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

CALL_SECONDS_MAX = 30.0
LAST_ROUNDS = 3


class OwnLoop:
    """Runs from the start until `close`; a daemon, so that a forgotten one ends no process late."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result; the caller waits for it, at most CALL_SECONDS_MAX."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(CALL_SECONDS_MAX)

    def post(self, function: Callable[..., object], *args: object) -> None:
        """Call the function on the loop, soon; nobody waits. After `close` nothing happens."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(function, *args)

    def close(self) -> None:
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(CALL_SECONDS_MAX)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            # What is ready when the loop is stopped may begin further tasks in its last turns.
            for _ in range(LAST_ROUNDS):
                leftover = asyncio.all_tasks(self.loop)
                for task in leftover:
                    task.cancel()
                if leftover:
                    self.loop.run_until_complete(asyncio.gather(*leftover, return_exceptions=True))
                # Transports close their sockets one turn after they were told to.
                self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        finally:
            self.loop.close()
