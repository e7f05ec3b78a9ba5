"""Delegation tokens in the tree: read, watched and changed, as Kafka 3.9's brokers do.

Any broker may change a token: it reads the node with its version, writes on that condition, and
leaves a note for the others. Its own view changes before the answer leaves. What a token logs in
with is derived at its first log-in: that takes milliseconds, and most tokens of a cluster are never
shown to this broker.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterable

from moldau.cluster.tree.shared_nodes import SharedNodes
from moldau.engine.timers import Timers
from moldau.metadata import token_paths as paths
from moldau.metadata.store import Create, Delete, MetadataStore, Op, StoreError, Write
from moldau.metadata.unreadable_nodes import readable
from moldau.model.clock import Clock
from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis
from moldau.security.naming.principal import Principal
from moldau.security.sasl.scram_keys import ScramCredential, make_credential
from moldau.security.sasl.scram_server import ScramAccount
from moldau.security.tokens.delegation_token import (
    DelegationToken,
    TokenRules,
    expired,
    token_mac,
    token_password,
)

log = logging.getLogger("kafka.server.DelegationTokenManagerZk")

ID_BYTES = 16
SWEPT_MAX = 1000
"""Expired tokens that one pass removes; the rest waits for the next one."""

Change = Callable[[DelegationToken], DelegationToken | None]
"""The token as it is to be, None if it is to go; raises ApiError."""


class DelegationTokens:
    def __init__(
        self,
        store: MetadataStore,
        secret: bytes,
        rules: Callable[[], TokenRules],
        *,
        clock: Clock,
        timers: Timers,
        random_bytes: Callable[[int], bytes],
        new_salt: Callable[[], bytes],
        is_alone: bool = False,
    ) -> None:
        """`is_alone`: no other broker uses the tree."""
        self._store = store
        self._secret = secret
        self._rules = rules
        self._clock = clock
        self._random_bytes = random_bytes
        self._new_salt = new_salt
        self._tokens: dict[str, DelegationToken] = {}
        self._ids_by_mac: dict[bytes, str] = {}
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        follows = {paths.CHANGES: self._follow}
        self._nodes = SharedNodes(
            store, follows, self._read, clock=clock, timers=timers, is_alone=is_alone
        )

    @property
    def tokens(self) -> Iterable[DelegationToken]:
        return self._tokens.values()

    def mac(self, token_id: str) -> bytes:
        return token_mac(self._secret, token_id)

    def account(self, token_id: str, mechanism: str) -> ScramAccount | None:
        """What the id logs in to; whoever asks looks at the expiry."""
        token = self._tokens.get(token_id)
        if token is None:
            return None
        credential = self._credentials.get((token_id, mechanism))
        if credential is None:
            password = token_password(self.mac(token_id))
            credential = make_credential(mechanism, password, self._new_salt())
            self._credentials[token_id, mechanism] = credential
        return ScramAccount(credential, token.owner.name, token.expires_at_ms)

    async def load(self) -> None:
        """Raises StoreError."""
        await self._nodes.lay_out(paths.PERSISTENT_PATHS)
        await self._nodes.watch()
        await self._read()

    async def _read(self) -> None:
        found = await self._nodes.children(paths.TOKENS)
        for name, data in found:
            self._learn(name, data)
        for gone in self._tokens.keys() - {name for name, _ in found}:
            self._forget(gone)

    def start(self) -> None:
        self._nodes.start()

    async def stop(self) -> None:
        await self._nodes.stop()

    async def create(
        self,
        owner: Principal,
        requester: Principal,
        renewers: tuple[Principal, ...],
        lifetime_ms: Millis,
    ) -> DelegationToken:
        """Raises ApiError."""
        token_id = base64.urlsafe_b64encode(self._random_bytes(ID_BYTES)).decode().rstrip("=")
        now_ms = self._clock.wall_ms()
        token = self._rules().issue(token_id, owner, requester, renewers, lifetime_ms, now_ms)
        try:
            await self._write(
                Create(paths.token_path(token_id), paths.encode_token(token)), token_id
            )
        except StoreError as fault:
            raise ApiError(Error.UNKNOWN_SERVER_ERROR, str(fault)) from fault
        self._keep(token)
        log.info("Created a delegation token: %s for owner: %s", token_id, token.owner)
        return token

    async def renew(self, mac: bytes, caller: Principal, period_ms: Millis) -> Millis:
        """The new end. Raises ApiError."""
        rules = self._rules()

        def change(token: DelegationToken) -> DelegationToken:
            return rules.renewed(token, caller, period_ms, self._clock.wall_ms())

        token = await self._update(self._id_of(mac), change)
        assert token is not None
        log.info("Delegation token renewed for token: %s for owner: %s", token.id, token.owner)
        return token.expires_at_ms

    async def expire(self, mac: bytes, caller: Principal, period_ms: Millis) -> Millis:
        """The new end. Raises ApiError."""

        def change(token: DelegationToken) -> DelegationToken | None:
            return expired(token, caller, period_ms, self._clock.wall_ms())

        token_id = self._id_of(mac)
        token = await self._update(token_id, change)
        log.info("Delegation token %s was given another end", token_id)
        return self._clock.wall_ms() if token is None else token.expires_at_ms

    async def sweep(self) -> None:
        """Take away what has expired. Every broker does; who comes later finds nothing."""
        now_ms = self._clock.wall_ms()
        due = [token for token in self._tokens.values() if token.is_expired(now_ms)]
        for token in due[:SWEPT_MAX]:
            try:
                await self._update(token.id, lambda now: None if now.is_expired(now_ms) else now)
            except ApiError as refusal:
                if refusal.error is not Error.DELEGATION_TOKEN_NOT_FOUND:
                    log.warning("An expired delegation token stays for now: %s", refusal)
                    return
                continue
            log.info("Delegation token expired for token: %s for owner: %s", token.id, token.owner)

    def _id_of(self, mac: bytes) -> str:
        token_id = self._ids_by_mac.get(mac)
        if token_id is None:
            raise ApiError(Error.DELEGATION_TOKEN_NOT_FOUND)
        return token_id

    async def _update(self, token_id: str, change: Change) -> DelegationToken | None:
        return await self._nodes.change(
            "the delegation token", lambda: self._try_update(token_id, change)
        )

    async def _try_update(self, token_id: str, change: Change) -> DelegationToken | None:
        path = paths.token_path(token_id)
        node = await self._store.exists(path)
        known = None if node is None else readable(path, node.data, paths.decode_token)
        if node is None or known is None:
            self._forget(token_id)
            raise ApiError(Error.DELEGATION_TOKEN_NOT_FOUND)
        token = change(known)
        if token != known:
            op: Op = Delete(path, node.version)
            if token is not None:
                op = Write(path, paths.encode_token(token), node.version)
            await self._write(op, token_id)
        if token is None:
            self._forget(token_id)
        else:
            self._keep(token)
        return token

    async def _write(self, op: Op, token_id: str) -> None:
        await self._nodes.write([op], paths.CHANGE_PREFIX, token_id.encode())

    async def _follow(self, note: bytes) -> None:
        token_id = note.decode("utf-8", "replace")
        if not paths.is_token_id(token_id):
            log.warning("A note about delegation tokens names none and is passed over")
            return
        node = await self._store.exists(paths.token_path(token_id))
        if node is None:
            self._forget(token_id)
        else:
            self._learn(token_id, node.data)

    def _learn(self, token_id: str, data: bytes) -> None:
        """What cannot be read is no token."""
        token = readable(paths.token_path(token_id), data, paths.decode_token)
        if token is not None and token.id == token_id:
            self._keep(token)
        else:
            self._forget(token_id)

    def _keep(self, token: DelegationToken) -> None:
        self._tokens[token.id] = token
        self._ids_by_mac[self.mac(token.id)] = token.id

    def _forget(self, token_id: str) -> None:
        if self._tokens.pop(token_id, None) is None:
            return
        del self._ids_by_mac[self.mac(token_id)]
        for key in [key for key in self._credentials if key[0] == token_id]:
            del self._credentials[key]
