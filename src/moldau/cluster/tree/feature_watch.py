"""The levels of the cluster's features, as far as a cluster on ZooKeeper can have any.

Transactions of version 2 (KIP-890) need every broker: one of Apache Kafka 3.9 does not know them,
and would not even start on a cluster that had them written down in /feature. So nothing is written
down. Every broker says at its registration what it can do, and each of Moldau's looks whom there
is: while all of them can, the level is up, and it is down as soon as one comes that cannot.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from moldau.cluster.tree.tree_follower import TreeFollower
from moldau.controller.rules.feature_rules import FEATURES
from moldau.engine.timers import Timers
from moldau.metadata import paths
from moldau.metadata.store import MetadataStore, StoreError
from moldau.metadata.unreadable_nodes import readable

log = logging.getLogger(__name__)

Changed = Callable[[dict[str, int], int], None]
"""Levels, and the epoch that says which of two answers is the newer one."""


class FeatureWatch:
    def __init__(self, store: MetadataStore, timers: Timers, changed: Changed) -> None:
        self._store = store
        self._brokers = TreeFollower(store, timers, self._look, _unreadable)
        self._changed = changed
        self._levels: dict[str, int] = {}

    async def load(self) -> None:
        """What is written down: before this broker is registered it is not for it to say more."""
        node = await self._store.exists(paths.FEATURE)
        written = None if node is None else readable(paths.FEATURE, node.data, paths.decode_feature)
        self._levels = {feature.name: 0 for feature in FEATURES} | (written or {})
        self._changed(self._levels, 0 if node is None else node.version)

    def start(self) -> None:
        self._brokers.watch(paths.BROKER_IDS)
        self._brokers.start(_ended)

    async def stop(self) -> None:
        await self._brokers.stop()

    async def _look(self) -> None:
        # Numbered before it is read: a later answer of any broker has a higher number.
        epoch = await self._store.transaction()
        ids = await self._store.children(paths.BROKER_IDS)
        registered = [f"{paths.BROKER_IDS}/{name}" for name in ids]
        nodes = await self._store.get_many(registered)
        abilities = [
            readable(path, node.data, paths.decode_broker_features) or {}
            for path, node in zip(registered, nodes, strict=True)
            # Gone since a moment ago: there is news about it.
            if node is not None
        ]
        levels = dict(self._levels)
        for feature, level in paths.BROKER_FEATURES.items():
            if abilities and all(each.get(feature, 0) >= level for each in abilities):
                levels[feature] = max(level, levels.get(feature, 0))
        self._changed(levels, epoch)


def _unreadable(fault: StoreError) -> None:
    log.warning("Who is in the cluster could not be read yet: %s", fault)


def _ended(reading: asyncio.Task[None]) -> None:
    fault = None if reading.cancelled() else reading.exception()
    if fault is not None:
        log.error("The levels of features are no longer followed", exc_info=fault)
