"""Quotas of users, client ids and addresses in the tree: read, watched and changed, as by Kafka
3.9's brokers.

Any broker may change them: it reads the node with its version, writes on that condition, and
leaves a note for the others. Its own view changes before the answer leaves. An entity that has
nothing left goes from the tree.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from moldau.cluster.tree.shared_nodes import SharedNodes
from moldau.engine.timers import Timers
from moldau.metadata import paths, quota_paths
from moldau.metadata.store import Create, Delete, MetadataStore, NoNode, Op, Write
from moldau.metadata.unreadable_nodes import UNREADABLE, readable
from moldau.model.clock import Clock
from moldau.model.errors import ApiError, Error
from moldau.security.quotas.quota_changes import QuotaChange
from moldau.security.quotas.quota_entities import QuotaEntity, parse_values
from moldau.security.quotas.quota_filters import Quotas

log = logging.getLogger("kafka.server.ZkConfigManager")

ASKED_AT_ONCE = 500

Changed = Callable[[Quotas], None]
LookUp = Callable[[Iterable[str]], Awaitable[Mapping[str, Sequence[str]]]]
"""The addresses of hosts, by name."""


class ClientQuotas:
    def __init__(
        self,
        store: MetadataStore,
        *,
        clock: Clock,
        timers: Timers,
        changed: Changed,
        look_up: LookUp,
        is_alone: bool = False,
    ) -> None:
        """`is_alone`: no other broker uses the tree."""
        self._store = store
        self._changed = changed
        self._look_up = look_up
        self._quotas: dict[QuotaEntity, Mapping[str, float]] = {}
        # Notes about settings are everybody's; those who follow settings clear them away.
        self._nodes = SharedNodes(
            store,
            {paths.CONFIG_CHANGES: self._follow},
            self._read,
            clock=clock,
            timers=timers,
            is_alone=is_alone,
            clears=False,
        )

    @property
    def quotas(self) -> Quotas:
        return self._quotas

    async def load(self) -> None:
        """Raises StoreError."""
        await self._nodes.watch()
        await self._read()

    async def _read(self) -> None:
        found: list[str] = []
        for folder in quota_paths.FOLDERS:
            names = await self._children(folder)
            found += [f"{folder}/{name}" for name in names]
        users = [path for path in found if path.startswith(f"{quota_paths.USERS}/")]
        for first in range(0, len(users), ASKED_AT_ONCE):
            some = [_parts_of(user).clients for user in users[first : first + ASKED_AT_ONCE]]
            rows = await asyncio.gather(*map(self._children, some))
            found += [
                f"{place}/{n}" for place, names in zip(some, rows, strict=True) for n in names
            ]
        nodes = await self._store.get_many([quota_paths.node_path(path) for path in found])
        for path, node in zip(found, nodes, strict=True):
            self._learn(path, b"" if node is None else node.data)
        there = set(found)
        for entity in [e for e in self._quotas if quota_paths.entity_path(e) not in there]:
            del self._quotas[entity]
        self._changed(dict(self._quotas))

    def start(self) -> None:
        self._nodes.start()

    async def stop(self) -> None:
        await self._nodes.stop()

    async def unknown_hosts(self, names: Iterable[str]) -> frozenset[str]:
        """Those that are no address and no name that anybody knows."""
        found = await self._look_up(names)
        return frozenset(name for name, addresses in found.items() if not addresses)

    async def alter(self, changes: Sequence[QuotaChange]) -> list[ApiError | None]:
        """One row for each."""
        rows: list[ApiError | None] = []
        for change in changes:
            try:
                await self._update(change)
                rows.append(None)
            except ApiError as refusal:
                rows.append(refusal.kept())
        return rows

    async def _update(self, change: QuotaChange) -> None:
        fault = quota_paths.name_fault(change.entity)
        if fault is not None:
            raise ApiError(Error.INVALID_REQUEST, fault)
        path = quota_paths.entity_path(change.entity)
        try:
            await self._nodes.change(
                f"the quotas of {path}", lambda: self._try_update(path, change)
            )
        except ApiError as refusal:
            log.error("The quotas of %s were not changed: %s", path, refusal)
            raise

    async def _try_update(self, path: str, change: QuotaChange) -> None:
        place = quota_paths.node_path(path)
        node = await self._store.exists(place)
        before: Mapping[str, str] = {}
        if node is not None:
            known = readable(place, node.data, paths.decode_config)
            if known is None:
                sentence = f"The node {place} cannot be read"
                raise ApiError(Error.UNKNOWN_SERVER_ERROR, sentence)
            before = known
        after = change.apply(before)
        ops: list[Op]
        if node is None:
            if not after:
                return
            ops = [Create(each) for each in await self._missing_parents(path)]
            ops.append(Create(place, paths.encode_config(after)))
        elif after or await self._children(f"{path}/{quota_paths.CLIENTS}"):
            ops = [Write(place, paths.encode_config(after), node.version)]
        else:
            ops = await self._removal(path, node.version)
        note = paths.encode_config_change(path)
        await self._nodes.write(ops, paths.CONFIG_CHANGE_PREFIX, note)
        await self._look_again(path)

    async def _missing_parents(self, path: str) -> list[str]:
        places = [quota_paths.node_path(each) for each in quota_paths.parents_of(path)]
        return [place for place in places if await self._store.exists(place) is None]

    async def _removal(self, path: str, version: int) -> list[Op]:
        """Takes away what nothing is left of: the node, and around it what only it kept there."""
        ops: list[Op] = [Delete(quota_paths.node_path(path), version)]
        user, clients, client = _parts_of(path)
        folder = quota_paths.node_path(clients)
        if client is None:
            if await self._store.exists(folder) is not None:
                ops.insert(0, Delete(folder))
        elif await self._children(clients) == [client]:
            ops.append(Delete(folder))
            node = await self._store.exists(quota_paths.node_path(user))
            if node is not None and readable(user, node.data, paths.decode_config) == {}:
                ops.append(Delete(quota_paths.node_path(user), node.version))
        return ops

    async def _children(self, path: str) -> list[str]:
        try:
            return await self._store.children(quota_paths.node_path(path))
        except NoNode:
            return []

    async def _follow(self, note: bytes) -> None:
        try:
            path = paths.decode_config_change(note) or ""
        except UNREADABLE:
            return  # whoever follows settings says so
        await self._look_again(path)

    async def _look_again(self, path: str) -> None:
        """Nothing is done for the path of anything else."""
        try:
            entity = quota_paths.entity_at(path)
        except UNREADABLE:
            return
        if entity is None:
            return
        path = quota_paths.entity_path(entity)
        node = await self._store.exists(quota_paths.node_path(path))
        if self._learn(path, b"" if node is None else node.data):
            self._changed(dict(self._quotas))

    def _learn(self, path: str, data: bytes) -> bool:
        """Whether there is news. What cannot be read leaves what was known."""

        def decode(data: bytes) -> tuple[QuotaEntity | None, dict[str, float]]:
            entity = quota_paths.entity_at(path)
            settings = paths.decode_config(data)
            return entity, {} if entity is None else parse_values(entity, settings)

        found = readable(quota_paths.node_path(path), data, decode)
        if found is None or found[0] is None:
            return False
        entity, values = found
        assert entity is not None
        before = self._quotas.get(entity, {})
        if values:
            self._quotas[entity] = values
        else:
            self._quotas.pop(entity, None)
        return values != before


class _Parts(NamedTuple):
    user: str
    clients: str
    """Where the pairs of the user stand."""
    client: str | None


def _parts_of(path: str) -> _Parts:
    parts = path.split("/")
    user = "/".join(parts[:2])
    return _Parts(user, f"{user}/{quota_paths.CLIENTS}", parts[3] if len(parts) > 3 else None)
