"""Settings of topics, brokers, groups and subscriptions as the tree has them, and their changes.

Whoever changes settings leaves a numbered note under /config/changes; every broker reads the notes
it has not seen and the settings that they name. Old notes are cleared away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from moldau.cluster.tree.tree_follower import RETRY_MS, TreeFollower
from moldau.cluster.tree.tree_loading import UNREADABLE_SETTINGS, load_configs
from moldau.controller.controller_facts import ConfigKind
from moldau.engine.timers import Timers
from moldau.metadata import paths
from moldau.metadata.store import MetadataStore, NoNode, StoreError
from moldau.metadata.unreadable_nodes import readable
from moldau.model.clock import Clock
from moldau.model.names import Millis

log = logging.getLogger("kafka.server.ZkConfigManager")

NOTES_KEPT = 1_000
NOTES_KEPT_MS = 15 * 60 * 1000

Changed = Callable[[ConfigKind, str, dict[str, str]], None]


class ConfigWatch:
    def __init__(
        self, store: MetadataStore, clock: Clock, timers: Timers, changed: Changed
    ) -> None:
        self._store = store
        self._clock = clock
        self._timers = timers
        self._notes = TreeFollower(store, timers, self._read_notes, _unreadable)
        self._changed = changed
        self._last_seen = self._note = ""
        self._listed: frozenset[str] = frozenset()
        self._seen_at: dict[str, Millis] = {}
        """When this broker first saw each note that is still there."""
        self._is_stopped = False

    async def load(self) -> dict[str, Any]:
        """Everything, as arguments of `ClusterView.with_configs`."""
        self._notes.watch(paths.CONFIG_CHANGES)
        notes = await self._store.children(paths.CONFIG_CHANGES)
        self._last_seen = notes[-1] if notes else ""
        store = self._store
        self._listed = frozenset(await store.children(paths.TOPIC_CONFIGS))
        return {
            "topic_configs": await load_configs(store, paths.TOPIC_CONFIGS),
            "broker_configs": await load_configs(store, paths.BROKER_CONFIGS, keep_empty=True),
            "group_configs": await load_configs(store, paths.GROUP_CONFIGS),
            "client_metrics": await load_configs(store, paths.CLIENT_METRICS),
        }

    async def topics(self, names: Collection[str]) -> Mapping[str, dict[str, str]]:
        wanted = sorted(names)
        nodes = await self._store.get_many([paths.topic_config_path(name) for name in wanted])
        return {
            name: {} if node is None else _of_topic(name, node.data)
            for name, node in zip(wanted, nodes, strict=True)
        }

    async def topics_since(self) -> set[str]:
        """Those that were made after all was loaded: no note tells of them. Each is told once."""
        names = await self._store.children(paths.TOPIC_CONFIGS)
        late, self._listed = set(names) - self._listed, frozenset(names)
        return late

    def start(self) -> None:
        self._notes.start(self._ended)

    def _ended(self, reading: asyncio.Task[None]) -> None:
        """Whatever one note has brought about, the next ones are read."""
        fault = None if reading.cancelled() else reading.exception()
        if fault is not None:
            text = "The note %s about settings is passed over, it could not be followed"
            log.error(text, self._note, exc_info=fault)
            self._last_seen = max(self._last_seen, self._note)
            self._timers.after(RETRY_MS, self._start_again)

    def _start_again(self) -> None:
        if not self._is_stopped:
            self.start()

    async def stop(self) -> None:
        self._is_stopped = True
        await self._notes.stop()

    async def _read_notes(self) -> None:
        names = await self._store.children(paths.CONFIG_CHANGES)
        for name in names:
            if name > self._last_seen:
                self._note = name
                await self._read_note(name)
                self._last_seen = name
        for name in self._old(names):
            try:
                await self._store.delete(f"{paths.CONFIG_CHANGES}/{name}")
            except NoNode:
                continue

    def _old(self, names: Sequence[str]) -> list[str]:
        """Everybody has seen them long ago. As with Kafka's brokers, news are the occasion to clear
        away."""
        now_ms = self._clock.monotonic_ms()
        self._seen_at = {name: self._seen_at.get(name, now_ms) for name in names}
        first_kept = max(0, len(names) - NOTES_KEPT)
        return [
            name
            for number, name in enumerate(names)
            if number < first_kept or now_ms - self._seen_at[name] > NOTES_KEPT_MS
        ]

    async def _read_note(self, name: str) -> None:
        path = f"{paths.CONFIG_CHANGES}/{name}"
        note = await self._store.exists(path)
        entity = note and readable(path, note.data, paths.decode_config_change)
        folder, _, part = (entity or "").partition("/")
        kind = next((kind for kind in ConfigKind if kind.value == folder), None)
        if kind is None or not part:
            return
        path = paths.config_path(f"{folder}/{part}")
        decoded = part if kind.is_plain else readable(path, part.encode(), _name_of_entity)
        node = await self._store.exists(path)
        overrides = {} if node is None else readable(path, node.data, paths.decode_config)
        if overrides is None or decoded is None:
            return  # what was known before goes on to hold
        log.info("Processing override for entityPath: %s with config: %s", entity, list(overrides))
        self._changed(kind, decoded, overrides)


def _unreadable(fault: StoreError) -> None:
    log.warning("Changes of settings could not be read yet: %s", fault)


def _of_topic(name: str, data: bytes) -> dict[str, str]:
    found = readable(paths.topic_config_path(name), data, paths.decode_config)
    return dict(UNREADABLE_SETTINGS) if found is None else found


def _name_of_entity(part: bytes) -> str:
    return paths.name_of_entity(part.decode())
