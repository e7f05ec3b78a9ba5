"""The znode tree in a real ZooKeeper, through kazoo.

kazoo talks to the ensemble on threads of its own; here every call becomes a future of the loop, and
every call has a time-out, because a session that nobody answers would otherwise keep its caller for
ever. kazoo's watches fire once: they are set again before the listener is told, so that whatever
changes after the listener has looked is told again. When a session is lost, kazoo starts a new one
by itself; the ephemeral nodes of the old one are for their owner to make again. A connection of
kazoo's that has died (it does of an answer that it did not expect) is started anew here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from moldau.metadata.store import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    SessionState,
    StoreError,
    StoreUnavailable,
    Write,
)
from moldau.metadata.watch_registry import Watches, WatchHandle
from moldau.metadata.znode_tree import check_path
from moldau.metadata.zookeeper_access import ZooKeeperAccess, acls_of, new_client
from moldau.metrics.zookeeper_cells import ZooKeeperCells

if TYPE_CHECKING:
    from kazoo.client import KazooClient

log = logging.getLogger("kafka.zookeeper.ZooKeeperClient")

CALLS_IN_FLIGHT_MAX = 100_000
ENDED = ("CLOSED", "AUTH_FAILED")
"""What kazoo calls a client that does nothing any more: it was stopped or refused, or its thread
has died."""
REVIVAL_PAUSE_SECONDS = 0.5
CONNECTION_POLL_SECONDS = 0.1
REFUSED = "ZooKeeper does not let this broker in: check its user and password"
NOTHING = b""
"""Written as a node without data, which `get` of ZooKeeper's shell shows as null."""


