"""All connections of one client: brokers by id, opened when first needed, opened again when lost.

A broker that cannot be reached is left alone for a while, longer each time and never for exactly
as long as another client would (reconnect.backoff.ms up to .max.ms, jitter of a fifth). Bootstrap
addresses are nodes -1, -2 and so on until the cluster's metadata names the real ones. A group
coordinator is called under an id of its own (`coordinator_node`), so that heartbeats do not queue
behind a fetch that waits for data.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.client.network.broker_connection import IN_FLIGHT_MAX, Connection
from moldau.client.network.connection_security import ConnectionSecurity
from moldau.client.network.connection_setup import open_connection
from moldau.client.shared.client_errors import (
    AuthenticationError,
    ConfigError,
    DisconnectError,
    IllegalStateError,
    KafkaTimeoutError,
    error_class,
)
from moldau.config.client_settings.common_settings import ClientSettings
from moldau.model.errors import Error
from moldau.wire.schema import Message

if TYPE_CHECKING:
    from moldau.client.network.metrics_push import MetricsPush

log = logging.getLogger("moldau.client")

GET_TELEMETRY_SUBSCRIPTIONS = 71
PUSHED_ATTRIBUTES = ("client_rack", "group_id", "group_instance_id", "transactional_id")
"""Of the settings, what is told with metrics."""
COORDINATOR_ID_MAX = 2**31 - 1
_COORDINATOR_IDS = 2**30
JITTER = 0.2
OTHER_LOOP = (
    "This client belongs to the event loop that first used it, and was called from another one, for"
    " instance in a forked child: make a client in each loop"
)


def coordinator_node(node_id: int) -> int:
    """The node id under which a broker has a second connection, for the group coordinator."""
    return COORDINATOR_ID_MAX - node_id


class Node(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id: {self.id})"


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    connection_setup_timeout_ms: int = 10_000
    connection_setup_timeout_max_ms: int = 30_000
    connections_max_idle_ms: int = 540_000
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    in_flight_max: int = IN_FLIGHT_MAX
    security: ConnectionSecurity | None = None
    pushes_as: str | None = None
    """What kind of client pushes its metrics; None if it does not."""
    pushed_attributes: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, config: ClientSettings, kind: str) -> NetworkSettings:
        """ConfigError if keys, certificates or log-in cannot be had."""
        told = {name: getattr(config, name, None) for name in PUSHED_ATTRIBUTES}
        return cls(
            pushes_as=kind if config.enable_metrics_push else None,
            pushed_attributes=tuple((name, value) for name, value in told.items() if value),
            security=ConnectionSecurity.of(config),
            request_timeout_ms=config.request_timeout_ms,
            default_api_timeout_ms=config.default_api_timeout_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            reconnect_backoff_ms=config.reconnect_backoff_ms,
            reconnect_backoff_max_ms=config.reconnect_backoff_max_ms,
            connection_setup_timeout_ms=config.socket_connection_setup_timeout_ms,
            connection_setup_timeout_max_ms=config.socket_connection_setup_timeout_max_ms,
            connections_max_idle_ms=config.connections_max_idle_ms,
            send_buffer_bytes=config.send_buffer_bytes,
            receive_buffer_bytes=config.receive_buffer_bytes,
        )


def backoff_ms(first_ms: float, max_ms: float, failures: int) -> float:
    """The pause after so many failures in a row: doubled each time, with jitter (KIP-580)."""
    doublings = min(max(failures - 1, 0), 30)
    pause = min(first_ms * (1 << doublings), max(first_ms, max_ms))
    return pause * random.uniform(1 - JITTER, 1 + JITTER)


def parse_bootstrap(servers: Sequence[str] | str) -> list[tuple[str, int]]:
    """`["host:port", "[::1]:port", ...]` or the same as one text with commas."""
    texts = servers.split(",") if isinstance(servers, str) else servers
    addresses = []
    for text in filter(None, (item.strip() for item in texts)):
        host, _, port = text.rpartition("://")[2].rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError("bootstrap.servers", text, "must be of the form host:port")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise ConfigError("bootstrap.servers", "", "must name at least one host:port")
    return addresses


class _Peer:
    """What is known of one node: its connection, or when it may be tried again."""

    __slots__ = ("connection", "failures", "opening", "retry_at")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.opening: asyncio.Task[Connection] | None = None
        self.failures = 0
        self.retry_at = 0.0


class Network:
    """Belongs to one event loop: make and use it there."""

    def __init__(
        self, bootstrap: Sequence[str] | str, *, client_id: str, settings: NetworkSettings
    ) -> None:
        self.client_id = client_id
        self.settings = settings
        addresses = parse_bootstrap(bootstrap)
        self.bootstrap = [Node(-1 - i, *address) for i, address in enumerate(addresses)]
        self.nodes: dict[int, Node] = {}
        self._peers: dict[int, _Peer] = {}
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._push: MetricsPush | None = None
        self.last_fault = ""
        """Why the last connection could not be opened, for the message of a time-out."""

    def set_nodes(self, nodes: Iterable[Node], *, is_all: bool = True) -> None:
        """The brokers that the cluster's metadata names; moved ones are connected to anew."""
        fresh = {node.id: node for node in nodes}
        for node_id, node in fresh.items():
            known = self.nodes.get(node_id)
            if known is not None and (known.host, known.port) != (node.host, node.port):
                for each in (node_id, coordinator_node(node_id)):
                    peer = self._peers.pop(each, None)
                    if peer is not None and peer.connection is not None:
                        peer.connection.abort("the broker has moved")
        self.nodes = fresh if is_all else {**self.nodes, **fresh}

    def node(self, node_id: int) -> Node | None:
        if node_id < 0:
            return self.bootstrap[-1 - node_id] if -node_id <= len(self.bootstrap) else None
        if node_id >= _COORDINATOR_IDS:
            node_id = coordinator_node(node_id)
        return self.nodes.get(node_id)

    def ready(self, node_id: int) -> Connection | None:
        """The open connection, if there is one: the way to send without waiting."""
        peer = self._peers.get(node_id)
        if peer is not None and peer.connection is not None and peer.connection.is_open:
            return peer.connection
        return None

    def backoff_left_ms(self, node_id: int) -> float:
        """How long the node is still left alone after a failure."""
        peer = self._peers.get(node_id)
        now = asyncio.get_running_loop().time()
        return 0.0 if peer is None else max(0.0, peer.retry_at - now) * 1000

    async def connection(self, node_id: int) -> Connection:
        """An open connection; waits for back-off and set-up. DisconnectError,
        or AuthenticationError where another try would not help."""
        self._check_loop()
        found = self.ready(node_id)
        if found is not None:
            return found
        if self._is_closed:
            raise IllegalStateError("The client is closed")
        if self.node(node_id) is None:
            raise error_class(Error.BROKER_NOT_AVAILABLE)(f"The cluster has no broker {node_id}")
        peer = self._peers.setdefault(node_id, _Peer())
        if peer.opening is None:
            peer.opening = asyncio.get_running_loop().create_task(self._open(node_id, peer))
            peer.opening.add_done_callback(_retrieve)
        opening = peer.opening
        try:
            # Shielded: one caller that gives up must not take the connection from the others.
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled() and self._is_closed:
                raise IllegalStateError("The client was closed") from None
            raise

    async def call(
        self,
        node_id: int,
        request: Message,
        *,
        timeout_ms: int | None = None,
        version_max: int | None = None,
        version_min: int | None = None,
    ) -> Any:
        """The broker's response to one try; what to do about an error is up to the caller."""
        self._check_loop()
        connection = self.ready(node_id)
        if connection is None:
            limit_ms = timeout_ms or self.settings.request_timeout_ms
            try:
                async with asyncio.timeout(limit_ms / 1000):
                    connection = await self.connection(node_id)
            except TimeoutError:
                raise KafkaTimeoutError(
                    f"No connection to node {node_id} within {limit_ms} ms"
                ) from None
        return await connection.send(
            request, timeout_ms=timeout_ms, version_max=version_max, version_min=version_min
        )

    async def call_any(
        self,
        request: Message,
        *,
        timeout_ms: int | None = None,
        version_max: int | None = None,
        version_min: int | None = None,
    ) -> Any:
        """The response of any broker: tried one after the other until the time is up."""
        return await self._of_any(
            lambda connection: connection.send(
                request, version_max=version_max, version_min=version_min
            ),
            timeout_ms,
        )

    async def call_once(self, request: Message) -> Any:
        """The response of any broker that can be reached. Not asked again if that fails: for what
        is of less worth than the connection, which other requests share."""

        async def found(connection: Connection) -> Connection:
            return connection

        return await (await self._of_any(found)).send(request)

    async def _of_any(
        self, use: Callable[[Connection], Awaitable[Any]], timeout_ms: int | None = None
    ) -> Any:
        limit_ms = self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        fault = "none was tried"
        try:
            async with asyncio.timeout(limit_ms / 1000):
                while True:
                    try:
                        return await use(await self.connection(self._best_node()))
                    except (DisconnectError, KafkaTimeoutError) as error:
                        fault = error.message
        except TimeoutError:
            raise KafkaTimeoutError(f"No broker answered within {limit_ms} ms: {fault}") from None

    async def version_of(self, node_id: int, api_key: int) -> int:
        """The highest version of a request that both sides know."""
        return (await self.connection(node_id)).version_for(api_key)

    async def pause(self, failures: int) -> None:
        """Before a request that failed so many times in a row is sent again."""
        settings = self.settings
        pause = backoff_ms(settings.retry_backoff_ms, settings.retry_backoff_max_ms, failures)
        await asyncio.sleep(pause / 1000)

    async def disconnect(self, node_id: int) -> None:
        """Close the node's connection, if there is one; the next call opens another."""
        connection = self.ready(node_id)
        if connection is not None:
            await connection.close()

    def count_requests(self) -> None:
        """Have requests counted, or not any more, as the broker that metrics are for wants it."""
        for node_id, peer in self._peers.items():
            if peer.connection is not None:
                self._count(node_id, peer.connection)

    def _count(self, node_id: int, connection: Connection) -> None:
        push = self._push
        if node_id >= _COORDINATOR_IDS:
            node_id = coordinator_node(node_id)
        connection.stats = push.stats_of(node_id) if push is not None and push.is_on else None

    def _begin_push(self, node_id: int, connection: Connection) -> None:
        kind = self.settings.pushes_as
        if kind is not None and self._push is None:
            if GET_TELEMETRY_SUBSCRIPTIONS not in connection.versions:
                return
            from moldau.client.network.metrics_push import MetricsPush

            self._push = MetricsPush(self, kind, dict(self.settings.pushed_attributes))
        if self._push is not None:
            self._push.connected()
            self._count(node_id, connection)

    def any_ready(self) -> Connection | None:
        """A connection that is open, if there is one."""
        found = (peer.connection for peer in self._peers.values())
        return next((each for each in found if each is not None and each.is_open), None)

    async def close(self) -> None:
        if self._push is not None:
            await self._push.close()
        self._is_closed = True
        peers = list(self._peers.values())
        opening = [peer.opening for peer in peers if peer.opening is not None]
        for task in opening:
            task.cancel()
        if opening:
            await asyncio.wait(opening)
        open_ones = [peer.connection for peer in peers if peer.connection is not None]
        await asyncio.gather(*(connection.close() for connection in open_ones))
        self._peers.clear()

    def _check_loop(self) -> None:
        """On another loop, for instance that of a forked child, answers would never arrive."""
        running = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = running
        elif self._loop is not running:
            raise IllegalStateError(OTHER_LOOP)

    def _best_node(self) -> int:
        """The connected node with the fewest requests under way, else the one free soonest.

        Bootstrap addresses come in while no metadata is known, and when every known broker failed.
        """
        known = list(self.nodes)
        connected = [(c.in_flight_count, n) for n in known if (c := self.ready(n)) is not None]
        if connected:
            return min(connected)[1]
        all_failed = all((peer := self._peers.get(n)) and peer.failures for n in known)
        if all_failed:
            known += [node.id for node in self.bootstrap]
        random.shuffle(known)
        return min(known, key=self.backoff_left_ms)

    async def _open(self, node_id: int, peer: _Peer) -> Connection:
        settings = self.settings
        node = self.node(node_id)
        if node is None:
            # The cluster's news came between the call and this turn of the loop.
            peer.opening = None
            raise error_class(Error.BROKER_NOT_AVAILABLE)(f"The cluster has no broker {node_id}")
        try:
            await asyncio.sleep(self.backoff_left_ms(node_id) / 1000)
            setup_ms = min(
                settings.connection_setup_timeout_ms * 2 ** min(peer.failures, 30),
                max(settings.connection_setup_timeout_ms, settings.connection_setup_timeout_max_ms),
            )
            connection = await open_connection(
                lambda: self._make(node, node_id, peer),
                node.host,
                node.port,
                timeout_ms=setup_ms,
                send_buffer_bytes=settings.send_buffer_bytes,
                receive_buffer_bytes=settings.receive_buffer_bytes,
                security=settings.security,
            )
        except (DisconnectError, AuthenticationError) as fault:
            self.last_fault = fault.message
            peer.failures += 1
            pause = backoff_ms(
                settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, peer.failures
            )
            peer.retry_at = asyncio.get_running_loop().time() + pause / 1000
            log.warning(
                "[clientId=%s] Connection to node %d (%s:%d) could not be established. "
                "Node may not be available. %s",
                *(self.client_id, node_id, node.host, node.port, fault),
            )
            raise
        finally:
            peer.opening = None
        if self._peers.get(node_id) is not peer:
            connection.abort("the broker has moved")
            raise DisconnectError(f"{node} has moved")
        peer.failures = 0
        peer.connection = connection
        if settings.pushes_as is not None:
            self._begin_push(node_id, connection)
        return connection

    def _make(self, node: Node, node_id: int, peer: _Peer) -> Connection:
        def lost(connection: Connection) -> None:
            if peer.connection is connection:
                peer.connection = None
                pause_ms = backoff_ms(self.settings.reconnect_backoff_ms, 0, 1)
                peer.retry_at = asyncio.get_running_loop().time() + pause_ms / 1000

        return Connection(
            f"{node.host}:{node.port}" + (f" (id: {node_id})" if node_id >= 0 else ""),
            client_id=self.client_id,
            request_timeout_ms=self.settings.request_timeout_ms,
            idle_max_ms=self.settings.connections_max_idle_ms,
            in_flight_max=self.settings.in_flight_max,
            on_lost=lost,
        )


def _retrieve(task: asyncio.Task[Connection]) -> None:
    """Marks a failure as seen, for the case that everybody who waited has given up."""
    if not task.cancelled():
        task.exception()
