"""Logs for roles that are about to be taken, made in a thread while the loop serves others; and
those of deleted topics, which leave in the same way.

One request's after another's: two of them may ask for the same partition, and only one may make it.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
from collections import Counter, deque
from collections.abc import Callable, Sequence

from moldau.model.cluster import INTERNAL_TOPICS
from moldau.model.names import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from moldau.replication.replica_roles import Role
from moldau.storage.directories.log_store import LogStore
from moldau.storage.directories.new_logs import LOGS_PER_WORK, NewLog
from moldau.storage.log_settings import LogSettings
from moldau.storage.storage_faults import StorageFault

PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT})
"""Too few descriptors, too little memory or room: no fault of the directory."""


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


class Settling:
    """Works that are done in the order in which they were asked for, and who waits for them."""

    def __init__(self) -> None:
        self._asked = self._done = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        """How many have to be done by then, and who waits for that."""

    def ask(self) -> None:
        self._asked += 1

    def done(self, count: int = 1) -> None:
        self._done += count
        while self._waiting and self._waiting[0][0] <= self._done:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    async def settled(self) -> None:
        """Returns when everything that was asked for so far is done."""
        if self._done < self._asked:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((self._asked, future))
            await future


class RemovedLogs:
    """Logs of deleted topics: a few are renamed at once, many in the thread."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._settling = Settling()

    def remove(self, places: Sequence[TopicPartition]) -> None:
        self._settling.ask()
        self._store.delete_all(places, self._settling.done)

    async def settled(self) -> None:
        """Returns when whoever starts this broker anew would find none of those removed so far."""
        await self._settling.settled()


class PendingLogs:
    """Logs of new topics on a broker that stands alone: made some at a time in the thread, and
    placed some at a time on the loop."""

    def __init__(self, store: LogStore, place: Callable[[TopicPartition], None]) -> None:
        """`place(partition)` is called for each whose log was made."""
        self._store = store
        self._place = place
        self._waiting: dict[TopicPartition, NewLog] = {}
        """In the order in which they are made."""
        self._topics: Counter[str] = Counter()
        """Of those that wait."""
        self._is_making = False
        self._settling = Settling()
        self.on_internal: Callable[[], None] = lambda: None
        """Called when a whole internal topic is placed: no change of the image tells of it."""
        self._put_off: dict[TopicPartition, NewLog] = {}

    def __contains__(self, place: TopicPartition) -> bool:
        return place in self._waiting

    def make(self, wanted: Sequence[NewLog]) -> None:
        for each in wanted:
            if each.topic_partition not in self._waiting:
                self._settling.ask()
                self._topics[each.topic_partition.topic] += 1
            self._waiting[each.topic_partition] = each
        if not self._is_making:
            self._make_some()

    def _make_some(self) -> None:
        some = list(itertools.islice(self._waiting.values(), LOGS_PER_WORK))
        self._is_making = bool(some)
        if some:
            self._store.prepare(some, lambda: self._place_some(some))

    def _place_some(self, some: Sequence[NewLog]) -> None:
        for each in some:
            del self._waiting[each.topic_partition]
            self._place(each.topic_partition)
            topic = each.topic_partition.topic
            self._topics[topic] -= 1
            if not self._topics[topic]:
                del self._topics[topic]
                if topic in INTERNAL_TOPICS:
                    self.on_internal()
        self._settling.done(len(some))
        self._make_some()

    def put_off(self, wanted: NewLog, fault: StorageFault) -> None:
        """The log could not be made. What was missing may be there again soon: then it is made
        after all, without a restart."""
        if fault.errno in PASSING:
            self._put_off[wanted.topic_partition] = wanted

    def try_again(self) -> None:
        wanted, self._put_off = self._put_off, {}
        if wanted:
            self.make(list(wanted.values()))

    async def settled(self) -> None:
        """Returns when everything that was asked for so far is placed."""
        await self._settling.settled()

    async def settled_for(self, topic: str) -> None:
        """As `settled`, if partitions of this topic are among those."""
        if topic in self._topics:
            await self.settled()
