"""The access control lists in the tree: read, watched and changed, as Kafka's AclAuthorizer does.

Any broker may change a list: it reads the node with its version, writes on that condition, and
leaves a note for the others. Its own view changes before the answer leaves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from moldau.cluster.tree.shared_nodes import SharedNodes
from moldau.engine.timers import Timers
from moldau.metadata import acl_paths as paths
from moldau.metadata.store import Create, Delete, MetadataStore, Op, StoreError, Write
from moldau.metadata.unreadable_nodes import readable
from moldau.model.clock import Clock
from moldau.model.errors import ApiError, Error
from moldau.security.acl.acl_filters import AclFilter
from moldau.security.acl.acl_model import Acl, Entry, ResourcePattern, fault_of
from moldau.security.acl.acl_store import Acls

log = logging.getLogger("kafka.security.authorizer.AclAuthorizer")

UNREADABLE_LIST = "this access control list cannot be read"

Changed = Callable[[Acls], None]
Change = Callable[[frozenset[Entry]], frozenset[Entry]]


class AccessLists:
    def __init__(
        self,
        store: MetadataStore,
        *,
        clock: Clock,
        timers: Timers,
        changed: Changed,
        is_alone: bool = False,
    ) -> None:
        """`is_alone`: no other broker uses the tree."""
        self._store = store
        self._changed = changed
        self.acls = Acls()
        follows = {
            paths.LITERAL_CHANGES: self._follow_literal,
            paths.PREFIXED_CHANGES: self._follow_prefixed,
        }
        self._nodes = SharedNodes(
            store, follows, self._read, clock=clock, timers=timers, is_alone=is_alone
        )

    async def load(self) -> None:
        """Raises StoreError, also for a list that cannot be read: it may hold a denial."""
        await self._nodes.lay_out(paths.PERSISTENT_PATHS)
        await self._nodes.watch()
        await self._read()

    async def _read(self) -> None:
        found: dict[ResourcePattern, frozenset[Entry]] = {}
        for pattern, kind, folder in paths.FOLDERS:
            for name, data in await self._nodes.children(folder):
                entries = readable(f"{folder}/{name}", data, paths.decode_entries)
                if entries is None:
                    raise StoreError(f"{folder}/{name}", UNREADABLE_LIST)
                found[ResourcePattern(kind, name, pattern)] = entries
        self._replace(Acls(found))

    def start(self) -> None:
        self._nodes.start()

    async def stop(self) -> None:
        await self._nodes.stop()

    async def create(self, acls: Sequence[Acl]) -> list[ApiError | None]:
        """One row for each; a resource is written once."""
        rows: list[ApiError | None] = [_refusal(acl) for acl in acls]
        wanted: dict[ResourcePattern, list[int]] = {}
        for number, acl in enumerate(acls):
            if rows[number] is None:
                wanted.setdefault(acl.resource, []).append(number)
        for resource, numbers in wanted.items():
            entries = {acls[number].entry for number in numbers}
            try:
                await self._update(resource, frozenset(entries).union)
            except ApiError as refusal:
                for number in numbers:
                    rows[number] = refusal.kept()
        return rows

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[Acl] | ApiError]:
        """For each filter what went because of it, or why it cannot be used."""
        rows: list[list[Acl] | ApiError] = []
        matching: dict[ResourcePattern, set[Entry]] = {}
        for asked in filters:
            fault = asked.fault
            if fault is not None:
                rows.append(ApiError(Error.INVALID_REQUEST, fault))
                continue
            found = [acl for acl in self.acls if asked.matches(acl)]
            rows.append(found)
            for acl in found:
                matching.setdefault(acl.resource, set()).add(acl.entry)
        for resource, entries in matching.items():
            await self._update(resource, partial(_without, frozenset(entries)))
        return rows

    async def _update(self, resource: ResourcePattern, change: Change) -> None:
        """Raises ApiError."""
        path = paths.acl_path(resource)
        try:
            entries = await self._nodes.change(
                f"ACLs for {resource}", lambda: self._try_update(resource, path, change)
            )
        except ApiError as refusal:
            log.error("The access control list of %s was not changed: %s", resource, refusal)
            raise
        self._replace(self.acls.with_entries(resource, entries))

    async def _try_update(
        self, resource: ResourcePattern, path: str, change: Change
    ) -> frozenset[Entry]:
        node = await self._store.exists(path)
        known = frozenset() if node is None else readable(path, node.data, paths.decode_entries)
        if known is None:
            raise StoreError(path, UNREADABLE_LIST)
        entries = change(known)
        if entries == known:
            return entries
        ops: list[Op]
        if node is None:
            ops = [Create(path, paths.encode_entries(entries))]
        elif entries:
            ops = [Write(path, paths.encode_entries(entries), node.version)]
        else:
            ops = [Delete(path, node.version)]
        await self._nodes.write(ops, *paths.change_note(resource))
        return entries

    async def _follow_literal(self, note: bytes) -> None:
        found = readable(paths.LITERAL_CHANGES, note, paths.decode_literal_note)
        if found is not None:
            await self._look_again(found)

    async def _follow_prefixed(self, note: bytes) -> None:
        found = readable(paths.PREFIXED_CHANGES, note, paths.decode_prefixed_note)
        if found is not None:
            await self._look_again(found)

    async def _look_again(self, resource: ResourcePattern) -> None:
        path = paths.acl_path(resource)
        node = await self._store.exists(path)
        entries = frozenset() if node is None else readable(path, node.data, paths.decode_entries)
        if entries is not None and entries != self.acls.entries(resource):
            self._replace(self.acls.with_entries(resource, entries))
            log.info("Processed the change of the access control list of %s", resource)

    def _replace(self, acls: Acls) -> None:
        self.acls = acls
        self._changed(acls)


def _without(gone: frozenset[Entry], known: frozenset[Entry]) -> frozenset[Entry]:
    return known - gone


def _refusal(acl: Acl) -> ApiError | None:
    fault = fault_of(acl) or paths.name_fault(acl.resource.name)
    return None if fault is None else ApiError(Error.INVALID_REQUEST, fault)


def matching(acls: Iterable[Acl], asked: AclFilter) -> dict[ResourcePattern, list[Entry]]:
    """By resource, in a steady order."""
    found: dict[ResourcePattern, list[Entry]] = {}
    for acl in sorted(acls):
        if asked.matches(acl):
            found.setdefault(acl.resource, []).append(acl.entry)
    return found
