"""What any broker may change in the tree: access lists, credentials, quotas, delegation tokens.

Whoever changes a node reads it with its version, writes on that condition, and leaves a note for
the others, in one step; who was too slow looks again. Notes are watched before the nodes are read,
so that no change falls in between.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from moldau.cluster.tree.change_notifications import ChangeNotes, Follow, Missed
from moldau.engine.timers import Timers
from moldau.metadata.store import (
    BadVersion,
    Create,
    MetadataStore,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    StoreError,
)
from moldau.model.clock import Clock
from moldau.model.errors import ApiError, Error

ATTEMPTS = 10
RETRY_MS = 100

T = TypeVar("T")


class SharedNodes:
    def __init__(
        self,
        store: MetadataStore,
        follows: Mapping[str, Follow],
        missed: Missed,
        *,
        clock: Clock,
        timers: Timers,
        is_alone: bool,
        clears: bool = True,
    ) -> None:
        """`follows`: what to do with a note, by the node that notes are left under; `missed` reads
        everything anew. `is_alone`: no other broker uses the tree, so nobody needs notes."""
        self._store = store
        self._timers = timers
        self._is_alone = is_alone
        watched = {} if is_alone else follows
        self._notes = tuple(
            ChangeNotes(
                store, place, follow, clock=clock, timers=timers, clears=clears, missed=missed
            )
            for place, follow in watched.items()
        )

    async def watch(self) -> None:
        """Before anything is read. Raises StoreError."""
        for notes in self._notes:
            await notes.watch()

    def start(self) -> None:
        for notes in self._notes:
            notes.start()

    async def stop(self) -> None:
        for notes in self._notes:
            await notes.stop()

    async def lay_out(self, places: Iterable[str]) -> None:
        """What Kafka's brokers make at their start. Raises StoreError."""
        for path in places:
            if await self._store.exists(path) is None:
                try:
                    await self._store.create(path)
                except NodeExists:
                    continue

    async def children(self, folder: str) -> list[tuple[str, bytes]]:
        """Names and data of what stands there. Raises StoreError."""
        names = await self._store.children(folder)
        nodes = await self._store.get_many([f"{folder}/{name}" for name in names])
        found = zip(names, nodes, strict=True)
        return [(name, node.data) for name, node in found if node is not None]

    async def write(self, ops: Iterable[Op], prefix: str, note: bytes) -> None:
        """Together with a note that begins with `prefix`. Raises StoreError."""
        told: list[Op] = [] if self._is_alone else [Create(prefix, note, sequential=True)]
        await self._store.multi([*ops, *told])

    async def change(self, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Until nobody else is faster. Raises ApiError."""
        try:
            for _ in range(ATTEMPTS):
                try:
                    return await attempt()
                except (BadVersion, NodeExists, NoNode, NotEmpty):
                    await self._timers.pause(RETRY_MS)
        except StoreError as fault:
            raise ApiError(Error.UNKNOWN_SERVER_ERROR, str(fault)) from fault
        sentence = f"Failed to update {what} after trying {ATTEMPTS} times"
        raise ApiError(Error.UNKNOWN_SERVER_ERROR, sentence)
