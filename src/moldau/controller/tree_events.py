"""What happens in the znode tree, turned into commands while this broker is the controller.

Watches only say that something changed: the state is read anew and compared. Changes that come
while one is being read are read again, so nothing is missed and nothing piles up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from moldau.controller import cluster_commands as commands
from moldau.controller.cluster_facts import LiveBroker
from moldau.controller.cluster_state import ClusterState
from moldau.controller.loading import load_brokers, load_configs
from moldau.controller.reassignment import Move
from moldau.engine.timers import Timers
from moldau.metadata import paths
from moldau.metadata.node_watches import NodeWatches
from moldau.metadata.store import Delete, MetadataStore, NodeExists, NoNode, StoreError, Watch
from moldau.model.errors import ApiError
from moldau.model.names import NO_TOPIC_ID, TopicId, TopicPartition

log = logging.getLogger("kafka.controller.KafkaController")

RETRY_MS = 200
TOPIC_NODES = "the nodes of topics"
"""In the place of a path: they are many, and only those that changed are read."""


class Term(Protocol):
    """The controller's time in office."""

    @property
    def state(self) -> ClusterState: ...

    def submit(self, command: object) -> Awaitable[object]: ...


class TreeEvents:
    def __init__(
        self,
        store: MetadataStore,
        term: Term,
        *,
        timers: Timers,
        draw_id: Callable[[], TopicId],
        deletion_is_enabled: Callable[[], bool],
    ) -> None:
        self._store = store
        self._term = term
        self._timers = timers
        self._draw_id = draw_id
        self._deletion_is_enabled = deletion_is_enabled
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
                log.warning("%s could not be read and is read again: %s", path, fault)
                self._unread[path] = None
                await self._timers.pause(RETRY_MS)
            except (ValueError, KeyError, TypeError) as fault:
                log.error("%s holds something that cannot be read: %r", path, fault)
            except ApiError:
                return  # the term is over

    async def _read_brokers(self) -> None:
        ids = await self._store.children(paths.BROKER_IDS)
        self._brokers.keep(paths.broker_path(int(broker)) for broker in ids)
        nodes, epochs = await load_brokers(self._store)
        live = {b: LiveBroker(node, epochs[b]) for b, node in nodes.items()}
        await self._term.submit(commands.ChangeBrokers(live))

    async def _read_topics(self) -> None:
        # What was known before the read is not news, though it may have gone while we read.
        known = set(self._term.state.cluster.topics)
        names = await self._store.children(paths.TOPICS)
        # Whatever was written between the load and this watch is read once more.
        for path in self._topics.keep(map(paths.topic_path, names)):
            self._topic_changed(path)
        new = [name for name in names if name not in known]
        gone = tuple(sorted(known - set(names)))
        if gone:
            await self._term.submit(commands.ForgetTopics(gone))
        if not new:
            return
        nodes = await self._store.get_many([paths.topic_path(name) for name in new])
        configs = await load_configs(self._store, paths.TOPIC_CONFIGS)
        found = []
        for name, node in zip(new, nodes, strict=True):
            if node is None or not node.data or name in self._term.state.cluster.topics:
                continue
            topic = paths.decode_topic(node.data)
            is_new = topic.topic_id == NO_TOPIC_ID
            topic_id = self._draw_id() if is_new else topic.topic_id
            await lay_out_topic(self._store, name, len(topic.replicas))
            found.append(
                commands.FoundTopic(name, topic_id, topic.replicas, configs.get(name, {}), is_new)
            )
        if found:
            await self._term.submit(commands.AddFoundTopics(tuple(found)))

    def _topic_changed(self, path: str) -> None:
        self._changed_topics[path] = None
        self.look(TOPIC_NODES)

    async def _read_topic_nodes(self) -> None:
        """Old tools add partitions by writing them into the topic's node."""
        changed = list(self._changed_topics)
        nodes = await self._store.get_many(changed)
        topics = self._term.state.cluster.topics
        for path, node in zip(changed, nodes, strict=True):
            del self._changed_topics[path]
            name = path.removeprefix(f"{paths.TOPICS}/")
            if node is None or not node.data or name not in topics:
                continue
            replicas = paths.decode_topic(node.data).replicas
            if len(replicas) > len(topics[name].partitions):
                await lay_out_topic(self._store, name, len(replicas))
                await self._term.submit(commands.GrowFoundTopic(name, replicas))

    async def _read_deletions(self) -> None:
        # A node of ours that goes while we read is no news either.
        known = set(self._term.state.deleting)
        found = await self._store.children(paths.DELETE_TOPICS)
        names = tuple(name for name in found if name not in known)
        if names:
            command = commands.QueueFoundDeletions(names, self._deletion_is_enabled())
            await self._term.submit(command)

    async def _read_moves(self) -> None:
        before = self._term.state.moves_followed
        node = await self._store.get(paths.REASSIGN_PARTITIONS)
        if self._term.state.moves_followed is not before:
            self.look(paths.REASSIGN_PARTITIONS)
            return
        moves = tuple(
            Move(topic, partition, replicas)
            for (topic, partition), replicas in paths.decode_reassignment(node.data).items()
        )
        followed = self._term.state.moves_followed
        if not followed or any(TopicPartition(m.topic, m.partition) not in followed for m in moves):
            await self._term.submit(commands.FollowMoves(moves))

    async def _read_elections(self) -> None:
        node = await self._store.get(paths.PREFERRED_REPLICA_ELECTION)
        places = tuple(TopicPartition(*row) for row in paths.decode_isr_changes(node.data))
        await self._term.submit(commands.FollowElections(places))

    async def _read_isr_changes(self) -> None:
        names = await self._store.children(paths.ISR_CHANGES)
        nodes = await self._store.get_many([f"{paths.ISR_CHANGES}/{name}" for name in names])
        places = {
            TopicPartition(*row)
            for node in nodes
            if node is not None
            for row in paths.decode_isr_changes(node.data)
        }
        rows = sorted(places)
        states = await self._store.get_many([paths.partition_state_path(*row) for row in rows])
        seen = tuple(
            (place, paths.decode_partition_state(node.data), node.version)
            for place, node in zip(rows, states, strict=True)
            if node is not None
        )
        if seen:
            await self._term.submit(commands.SeeStates(seen))
        await self._remove(f"{paths.ISR_CHANGES}/{name}" for name in names)

    async def _read_log_dir_events(self) -> None:
        names = await self._store.children(paths.LOG_DIR_EVENTS)
        nodes = await self._store.get_many([f"{paths.LOG_DIR_EVENTS}/{name}" for name in names])
        brokers = {paths.decode_log_dir_event(node.data) for node in nodes if node is not None}
        if brokers:
            await self._term.submit(commands.AskForReplicas(tuple(sorted(brokers))))
        await self._remove(f"{paths.LOG_DIR_EVENTS}/{name}" for name in names)

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
