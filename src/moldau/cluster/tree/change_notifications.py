"""Numbered notes under one node of the tree: somebody changed something, look again.

Whoever changes an access control list or a user's credentials leaves a note; every broker follows
those it has not seen. Old ones are cleared away when news come, as Kafka's brokers do; the newest
always stays, and its number tells a broker that was cut off for long that it has missed some.
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
NUMBER_LENGTH = 10
RETRY_MS = 1000

Follow = Callable[[bytes], Awaitable[None]]
Missed = Callable[[], Awaitable[None]]


async def _nothing() -> None:
    return None


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
        missed: Missed = _nothing,
    ) -> None:
        """`clears`: whether nobody else takes old notes away. `missed` reads everything anew."""
        self._store = store
        self._directory = directory
        self._follow = follow
        self._clock = clock
        self._follower = TreeFollower(store, timers, self._read_notes, self._unreadable)
        self._clears = clears
        self._missed = missed
        self._timers = timers
        self._last_seen = ""
        self._note = ""
        """Which one is being followed."""
        self._is_stopped = False
        self._seen_at: dict[str, Millis] = {}

    async def watch(self) -> None:
        """Before what the notes are about is read: nothing that comes after that is missed."""
        self._follower.watch(self._directory)
        notes = await self._store.children(self._directory)
        self._last_seen = notes[-1] if notes else ""

    def start(self) -> None:
        self._follower.start(self._ended)

    async def stop(self) -> None:
        self._is_stopped = True
        await self._follower.stop()

    def _unreadable(self, fault: StoreError) -> None:
        log.warning("Notes under %s could not be read yet: %s", self._directory, fault)

    def _ended(self, reading: asyncio.Task[None]) -> None:
        """Whatever one note has brought about, the next ones are followed."""
        fault = None if reading.cancelled() else reading.exception()
        if fault is not None:
            place = f"{self._directory}/{self._note}"
            log.error("The note %s is passed over, it could not be followed", place, exc_info=fault)
            self._last_seen = max(self._last_seen, self._note)
            self._timers.after(RETRY_MS, self._start_again)

    def _start_again(self) -> None:
        if not self._is_stopped:
            self.start()

    async def _read_notes(self) -> None:
        names = await self._store.children(self._directory)
        news = [name for name in names if name > self._last_seen]
        if news and _number(news[0]) > _number(self._last_seen) + 1:
            log.info("Notes under %s are gone already: everything is read anew", self._directory)
            await self._missed()
        for name in names:
            if name > self._last_seen:
                self._note = name
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


def _number(name: str) -> int:
    """Of a note, counted from 0; -1 of none. ZooKeeper counts what was ever made there."""
    digits = name[-NUMBER_LENGTH:]
    return int(digits) if digits.isdigit() else -1
