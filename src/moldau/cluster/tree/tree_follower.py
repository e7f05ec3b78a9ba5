"""Reads a part of the tree again whenever there is news of it: settings, who is in the cluster.

News that come while it reads are read afterwards, all at once. A store that cannot be read is asked
again a moment later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from moldau.engine.timers import Timers
from moldau.metadata.store import MetadataStore, StoreError, Watch

RETRY_MS = 200


class TreeFollower:
    def __init__(
        self,
        store: MetadataStore,
        timers: Timers,
        read: Callable[[], Awaitable[None]],
        unreadable: Callable[[StoreError], None],
    ) -> None:
        self._store = store
        self._timers = timers
        self._read = read
        self._unreadable = unreadable
        self._news = asyncio.Event()
        self._watch: Watch | None = None
        self._reading: asyncio.Task[None] | None = None

    def watch(self, path: str) -> None:
        """Also a second time, if the reading that should follow has failed."""
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self._store.watch(path, lambda path: self._news.set())

    def start(self, ended: Callable[[asyncio.Task[None]], None]) -> None:
        """Read at once, and at all news from now on. `ended` hears of a fault that ends it."""
        self._news.set()
        self._reading = asyncio.get_running_loop().create_task(self._follow())
        self._reading.add_done_callback(ended)

    async def stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._read()
            except StoreError as fault:
                self._unreadable(fault)
                self._news.set()
                await self._timers.pause(RETRY_MS)