class ZooKeeperStore:
    def __init__(self, access: ZooKeeperAccess) -> None:
        self._access = access
        self._client: KazooClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watches = Watches()
        self._listeners: list[Callable[[SessionState], None]] = []
        self._unanswered = 0
        self._is_closed = False
        self.cells = ZooKeeperCells()
        self._reviving: asyncio.Future[object] | None = None

    @property
    def session_id(self) -> int:
        client_id = None if self._client is None else self._client.client_id
        return 0 if client_id is None else int(client_id[0])

    # The session

    async def open(self) -> None:
        """Connect, log in, and make the chroot if there is none. Raises StoreError."""
        loop = self._loop = asyncio.get_running_loop()
        access = self._access
        client = self._client = new_client(access)
        connected = asyncio.Event()
        client.add_listener(lambda state: self._from_kazoo(self._state_changed, state, connected))
        log.info("[ZooKeeperClient Kafka server] Initializing a new session to %s.", access.connect)
        client.start_async()
        try:
            async with asyncio.timeout(access.connection_timeout_ms / 1000):
                await connected.wait()
                await self._until_let_in()
            log.info("[ZooKeeperClient Kafka server] Connected.")
            if client.chroot:
                await loop.run_in_executor(None, self._make_chroot, client)
        except TimeoutError:
            await self.close()
            raise StoreUnavailable(access.connect, self._silence(client)) from None
        except StoreError:
            await self.close()
            raise

    async def _until_let_in(self) -> None:
        """kazoo calls itself connected before it has logged in."""
        while True:
            try:
                await self._call("exists_async", "/")
                return
            except StoreUnavailable:
                await asyncio.sleep(CONNECTION_POLL_SECONDS)

    def _silence(self, client: KazooClient) -> str:
        waited = f"waited {self._access.connection_timeout_ms} ms"
        fault = client.handler.last_fault
        reason = f"ZooKeeper does not answer; {waited} (zookeeper.connection.timeout.ms)"
        if not fault and self._access.tls is not None:
            fault = "encrypted connections break off; it may want to see a certificate of this "
            fault += "broker (zookeeper.ssl.keystore.location)"
        return f"{reason}; the last try: {fault}" if fault else reason

    def on_session(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        client = self._client
        if client is not None:
            assert self._loop is not None
            if self._reviving is not None:
                await asyncio.wait((self._reviving,))
            await self._loop.run_in_executor(None, _stop, client)

    def _make_chroot(self, client: KazooClient) -> None:
        from kazoo.exceptions import KazooException, NodeExistsError

        chroot, client.chroot = client.chroot, ""
        try:
            client.create(chroot, None, acl=self._acls(chroot), makepath=True)
        except NodeExistsError:
            return
        except KazooException as refusal:
            raise _told(refusal, chroot) from refusal
        finally:
            client.chroot = chroot

    def _state_changed(self, state: str, connected: asyncio.Event) -> None:
        if self._is_closed:
            return
        first = not connected.is_set()
        self.cells.state = state
        match state:
            case "CONNECTED":
                self.cells.connects += 1
                connected.set()
                if first:
                    return
                self._tell_session(SessionState.CONNECTED)
                for path in self._watches.paths():
                    self._set_watch(path)
                self._watches.tell_all()
            case "SUSPENDED":
                self.cells.disconnects += 1
                log.warning("[ZooKeeperClient Kafka server] Disconnected from ZooKeeper.")
                self._tell_session(SessionState.SUSPENDED)
            case "LOST" if not first:
                self.cells.expiries += 1
                log.warning("[ZooKeeperClient Kafka server] Session expired.")
                self._tell_session(SessionState.EXPIRED)
                self._revive_later()

    def _revive_later(self) -> None:
        """kazoo begins another session by itself, unless its thread is gone."""
        assert self._client is not None and self._loop is not None
        if self._client.client_state in ENDED:
            reason = self._client.handler.last_fault or "by itself"
            log.warning("[ZooKeeperClient Kafka server] The connection has ended: %s", reason)
            self._loop.call_later(REVIVAL_PAUSE_SECONDS, self._revive)

    def _revive(self) -> None:
        if not self._is_closed:
            assert self._client is not None and self._loop is not None
            log.info("[ZooKeeperClient Kafka server] Initializing a new session.")
            self._reviving = self._loop.run_in_executor(None, self._client.start_async)
            self._reviving.add_done_callback(self._revived)

    def _revived(self, outcome: asyncio.Future[object]) -> None:
        assert self._loop is not None
        if (fault := outcome.exception()) is not None:
            log.error("[ZooKeeperClient Kafka server] No new session yet: %s", fault)
            self._loop.call_later(REVIVAL_PAUSE_SECONDS, self._revive)

    def _tell_session(self, state: SessionState) -> None:
        for listener in tuple(self._listeners):
            listener(state)

    def _from_kazoo(self, call: Callable[..., None], *arguments: object) -> None:
        """From one of kazoo's threads to the loop; when the loop has ended nobody listens."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    # Calls

    async def get(self, path: str) -> Node:
        data, stat = await self._call("get_async", path)
        return Node(data or NOTHING, stat.version, stat.czxid)

    async def exists(self, path: str) -> Node | None:
        try:
            return await self.get(path)
        except NoNode:
            return None

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        calls = [self._start("get_async", path) for path in paths]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        nodes: list[Node | None] = []
        for answer in answers:
            if isinstance(answer, NoNode):
                nodes.append(None)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                nodes.append(Node(answer[0] or NOTHING, answer[1].version, answer[1].czxid))
        return nodes

    async def children(self, path: str) -> list[str]:
        return sorted(await self._call("get_children_async", path))

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        check_path(path)
        made = await self._call(
            "create_async",
            path,
            data or None,
            acl=self._acls(path),
            ephemeral=ephemeral,
            sequence=sequential,
        )
        return str(made)

    async def set_if_version(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        stat = await self._call("set_async", path, data, version, expected=version)
        return int(stat.version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._call("delete_async", path, version, expected=version)

    async def multi(self, ops: Iterable[Op]) -> list[str | int | None]:
        listed = list(ops)
        if not listed:
            return []
        assert self._client is not None
        transaction = self._client.transaction()
        for op in listed:
            self._add(transaction, op)
        results = await self._bridged(transaction.commit_async, listed[0].path, None)
        return _results_of(listed, results)

    def _add(self, transaction: Any, op: Op) -> None:
        match op:
            case Create(path, data, ephemeral, sequential):
                transaction.create(path, data, self._acls(path), ephemeral, sequential)
                if not data:
                    # kazoo wants bytes here, the tree can also hold none at all.
                    transaction.operations[-1] = transaction.operations[-1]._replace(data=None)
            case Write(path, data, version):
                transaction.set_data(path, data, version)
            case Delete(path, version):
                transaction.delete(path, version)
            case Check(path, version):
                transaction.check(path, version)

    def _acls(self, path: str) -> Any:
        return acls_of(path, is_protected=self._access.protects_nodes)

    async def transaction(self) -> int:
        assert self._client is not None
        await self._call("exists_async", "/")
        return int(self._client.last_zxid)

    def watch(self, path: str, listener: Callable[[str], None]) -> WatchHandle:
        handle = self._watches.add(path, listener)
        self._set_watch(path)
        return handle

    def _set_watch(self, path: str) -> None:
        """For the node and for its children: one that is not there yet has only the first."""
        assert self._client is not None
        for name in ("exists_async", "get_children_async"):
            # One and the same function each time: kazoo keeps a set of them for every path, and a
            # node that goes fires both of its watches.
            future = self._start(name, path, watch=self._told)
            future.add_done_callback(_look)

    def _told(self, event: Any) -> None:
        # Without a path it only says that the connection is gone; all are set again then.
        if event.path is not None:
            self._from_kazoo(self._fired, event.path)

    def _fired(self, path: str) -> None:
        if self._is_closed or path not in self._watches.paths():
            return
        self._set_watch(path)
        self._watches.tell([path])

    async def _call(self, name: str, path: str, *rest: object, **named: Any) -> Any:
        return await self._start(name, path, *rest, **named)

    def _start(
        self, name: str, path: str, *rest: object, expected: int | None = None, **named: Any
    ) -> asyncio.Future[Any]:
        call = getattr(self._client, name)
        return self._bridged(lambda: call(path, *rest, **named), path, expected)

    def _bridged(
        self, start: Callable[[], Any], path: str, expected: int | None
    ) -> asyncio.Future[Any]:
        """Calls go out in the order in which this is called."""
        assert self._loop is not None
        loop = self._loop
        future: asyncio.Future[Any] = loop.create_future()
        if self._is_closed or self._unanswered >= CALLS_IN_FLIGHT_MAX:
            reason = "the session is closed" if self._is_closed else "too many calls wait"
            future.set_exception(StoreUnavailable(path, reason))
            return future
        self._unanswered += 1
        began_ns = time.perf_counter_ns()
        timeout_s = (self._access.session_timeout_ms + self._access.connection_timeout_ms) / 1000
        timer = loop.call_later(timeout_s, _give_up, future, path, timeout_s)

        def answered(result: Any) -> None:
            timer.cancel()
            self._unanswered -= 1
            self.cells.latency.add(time.perf_counter_ns() - began_ns)
            if not future.done():
                _settle(future, result, path, expected)

        start().rawlink(lambda result: self._from_kazoo(answered, result))
        return future


def _stop(client: KazooClient) -> None:
    client.stop()
    client.close()


def _results_of(ops: Sequence[Op], results: Sequence[Any]) -> list[str | int | None]:
    from kazoo.exceptions import RolledBackError, RuntimeInconsistency

    refusals = [
        (op, result)
        for op, result in zip(ops, results, strict=True)
        if isinstance(result, Exception)
        and not isinstance(result, RolledBackError | RuntimeInconsistency)
    ]
    if refusals:
        op, refusal = refusals[0]
        expected = None if isinstance(op, Create) else op.version
        raise _told(refusal, op.path, expected) from refusal
    answers: list[str | int | None] = []
    for op, result in zip(ops, results, strict=True):
        if isinstance(op, Create):
            answers.append(str(result))
        else:
            answers.append(result.version if isinstance(op, Write) else None)
    return answers


def _settle(future: asyncio.Future[Any], result: Any, path: str, expected: int | None) -> None:
    if result.successful():
        future.set_result(result.value)
    elif isinstance(result.exception, Exception):
        future.set_exception(_told(result.exception, path, expected))
    else:
        future.set_exception(StoreUnavailable(path, "the call was given up"))


def _give_up(future: asyncio.Future[Any], path: str, timeout_s: float) -> None:
    if not future.done():
        future.set_exception(StoreUnavailable(path, f"no answer for {timeout_s:g} s"))


def _look(future: asyncio.Future[Any]) -> None:
    """Of a watch: without a node there are no children, without a connection it is set later."""
    if not future.cancelled():
        future.exception()


def _told(refusal: Exception, path: str, expected: int | None = None) -> StoreError:
    """In the words of the port."""
    from kazoo import exceptions

    match refusal:
        case exceptions.NoNodeError():
            return NoNode(path)
        case exceptions.NodeExistsError():
            return NodeExists(path)
        case exceptions.BadVersionError():
            return BadVersion(path, ANY_VERSION if expected is None else expected)
        case exceptions.NotEmptyError():
            return NotEmpty(path)
        case exceptions.NoChildrenForEphemeralsError():
            return NoChildrenForEphemerals(path)
        case exceptions.NoAuthError() | exceptions.AuthFailedError():
            return StoreError(path, REFUSED)
    reason = str(refusal) or type(refusal).__name__
    return StoreUnavailable(path, f"ZooKeeper did not answer: {reason}")
