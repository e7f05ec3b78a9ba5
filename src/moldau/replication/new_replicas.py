"""Logs for roles that are about to be taken, made in a thread while the loop serves others.

One request's after another's: two of them may ask for the same partition, and only one may make it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence

from moldau.model.names import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from moldau.replication.roles import Role
from moldau.storage.log_store import LogStore
from moldau.storage.new_logs import LOGS_PER_WORK, NewLog
from moldau.storage.settings import LogSettings


class NewReplicas:
    def __init__(self, node_id: BrokerId, store: LogStore) -> None:
        self._node_id = node_id
        self._store = store
        self._turn = asyncio.Lock()

    async def prepare(
        self, roles: Sequence[Role], settings_of: Callable[[str], LogSettings]
    ) -> None:
        """Returns when the logs that could be made are there to be taken."""
        async with self._turn:
            roles = [role for role in roles if self._may_make(role)]
            topics = {role.topic_partition.topic for role in roles}
            settings = {topic: settings_of(topic) for topic in topics}
            if not roles:
                return
            made: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            wanted = [
                NewLog(
                    role.topic_partition,
                    role.topic_id,
                    settings[role.topic_partition.topic],
                    role.state.leader_epoch if role.state.leader == self._node_id else None,
                )
                for role in roles
            ]

            def done() -> None:
                if not made.done():
                    made.set_result(None)

            self._store.prepare(wanted, done)
            await made

    def _may_make(self, role: Role) -> bool:
        if self._node_id not in role.state.replicas or self._store.has(role.topic_partition):
            return False
        # With a directory out of service, a log that is not new may lie there.
        return role.is_new or len(self._store.online) == len(self._store.directories)


def make_way(store: LogStore, place: TopicPartition, topic_id: TopicId, *, is_new: bool) -> None:
    """Set the log aside that lies where one of the topic is to be and is of another one: that was
    deleted while this broker was not looking, or the metadata were lost. A log without an id is of
    an old broker, and the topic's if that is not new. Raises StorageFault."""
    earlier = store.get(place)
    if earlier is None or topic_id in (NO_TOPIC_ID, earlier.topic_id):
        return
    if is_new or earlier.topic_id != NO_TOPIC_ID:
        store.set_aside(place, "it is of an earlier topic of that name")


class PendingLogs:
    """Logs of new topics on a broker that stands alone: made some at a time in the thread, and
    placed some at a time on the loop."""

    def __init__(self, store: LogStore, place: Callable[[TopicPartition], None]) -> None:
        """`place(partition)` is called for each whose log was made."""
        self._store = store
        self._place = place
        self._waiting: dict[TopicPartition, NewLog] = {}
        self._is_making = False
        self._settled: list[asyncio.Future[None]] = []

    def __contains__(self, place: TopicPartition) -> bool:
        return place in self._waiting

    def make(self, wanted: Sequence[NewLog]) -> None:
        self._waiting.update((each.topic_partition, each) for each in wanted)
        if not self._is_making:
            self._make_some()

    def _make_some(self) -> None:
        some = list(itertools.islice(self._waiting.values(), LOGS_PER_WORK))
        self._is_making = bool(some)
        if not some:
            for future in self._settled:
                if not future.done():
                    future.set_result(None)
            self._settled.clear()
            return

        def made() -> None:
            for each in some:
                del self._waiting[each.topic_partition]
                self._place(each.topic_partition)
            self._make_some()

        self._store.prepare(some, made)

    async def settled(self) -> None:
        """Returns when everything that was asked for so far is placed."""
        if self._waiting:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settled.append(future)
            await future
