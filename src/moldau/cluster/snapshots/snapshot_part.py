"""What one broker does for a snapshot of its cluster.

Prepare, take the moment and hold back everything that leaves, release, link and finish: the one
who makes the snapshot calls these at all brokers. Whoever is not called on gives up by itself: the
hold ends after HOLD_SECONDS_MAX, and then its part is void; what was begun is dropped after
LEASE_SECONDS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.net.holding.outgoing_hold import OutgoingHold
from moldau.storage.snapshots.linked_logs import FilesGone
from moldau.storage.snapshots.snapshot_files import Manifest
from moldau.storage.snapshots.snapshot_making import Moment
from moldau.storage.snapshots.snapshot_taking import Snapshots
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("moldau.snapshots")

T = TypeVar("T")
HOLD_SECONDS_MAX = 1.0
LEASE_SECONDS = 60.0
ALONE: Mapping[str, str] = {
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "min.insync.replicas": "1",
}
"""Of a fork, which is one broker."""


class Whole(NamedTuple):
    """What only one part has: it makes the others a snapshot."""

    metadata: tuple[str, bytes]
    members: tuple[Mapping[str, object], ...]
    held_us: int


class SnapshotPart:
    def __init__(
        self,
        snapshots: Callable[[], Snapshots],
        led: Callable[[], Mapping[TopicPartition, int]],
        hold: OutgoingHold,
    ) -> None:
        self._snapshots = snapshots
        self._led = led
        self._hold = hold
        self._uid = ""
        """Of the snapshot under way."""
        self._name = ""
        self._moment: Moment | None = None
        self._linking: asyncio.Task[None] | None = None
        self._lease: asyncio.TimerHandle | None = None
        self._dropping: asyncio.Task[None] | None = None
        self._has_expired = False

    async def prepare(self, name: str, uid: str) -> None:
        """Raises ApiError."""
        await self._snapshots().prepare_part(name)
        self._name, self._uid = name, uid
        self._has_expired = False
        self._renew_lease()

    def take(self, uid: str) -> Mapping[TopicPartition, int]:
        """The moment: one step of the loop. What this broker leads, and in which leader epoch.
        Raises ApiError."""
        self._must_be(uid)
        if self._moment is not None:
            raise ApiError(Error.INVALID_REQUEST, "this broker has taken that moment before")
        led = self._led()
        try:
            self._moment = self._snapshots().take_part(self._name, uid, led)
        except StorageFault as fault:
            raise ApiError(Error.KAFKA_STORAGE_ERROR, str(fault)) from fault
        self._hold.begin(HOLD_SECONDS_MAX)
        linking = self._snapshots().link_part(self._moment)
        self._linking = asyncio.get_running_loop().create_task(linking)
        self._linking.add_done_callback(_heard)
        return led

    def release(self, uid: str) -> int:
        """Let everything leave again; the microseconds that it waited. Raises ApiError if it had
        left before: what it said may be in the moment of another broker."""
        self._must_be(uid)
        held = self._hold.end()
        if held is None:
            self._has_expired = True
            raise ApiError(
                Error.REQUEST_TIMED_OUT, f"nobody ended the hold in {HOLD_SECONDS_MAX} s"
            )
        return int(held * 1_000_000)

    async def finish(self, uid: str, whole: Whole | None = None) -> Manifest:
        """Raises ApiError."""
        self._must_be(uid)
        if self._moment is None or self._linking is None or self._has_expired:
            raise ApiError(Error.INVALID_REQUEST, "this broker has no moment of that snapshot")
        self._stop_lease()
        try:
            await self._linking
            moment = self._moment
            if whole is not None:
                name, content = whole.metadata
                moment = moment._replace(
                    metadata=(name, lambda: content),
                    members=whole.members,
                    held_us=whole.held_us,
                    settings={**moment.settings, **ALONE},
                )
            manifest = await self._snapshots().finish_part(moment)
        except FilesGone as gone:
            raise ApiError(Error.REQUEST_TIMED_OUT, str(gone)) from gone
        except StorageFault as fault:
            raise ApiError(Error.KAFKA_STORAGE_ERROR, str(fault)) from fault
        self._forget()
        return manifest

    async def drop(self, name: str, uid: str) -> None:
        """Nothing of it stays, whether it is finished or not. Raises ApiError."""
        if uid == self._uid and uid:
            self._hold.end()
            self._stop_lease()
            if self._linking is not None:
                await asyncio.wait([self._linking])
            if self._moment is not None:
                await self._snapshots().give_up_part(self._moment)
            self._forget()
        known = await self._snapshots().describe(lambda each: (each.name, each.uid))
        if any(each == name and uid in ("", its) for each, its in known):
            await self._snapshots().delete(name)

    async def parts(self, told: Callable[[Manifest], T]) -> list[T]:
        """What is told of each that is finished here. Raises ApiError."""
        return await self._snapshots().describe(told)

    @property
    def directories(self) -> tuple[str, ...]:
        return self._snapshots().directories

    @property
    def under_way(self) -> str:
        """The uid of the snapshot that is being made."""
        return self._uid

    def _must_be(self, uid: str) -> None:
        if uid != self._uid or not uid:
            raise ApiError(Error.INVALID_REQUEST, "this broker makes no part of that snapshot")

    def _forget(self) -> None:
        if self._uid:
            self._snapshots().end()
        self._uid = self._name = ""
        self._moment = self._linking = None

    def _renew_lease(self) -> None:
        self._stop_lease()
        self._lease = asyncio.get_running_loop().call_later(LEASE_SECONDS, self._lapsed)

    def _stop_lease(self) -> None:
        if self._lease is not None:
            self._lease.cancel()
            self._lease = None

    def _lapsed(self) -> None:
        log.warning("The snapshot %s is given up: nobody asked for its end", self._name)
        dropping = self.drop(self._name, self._uid)
        self._dropping = asyncio.get_running_loop().create_task(dropping)
        self._dropping.add_done_callback(_heard)


def _heard(task: asyncio.Task[None]) -> None:
    """Whoever waits for it raises it; here it is only taken note of."""
    if not task.cancelled():
        task.exception()
