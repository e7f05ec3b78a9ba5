"""SCRAM credentials of users in the tree: read, watched and changed.

They stand in /config/users/<name>, beside quotas of the user, as Kafka 3.9 writes them. What they
hold is as good as a password's hash: no sentence here quotes any of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from moldau.cluster.tree.shared_nodes import SharedNodes
from moldau.engine.timers import Timers
from moldau.metadata import paths
from moldau.metadata.store import Create, MetadataStore, Op, Write
from moldau.metadata.unreadable_nodes import UNREADABLE
from moldau.model.clock import Clock
from moldau.model.errors import ApiError, Error
from moldau.security.sasl.scram_changes import CredentialChange
from moldau.security.sasl.scram_keys import HASHES, ScramCredential, parse_credential

log = logging.getLogger("kafka.security.CredentialProvider")

USERS = "/config/users"
DEFAULT_USER = "<default>"
Credentials = Mapping[str, ScramCredential]
"""Of one user, by mechanism."""


class UserCredentials:
    def __init__(
        self, store: MetadataStore, *, clock: Clock, timers: Timers, is_alone: bool = False
    ) -> None:
        """`is_alone`: no other broker uses the tree."""
        self._store = store
        self._users: dict[str, Credentials] = {}
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
    def users(self) -> Mapping[str, Credentials]:
        return self._users

    def find(self, name: str, mechanism: str) -> ScramCredential | None:
        return self._users.get(name, {}).get(mechanism)

    async def load(self) -> None:
        """Raises StoreError."""
        await self._nodes.watch()
        await self._read()

    async def _read(self) -> None:
        parts = await self._store.children(USERS)
        for part in parts:
            await self._look_again(part)
        for name in [name for name in self._users if paths.entity_name(name) not in parts]:
            del self._users[name]

    def start(self) -> None:
        self._nodes.start()

    async def stop(self) -> None:
        await self._nodes.stop()

    async def alter(self, changes: Sequence[CredentialChange]) -> list[ApiError | None]:
        """One user for each change; one row for each."""
        rows: list[ApiError | None] = []
        for change in changes:
            try:
                await self._update(change)
                rows.append(None)
            except ApiError as refusal:
                rows.append(refusal.kept())
        return rows

    async def _update(self, change: CredentialChange) -> None:
        part = paths.entity_name(change.user)
        await self._nodes.change(
            "the credentials of a user", lambda: self._try_update(part, change.apply)
        )

    async def _try_update(
        self, part: str, change: Callable[[Mapping[str, str]], dict[str, str]]
    ) -> None:
        path = f"{USERS}/{part}"
        node = await self._store.exists(path)
        before: Mapping[str, str] = {}
        if node is not None:
            try:
                before = paths.decode_config(node.data)
            except UNREADABLE:
                raise ApiError(
                    Error.UNKNOWN_SERVER_ERROR, f"The node {path} cannot be read"
                ) from None
        data = paths.encode_config(change(before))
        op: Op = Create(path, data) if node is None else Write(path, data, node.version)
        note = paths.encode_config_change(f"users/{part}")
        await self._nodes.write([op], paths.CONFIG_CHANGE_PREFIX, note)
        await self._look_again(part)

    async def _follow(self, note: bytes) -> None:
        try:
            entity = paths.decode_config_change(note) or ""
        except UNREADABLE:
            return  # whoever follows settings says so
        folder, _, part = entity.partition("/")
        if folder == "users" and part and "/" not in part:
            await self._look_again(part)

    async def _look_again(self, part: str) -> None:
        if part == DEFAULT_USER:
            return
        path = f"{USERS}/{part}"
        node = await self._store.exists(path)
        try:
            name = paths.name_of_entity(part)
            settings = {} if node is None else paths.decode_config(node.data)
            found = {m: parse_credential(settings[m]) for m in HASHES if m in settings}
        except UNREADABLE:
            # Not with what is in it. What was known before goes on to hold.
            log.error("The credentials in %s cannot be read and are passed over", path)
            return
        if found:
            self._users[name] = found
        else:
            self._users.pop(name, None)
