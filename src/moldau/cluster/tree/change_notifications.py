"""Numbered notes under one node of the tree: somebody changed something, look again.

Whoever changes an access control list or a user's credentials leaves a note; every broker follows
those it has not seen. Old ones are cleared away when news come, as Kafka's brokers do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from moldau.cluster.tree.tree_follower import TreeFollower
from moldau.engine.timers import Timers
from moldau.metadata.store import MetadataStore, NoNode, StoreError
from moldau.model.clock import Clock
from moldau.model.names import Millis

log = logging.getLogger("kafka.common.ZkNodeChangeNotificationListener")

NOTES_KEPT_MS = 15 * 60 * 1000

Follow = Callable[[bytes], Awaitable[None]]


class ChangeNotes:
    def __init__(
        self,
        store: MetadataStore,
        directory: str,
        follow: Follow,
        *,
        clock: Clock,
        timers: Timers,
        clears: bool = True,
    ) -> None:
        """`clears`: whether nobody else takes old notes away."""
        self._store = store
        self._directory = directory
        self._follow = follow
        self._clock = clock
        self._follower = TreeFollower(store, timers, self._read_notes, self._unreadable)
        self._clears = clears
        self._last_seen = ""
        self._seen_at: dict[str, Millis] = {}

    async def watch(self) -> None:
        """Before what the notes are about is read: nothing that comes after that is missed."""
        self._follower.watch(self._directory)
        notes = await self._store.children(self._directory)
        self._last_seen = notes[-1] if notes else ""

    def start(self) -> None:
        self._follower.start(self._ended)

    async def stop(self) -> None:
        await self._follower.stop()

    def _unreadable(self, fault: StoreError) -> None:
        log.warning("Notes under %s could not be read yet: %s", self._directory, fault)

    def _ended(self, reading: asyncio.Task[None]) -> None:
        fault = None if reading.cancelled() else reading.exception()
        if fault is not None:
            log.error("Notes under %s are no longer followed", self._directory, exc_info=fault)

    async def _read_notes(self) -> None:
        names = await self._store.children(self._directory)
        for name in names:
            if name > self._last_seen:
                note = await self._store.exists(f"{self._directory}/{name}")
                if note is not None:
                    await self._follow(note.data)
                self._last_seen = name
        if self._clears:
            await self._clear(names)

    async def _clear(self, names: list[str]) -> None:
        now_ms = self._clock.monotonic_ms()
        self._seen_at = {name: self._seen_at.get(name, now_ms) for name in names}
        for name, seen_at_ms in self._seen_at.items():
            if now_ms - seen_at_ms > NOTES_KEPT_MS:
                try:
                    await self._store.delete(f"{self._directory}/{name}")
                except NoNode:
                    continue
