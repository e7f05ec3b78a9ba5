"""How admin requests find their broker: the controller, a leader, a coordinator, or all of them.

Every way tries again while an error may pass and time is left (default.api.timeout.ms, or the
call's own `timeout_ms`), with metadata or coordinator looked up anew in between. One thing's
failure never hides the results of the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from moldau.client.admin.admin_results import Outcomes
from moldau.client.network.cluster_metadata import Cluster, CoordinatorKind
from moldau.client.network.network_client import Network, coordinator_node
from moldau.client.shared.client_errors import KafkaError, KafkaTimeoutError, error_for
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.wire.primitives import INT32_MIN
from moldau.wire.schema import Message

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

UNKNOWN_TOPIC_TRIES = 3
"""A topic just created may be unknown to the next broker for a moment, one misspelt forever."""


class AdminRequests:
    """Base of the subjects that make up an Admin."""

    network: Network
    cluster: Cluster

    def _limit_ms(self, timeout_ms: int | None) -> int:
        return self.network.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms

    async def _try(self, timeout_ms: int | None, attempt: Callable[[], Awaitable[T]]) -> T:
        """The first attempt that does not fail for a passing reason."""
        limit_ms = self._limit_ms(timeout_ms)
        failures = 0
        fault = ""
        try:
            async with asyncio.timeout(limit_ms / 1000):
                while True:
                    try:
                        return await attempt()
                    except KafkaError as error:
                        if not error.retriable:
                            raise
                        fault = error.message
                    failures += 1
                    await self.network.pause(failures)
        except TimeoutError:
            fault = fault or self.network.last_fault
            raise KafkaTimeoutError(f"Not done within {limit_ms} ms. {fault}".rstrip()) from None

    async def _from_any(self, request: Message, timeout_ms: int | None = None) -> Any:
        async def attempt() -> Any:
            response = await self.network.call_any(request, timeout_ms=timeout_ms)
            return check_top(response)

        return await self._try(timeout_ms, attempt)

    async def _from_node(
        self, node_id: int, request: Message, timeout_ms: int | None = None
    ) -> Any:
        async def attempt() -> Any:
            if self.network.node(node_id) is None:
                await self.cluster.refresh_brokers()
            return check_top(await self.network.call(node_id, request))

        return await self._try(timeout_ms, attempt)

    async def _from_controller(
        self,
        request: Message,
        timeout_ms: int | None = None,
        codes: Callable[[Any], Iterable[int]] = lambda response: (),
    ) -> Any:
        """The controller's answer. `codes` finds the error codes inside: a broker that is no
        longer the controller may say so of every item."""

        async def attempt() -> Any:
            if self.cluster.controller_id < 0 or self.cluster.is_old:
                await self.cluster.refresh_brokers()
            if self.cluster.controller_id < 0:
                raise error_for(Error.NOT_CONTROLLER, "The cluster has no controller now")
            try:
                response = await self.network.call(self.cluster.controller_id, request)
                check_top(response)
                if any(code == Error.NOT_CONTROLLER for code in codes(response)):
                    raise error_for(Error.NOT_CONTROLLER)
            except KafkaError as error:
                if error.retriable:
                    self.cluster.controller_id = -1
                raise
            return response

        return await self._try(timeout_ms, attempt)

    async def _from_leaders(
        self,
        partitions: Iterable[TopicPartition],
        send: Callable[[int, list[TopicPartition]], Awaitable[Mapping[TopicPartition, Any]]],
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, Any]:
        """Ask each partition's leader; `send` returns a value or an error per partition."""
        wanted = list(dict.fromkeys(TopicPartition(*tp) for tp in partitions))
        done: Outcomes[TopicPartition, Any] = {}

        async def round_of(left: list[TopicPartition], failures: int) -> None:
            topics = {tp.topic for tp in left}
            await self.cluster.refresh(topics, allow_auto_create=False)
            led, leaderless = self.cluster.group_by_leader(left)
            for tp in leaderless:
                done[tp] = self._no_leader(tp)
            await self._ask_each(led, send, done)
            if failures >= UNKNOWN_TOPIC_TRIES:
                for tp in left:
                    if is_unknown(done[tp]):
                        settled.add(tp)

        settled: set[TopicPartition] = set()
        await self._rounds(wanted, done, round_of, settled, timeout_ms)
        return {tp: done[tp] for tp in wanted}

    async def _from_coordinators(
        self,
        keys: Iterable[str],
        kind: CoordinatorKind,
        send: Callable[[int, list[str]], Awaitable[Mapping[str, Any]]],
        timeout_ms: int | None = None,
    ) -> Outcomes[str, Any]:
        """Ask each key's coordinator; `send` returns a value or an error per key."""
        wanted = list(dict.fromkeys(keys))
        done: Outcomes[str, Any] = {}

        async def round_of(left: list[str], failures: int) -> None:
            found: dict[int, list[str]] = {}
            for key in left:
                if failures:
                    self.cluster.forget_coordinator(key, kind)
                try:
                    node_id = await self.cluster.coordinator(key, kind)
                except KafkaTimeoutError:
                    raise
                except KafkaError as error:
                    done[key] = error
                    continue
                if kind is CoordinatorKind.GROUP:
                    node_id = coordinator_node(node_id)
                found.setdefault(node_id, []).append(key)
            await self._ask_each(found, send, done)

        await self._rounds(wanted, done, round_of, set(), timeout_ms)
        return {key: done[key] for key in wanted}

    async def _from_all(
        self,
        ask: Callable[[int], Awaitable[V]],
        timeout_ms: int | None = None,
        node_ids: Iterable[int] | None = None,
    ) -> Outcomes[int, V]:
        """Ask every broker, or these."""
        await self._try(timeout_ms, self.cluster.refresh_brokers)
        ids = [node.id for node in self.cluster.brokers] if node_ids is None else list(node_ids)

        async def one(node_id: int) -> V | KafkaError:
            try:
                return await self._try(timeout_ms, lambda: ask(node_id))
            except KafkaError as error:
                return error

        answers = await asyncio.gather(*(one(node_id) for node_id in ids))
        return dict(zip(ids, answers, strict=True))

    async def _ask_each(
        self,
        by_node: Mapping[int, list[K]],
        send: Callable[[int, list[K]], Awaitable[Mapping[K, Any]]],
        done: Outcomes[K, Any],
    ) -> None:
        async def one(node_id: int, items: list[K]) -> Mapping[K, Any]:
            try:
                return await send(node_id, items)
            except KafkaError as error:
                return dict.fromkeys(items, error)

        for answers in await asyncio.gather(*(one(*pair) for pair in by_node.items())):
            done.update(answers)
        for items in by_node.values():
            for item in items:
                done.setdefault(
                    item, error_for(Error.UNKNOWN_SERVER_ERROR, "The broker left it out")
                )

    async def _rounds(
        self,
        wanted: list[K],
        done: Outcomes[K, Any],
        round_of: Callable[[list[K], int], Awaitable[None]],
        settled: set[K],
        timeout_ms: int | None,
    ) -> None:
        """Rounds over what is missing or failed for a passing reason, until time is up."""
        failures = 0
        left = wanted
        try:
            async with asyncio.timeout(self._limit_ms(timeout_ms) / 1000):
                while left:
                    if failures:
                        await self.network.pause(failures)
                    await round_of(left, failures)
                    failures += 1
                    left = [
                        key
                        for key in left
                        if isinstance(value := done[key], KafkaError)
                        and value.retriable
                        and key not in settled
                    ]
        except TimeoutError as fault:
            for key in left:
                why = done.get(key)
                if not isinstance(why, KafkaError):
                    why = fault if isinstance(fault, KafkaError) else None
                reason = "" if why is None else f" {why.message}"
                limit_ms = self._limit_ms(timeout_ms)
                done[key] = KafkaTimeoutError(f"Not done within {limit_ms} ms.{reason}")

    def _no_leader(self, tp: TopicPartition) -> KafkaError:
        error = self.cluster.topic_error(tp.topic)
        if error is Error.NONE:
            known = self.cluster.partition(tp.topic, tp.partition)
            error = (
                Error.UNKNOWN_TOPIC_OR_PARTITION if known is None else Error.LEADER_NOT_AVAILABLE
            )
        return error_for(error)


def check_top(response: Any) -> Any:
    """The response, unless it carries an error as a whole."""
    code = getattr(response, "error_code", 0)
    if code:
        raise error_for(code, getattr(response, "error_message", None))
    return response


def value_or_error(row: Any, value: V) -> V | KafkaError:
    """A row of a response as an item of Outcomes."""
    if row.error_code:
        return error_for(row.error_code, getattr(row, "error_message", None))
    return value


def is_unknown(value: object) -> bool:
    return isinstance(value, KafkaError) and value.code is Error.UNKNOWN_TOPIC_OR_PARTITION


def operations(bits: int) -> frozenset[int] | None:
    """Authorized operations travel as one bit each; None if they were not asked for."""
    if bits == INT32_MIN:
        return None
    return frozenset(bit for bit in range(32) if bits >> bit & 1)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped
