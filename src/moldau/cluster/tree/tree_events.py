"""What happens in the znode tree, turned into commands while this broker is the controller.

Watches only say that something changed: the state is read anew and compared. Changes that come
while one is being read are read again, so nothing is missed and nothing piles up.

What is read is only compared with what was in the tree for certain when the read began: the
controller's own writes are under way meanwhile, and a list from before one of them must not pass
for somebody else's doing. What this controller touches while it reads is read again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from moldau.cluster.tree.tree_loading import load_brokers, load_configs
from moldau.controller import cluster_commands as commands
from moldau.controller.cluster_facts import LiveBroker
from moldau.controller.rules.reassignment_rules import Move
from moldau.engine.timers import Timers
from moldau.metadata import paths
from moldau.metadata.store import Delete, MetadataStore, NodeExists, NoNode, StoreError, Watch
from moldau.metadata.unreadable_nodes import readable
from moldau.metadata.watched_nodes import NodeWatches
from moldau.model.errors import ApiError, Error
from moldau.model.names import NO_TOPIC_ID, TopicId, TopicPartition

if TYPE_CHECKING:
    from moldau.cluster.active_controller import ActiveController

log = logging.getLogger("kafka.controller.KafkaController")

RETRY_MS = 200
TOPIC_NODES = "the nodes of topics"
"""In the place of a path: they are many, and only those that changed are read."""


class TreeEvents:
    def __init__(
        self,
        store: MetadataStore,
        controller: ActiveController,
        *,
        timers: Timers,
        draw_id: Callable[[], TopicId],
        deletion_is_enabled: Callable[[], bool],
        failed: Callable[[BaseException], None],
    ) -> None:
        """`failed` is called if the tree cannot be read on, for another reason than the end of the
        term: the controller then sees nothing any more."""
        self._store = store
        self._controller = controller
        self._timers = timers
        self._draw_id = draw_id
        self._deletion_is_enabled = deletion_is_enabled
        self._failed = failed
        self._readers: dict[str, Callable[[], Awaitable[None]]] = {
            paths.BROKER_IDS: self._read_brokers,
            paths.TOPICS: self._read_topics,
            paths.DELETE_TOPICS: self._read_deletions,
            paths.REASSIGN_PARTITIONS: self._read_moves,
            paths.PREFERRED_REPLICA_ELECTION: self._read_elections,
            paths.ISR_CHANGES: self._read_isr_changes,
            paths.LOG_DIR_EVENTS: self._read_log_dir_events,
            TOPIC_NODES: self._read_topic_nodes,
        }
        self._unread: dict[str, None] = {}
        self._brokers = NodeWatches(store, lambda _: self.look(paths.BROKER_IDS))
        self._topics = NodeWatches(store, self._topic_changed)
        self._changed_topics: dict[str, None] = {}
        """Paths of topics' nodes that are to be read."""
        self._news = asyncio.Event()
        self._watches: list[Watch] = []
        self._reading: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Before the tree is loaded, so that nothing falls between."""
        watched = self._readers.keys() - {TOPIC_NODES}
        self._watches = [self._store.watch(path, self.look) for path in watched]

    def start(self) -> None:
        for path in self._readers:
            self.look(path)
        self._reading = asyncio.get_running_loop().create_task(self._read())
        self._reading.add_done_callback(self._ended)

    def look(self, path: str) -> None:
        self._unread[path] = None
        self._news.set()

    async def stop(self) -> None:
        for watch in self._watches:
            watch.cancel()
        self._watches = []
        self._brokers.keep(())
        self._topics.keep(())
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))
            self._reading = None

    def _ended(self, reading: asyncio.Task[None]) -> None:
        fault = None if reading.cancelled() else reading.exception()
        if fault is not None:
            log.error("The controller cannot read the tree on", exc_info=fault)
            self._failed(fault)

    async def _read(self) -> None:
        while True:
            await self._news.wait()
            if not self._unread:
                self._news.clear()
                continue
            path = next(iter(self._unread))
            del self._unread[path]
            try:
                await self._readers[path]()
            except NoNode:
                continue
            except StoreError as fault:
                await self._read_later(path, fault)
            except ApiError as refusal:
                if self._controller.is_over:
                    return
                if refusal.error is not Error.REQUEST_TIMED_OUT:
                    raise
                # Too much waits for the metadata store at the moment.
                await self._read_later(path, refusal)

    async def _read_later(self, path: str, fault: Exception) -> None:
        log.warning("%s could not be read and is read again: %s", path, fault)
        self.look(path)
        await self._timers.pause(RETRY_MS)

    async def _begin(self) -> commands.Known:
        """Returns when the tree holds what the state holds now."""
        return await self._controller.submit(commands.BeginReading())

    def _sure_of(self, names: Iterable[str], path: str) -> list[str]:
        """Those that this controller has not touched since; for the others it looks again."""
        listed = list(names)
        sure = [name for name in listed if name not in self._controller.state.touched]
        if len(sure) < len(listed):
            self.look(path)
        return sure

    async def _read_brokers(self) -> None:
        # Nobody writes these but the brokers themselves, and what one session reads is never older
        # than what it has read before.
        ids = await self._store.children(paths.BROKER_IDS)
        self._brokers.keep(f"{paths.BROKER_IDS}/{broker}" for broker in ids)
        known = self._controller.state.liveness.brokers
        before = {b: (live.node, live.epoch) for b, live in known.items()}
        nodes, epochs = await load_brokers(self._store, before)
        live = {b: LiveBroker(node, epochs[b]) for b, node in nodes.items()}
        await self._controller.submit(commands.ChangeBrokers(live))

    async def _read_topics(self) -> None:
        known = await self._begin()
        names = await self._store.children(paths.TOPICS)
        # Whatever was written between the load and this watch is read once more.
        for path in self._topics.keep(map(paths.topic_path, names)):
            self._topic_changed(path)
        gone = self._sure_of(sorted(known.topics - set(names)), paths.TOPICS)
        if gone:
            await self._controller.submit(commands.ForgetTopics(tuple(gone)))
        unreadable = self._controller.state.unreadable & set(names)
        strange = (n for n in names if n not in known.topics and n not in unreadable)
        new = self._sure_of(strange, paths.TOPICS)
        if new or unreadable != self._controller.state.unreadable:
            await self._add_topics(new, unreadable)

    async def _add_topics(self, names: list[str], unreadable: frozenset[str]) -> None:
        """`unreadable` are others that are known to be so."""
        nodes = await self._store.get_many([paths.topic_path(name) for name in names])
        configs = await load_configs(self._store, paths.TOPIC_CONFIGS)
        found = []
        for name, node in zip(names, nodes, strict=True):
            if node is None or not node.data:
                continue
            topic = readable(paths.topic_path(name), node.data, paths.decode_topic)
            if topic is None:
                unreadable |= {name}
                continue
            is_new = topic.topic_id == NO_TOPIC_ID
            topic_id = self._draw_id() if is_new else topic.topic_id
            if name not in self._sure_of((name,), paths.TOPICS):
                continue
            await lay_out_topic(self._store, name, len(topic.replicas))
            found.append(
                commands.FoundTopic(name, topic_id, topic.replicas, configs.get(name, {}), is_new)
            )
        await self._controller.submit(commands.AddFoundTopics(tuple(found), unreadable))

    def _topic_changed(self, path: str) -> None:
        self._changed_topics[path] = None
        self.look(TOPIC_NODES)

    async def _read_topic_nodes(self) -> None:
        """Old tools add partitions by writing them into the topic's node."""
        await self._begin()
        changed = list(self._changed_topics)
        nodes = await self._store.get_many(changed)
        for path, node in zip(changed, nodes, strict=True):
            del self._changed_topics[path]
            name = path.removeprefix(f"{paths.TOPICS}/")
            if node is None or not node.data:
                continue
            if name in self._controller.state.touched:
                self._topic_changed(path)
                continue
            topic = readable(path, node.data, paths.decode_topic)
            if topic is None:
                continue
            unreadable = self._controller.state.unreadable
            if name in unreadable:
                # Somebody has mended it.
                await self._add_topics([name], unreadable - {name})
            known = self._controller.state.cluster.topics.get(name)
            if known is None or topic.topic_id not in (NO_TOPIC_ID, known.id):
                continue
            if len(topic.replicas) > len(known.partitions):
                await lay_out_topic(self._store, name, len(topic.replicas))
                await self._controller.submit(commands.GrowFoundTopic(name, topic.replicas))

    async def _read_deletions(self) -> None:
        known = await self._begin()
        found = await self._store.children(paths.DELETE_TOPICS)
        new = (name for name in found if name not in known.deleting)
        names = tuple(self._sure_of(new, paths.DELETE_TOPICS))
        if names:
            command = commands.QueueFoundDeletions(names, self._deletion_is_enabled())
            await self._controller.submit(command)

    async def _read_moves(self) -> None:
        await self._begin()
        path = paths.REASSIGN_PARTITIONS
        node = await self._store.get(path)
        rows = readable(path, node.data, paths.decode_reassignment)
        if rows is None or not self._sure_of((path,), path):
            return
        moves = tuple(Move(place[0], place[1], replicas) for place, replicas in rows.items())
        followed = self._controller.state.moves_followed
        if not followed or any(TopicPartition(m.topic, m.partition) not in followed for m in moves):
            await self._controller.submit(commands.FollowMoves(moves))

    async def _read_elections(self) -> None:
        await self._begin()
        path = paths.PREFERRED_REPLICA_ELECTION
        node = await self._store.get(path)
        # One that cannot be read is removed like one that is done: no other could be asked for.
        rows = readable(path, node.data, paths.decode_isr_changes) or ()
        if self._sure_of((path,), path):
            places = tuple(TopicPartition(*row) for row in rows)
            await self._controller.submit(commands.FollowElections(places))

    async def _read_isr_changes(self) -> None:
        await self._begin()
        names = await self._store.children(paths.ISR_CHANGES)
        notes = [f"{paths.ISR_CHANGES}/{name}" for name in names]
        nodes = await self._store.get_many(notes)
        places = {
            TopicPartition(*row)
            for path, node in zip(notes, nodes, strict=True)
            if node is not None
            for row in readable(path, node.data, paths.decode_isr_changes) or ()
        }
        rows = sorted(places)
        states = [paths.partition_state_path(*row) for row in rows]
        seen = []
        for place, path, node in zip(rows, states, await self._store.get_many(states), strict=True):
            state = node and readable(path, node.data, paths.decode_partition_state)
            if node is not None and state is not None:
                seen.append((place, state, node.version))
        # Notes about topics that were touched meanwhile are read again.
        if len(self._sure_of((place.topic for place in rows), paths.ISR_CHANGES)) < len(rows):
            return
        if seen:
            await self._controller.submit(commands.SeeStates(tuple(seen)))
        await self._remove(notes)

    async def _read_log_dir_events(self) -> None:
        names = await self._store.children(paths.LOG_DIR_EVENTS)
        notes = [f"{paths.LOG_DIR_EVENTS}/{name}" for name in names]
        nodes = await self._store.get_many(notes)
        told = {
            readable(path, node.data, paths.decode_log_dir_event)
            for path, node in zip(notes, nodes, strict=True)
            if node is not None
        }
        brokers = sorted(broker for broker in told if broker is not None)
        if brokers:
            await self._controller.submit(commands.AskForReplicas(tuple(brokers)))
        await self._remove(notes)

    async def _remove(self, nodes: Iterable[str]) -> None:
        for path in nodes:
            try:
                await self._store.multi([Delete(path)])
            except NoNode:
                continue


async def lay_out_topic(store: MetadataStore, name: str, partition_count: int) -> None:
    """Make the nodes above the partitions' states, and the one for settings, where missing."""
    wanted = [paths.topic_config_path(name), paths.partitions_path(name)]
    wanted += [paths.partition_path(name, number) for number in range(partition_count)]
    nodes = await store.get_many(wanted)
    for path, node in zip(wanted, nodes, strict=True):
        if node is None:
            data = paths.encode_config({}) if path == wanted[0] else b""
            try:
                await store.create(path, data)
            except NodeExists:
                continue
