"""`moldau.aio.Consumer`: the consumer for asyncio.

Its blocking twin is in `blocking_consumer.py`; what both do is in `poll_loop.py`. A test holds
their names and arguments together.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from moldau.client.consumer.concurrent_use import SoleTask
from moldau.client.consumer.consumer_coordinator import ConsumerRebalanceListener, Invoke
from moldau.client.consumer.consumer_membership import MemberState
from moldau.client.consumer.consumer_records import (
    ConsumerGroupMetadata,
    ConsumerRecords,
    OffsetAndMetadata,
    OffsetAndTimestamp,
)
from moldau.client.consumer.offset_commits import OnCommit
from moldau.client.consumer.poll_loop import ConsumerEngine
from moldau.client.consumer.subscription_state import EARLIEST, LATEST, Mode
from moldau.client.network.cluster_metadata import PartitionInfo
from moldau.client.network.network_client import OTHER_LOOP
from moldau.client.shared.client_errors import IllegalStateError, KafkaTimeoutError
from moldau.config.client_settings.consumer_settings import ConsumerConfig
from moldau.model.names import TopicPartition

if TYPE_CHECKING:
    import pyarrow

ARROW_RECORDS = 1_000_000
CLOSE_SECONDS = 30.0

Partition = TopicPartition | tuple[str, int]
OffsetsGiven = Mapping[TopicPartition, OffsetAndMetadata | int]
log = logging.getLogger("moldau.consumer")


async def call_here(function: Callable[..., Any], *args: Any) -> Any:
    """A listener or callback of the user; it may be a coroutine function."""
    result = function(*args)
    return await result if inspect.isawaitable(result) else result


def _is_elsewhere(home: asyncio.AbstractEventLoop) -> bool:
    """Whether this is the code of another loop. Threads without one may still call `wakeup`."""
    try:
        return asyncio.get_running_loop() is not home
    except RuntimeError:
        return False


class Consumer:
    """Reads records from asyncio code; one task at a time may use it, only `wakeup` is for others.

    >>> async with aio.Consumer(bootstrap_servers="localhost:9092", group_id="g") as consumer:
    ...     consumer.subscribe(["orders"])
    ...     async for record in consumer:
    ...         print(record.offset, record.value)

    Settings are Kafka's keys, in a mapping or as keywords with underscores. Time-outs are in
    seconds. It belongs to the event loop that first uses it."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        self._config, remarks = ConsumerConfig.parse(config, **settings)
        for remark in remarks:
            log.warning("consumer: %s", remark)
        self._made: ConsumerEngine | None = None
        self._invoke: Invoke = call_here
        self._sole = SoleTask(lambda: self._engine)

    @property
    def _engine(self) -> ConsumerEngine:
        """Made when first used, since it belongs to the loop that runs then."""
        engine = self._made
        if engine is None:
            engine = self._made = ConsumerEngine(self._config, self._invoke)
            self._loop = asyncio.get_running_loop()
        if engine.is_closed:
            raise IllegalStateError("This consumer has already been closed.")
        if self._sole.is_on and _is_elsewhere(self._loop):
            raise IllegalStateError(OTHER_LOOP)
        return engine

    def _serve(self, invoke: Invoke) -> None:
        """For the blocking consumer, which runs user code elsewhere and has a guard of its own."""
        self._invoke = invoke
        self._sole.is_on = False

    # What to read.

    def subscribe(
        self,
        topics: Iterable[str] | str | re.Pattern[str] = (),
        listener: ConsumerRebalanceListener | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
    ) -> None:
        """Read these topics, or all whose whole name matches a pattern, shared with the group.

        Replaces an earlier subscription; takes effect in the next poll."""
        with self._sole as engine:
            engine.need_commits()
            group = engine.group
            assert group is not None, "commits need a group"
            assert engine.topics is not None, "commits need a group"
            if isinstance(topics, re.Pattern):
                pattern = topics
                topics = ()
            if pattern is not None:
                compiled = re.compile(pattern)
                engine.positions.subscribe_pattern(compiled)
                engine.log.info("%sSubscribed to pattern: '%s'", engine.prefix, compiled.pattern)
                engine.topics.forget()
            else:
                names = [topics] if isinstance(topics, str) else sorted(set(topics))
                if not names:
                    raise ValueError("subscribe needs topics or a pattern; see unsubscribe")
                if frozenset(names) != engine.positions.topics:
                    group.membership.request_rejoin("the subscription has changed")
                engine.positions.subscribe(names)
                engine.log.info("%sSubscribed to topic(s): %s", engine.prefix, ", ".join(names))
            group.listener = listener

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions and no others, without sharing them with the group."""
        with self._sole as engine:
            wanted = [TopicPartition(*partition) for partition in partitions]
            engine.positions.assign(wanted)
            engine.log.info(
                "%sSubscribed to partition(s): %s",
                *(engine.prefix, ", ".join(map(str, sorted(wanted)))),
            )
            engine.fetcher.refresh_soon()

    async def unsubscribe(self) -> None:
        """Give up all partitions; the group shares them out anew."""
        with self._sole as engine:
            try:
                if engine.group is not None and engine.positions.is_subscribed:
                    await engine.group.part("the consumer unsubscribed from all topics")
            finally:
                engine.positions.unsubscribe()

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are being read."""
        return set(self._engine.positions.partitions)

    def subscription(self) -> set[str]:
        """The topics that are subscribed to."""
        return set(self._engine.positions.topics)

    # Reading.

    async def poll(
        self, timeout: float | None = None, *, max_records: int | None = None
    ) -> ConsumerRecords:
        """Records as soon as there are any; none when the time-out is over first."""
        with self._sole as engine:
            limit = max_records or self._config.max_poll_records
            records = await self._until(timeout, lambda: engine.taking.records(limit))
            return records or ConsumerRecords()

    async def poll_arrow(
        self, timeout: float | None = None, *, max_records: int = ARROW_RECORDS
    ) -> pyarrow.Table:
        """All that is there, as one Arrow table: whole batches until they hold `max_records`.

        Columns: topic, partition, offset, timestamp, key, value, headers. Deserializers are not
        used. Many times faster than `poll`."""
        from moldau.client.consumer.arrow_tables import schema, table_of

        empty = schema().empty_table()
        with self._sole as engine:
            table = await self._until(timeout, lambda: engine.taking.table(max_records, table_of))
            return empty if table is None else table

    async def _await_records(self, timeout: float | None = None) -> bool:
        """Do all that a poll does except taking records; whether there may be some to take."""
        with self._sole as engine:
            return await engine.await_records(timeout)

    async def _until(self, timeout: float | None, take: Callable[[], Any]) -> Any:
        """What `take` gives once it gives something; what is not visible is passed over."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - loop.time())
            is_there = await self._engine.await_records(left)
            if is_there and (taken := take()):
                return taken
            if not is_there and left is not None and loop.time() >= (deadline or 0.0):
                return None

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Every record, one by one; ends after consumer.timeout.ms without one, if that is set.

        The position moves with each record, so whoever stops can go on with the next."""
        limit_ms, limit = self._config.consumer_timeout_ms, self._config.max_poll_records
        timeout, taking = None if limit_ms < 0 else limit_ms / 1000, self._engine.taking
        while True:
            with self._sole:
                records = await self._until(timeout, lambda: taking.one_by_one(limit))
            if records is None and timeout is not None:
                return
            for record in records or ():
                yield record

    # Committing.

    def _offsets(self, given: OffsetsGiven | None) -> dict[TopicPartition, OffsetAndMetadata]:
        if given is None:
            return self._engine.positions.committable()
        return {
            TopicPartition(*tp): OffsetAndMetadata(row) if isinstance(row, int) else row
            for tp, row in given.items()
        }

    async def commit(
        self, offsets: OffsetsGiven | None = None, timeout: float | None = None
    ) -> None:
        """Commit the position of every partition, or these offsets, and wait until it is done.

        The offset to commit is that of the next record to read. CommitFailedError: the group
        has given the partitions to others."""
        with self._sole as engine:
            await engine.commit(self._offsets(offsets), self._timeout_ms(timeout))

    def commit_async(
        self, offsets: OffsetsGiven | None = None, on_commit: OnCommit | None = None
    ) -> None:
        """Commit without waiting and without a second try; `on_commit(offsets, error)` runs
        inside a later call of this consumer."""
        with self._sole as engine:
            engine.commit_async(self._offsets(offsets), on_commit)

    async def committed(
        self, partitions: Iterable[Partition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where it has not."""
        with self._sole as engine:
            wanted = [TopicPartition(*partition) for partition in partitions]
            return await engine.need_commits().committed(wanted, self._timeout_ms(timeout))

    # Positions.

    async def position(self, partition: Partition, timeout: float | None = None) -> int:
        """The offset of the next record that poll returns."""
        with self._sole as engine:
            state = engine.positions.of(TopicPartition(*partition))
            limit_ms = self._timeout_ms(timeout)
            try:
                async with asyncio.timeout(limit_ms / 1000):
                    while state.position is None:
                        if state.reset_to is None:
                            await engine.upkeep.start([state], limit_ms)
                        await engine.upkeep.reset(limit_ms)
            except TimeoutError:
                raise KafkaTimeoutError(
                    f"Timeout of {limit_ms}ms expired before the position for partition"
                    f" {state.tp} could be determined"
                ) from None
            return state.position

    def seek(self, partition: Partition, offset: int | OffsetAndMetadata) -> None:
        """Read on from there; the offset is not looked at before the next poll."""
        with self._sole as engine:
            state = engine.positions.of(TopicPartition(*partition))
            row = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            if row.offset < 0:
                raise ValueError(f"seek offset must not be negative, is {row.offset}")
            state.seek(row.offset, row.leader_epoch)
            engine.fetcher.pump()

    def seek_to_beginning(self, partitions: Iterable[Partition] | None = None) -> None:
        """These partitions, or all; looked up when the next poll or `position` needs it."""
        self._reset(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[Partition] | None = None) -> None:
        """These partitions, or all: read only what comes from now on."""
        self._reset(partitions, LATEST)

    def _reset(self, partitions: Iterable[Partition] | None, timestamp: int) -> None:
        with self._sole as engine:
            given = partitions or engine.positions.partitions
            for state in [engine.positions.of(TopicPartition(*tp)) for tp in given]:
                state.reset(timestamp)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time, in ms since 1970; None where there is none."""
        with self._sole as engine:
            for tp, time_ms in times.items():
                if time_ms < 0:
                    raise ValueError(f"the time for {tp} must not be negative, is {time_ms}")
            found = await engine.lookup.find(times, self._timeout_ms(timeout))
            return {tp: row if row.offset >= 0 else None for tp, row in found.items()}

    async def beginning_offsets(
        self, partitions: Iterable[Partition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset that there is in each partition."""
        return await self._edges(partitions, EARLIEST, timeout)

    async def end_offsets(
        self, partitions: Iterable[Partition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset that the next record will get; with read_committed, where readers stop."""
        return await self._edges(partitions, LATEST, timeout)

    async def _edges(
        self, partitions: Iterable[Partition], timestamp: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        with self._sole as engine:
            times = {TopicPartition(*partition): timestamp for partition in partitions}
            found = await engine.lookup.find(times, self._timeout_ms(timeout))
            return {tp: row.offset for tp, row in found.items()}

    def current_lag(self, partition: Partition) -> int | None:
        """How many records are behind the position, as far as the last fetch told."""
        state = self._engine.positions.of(TopicPartition(*partition))
        is_committed = self._config.isolation_level == "read_committed"
        end = state.last_stable_offset if is_committed else state.high_watermark
        return None if end < 0 or state.position is None else max(0, end - state.position)

    # Pausing and waking.

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Polls return nothing of them until they are resumed; no rebalance comes of it."""
        with self._sole as engine:
            for tp in partitions:
                engine.positions.of(TopicPartition(*tp)).is_paused = True

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Polls return records of them again."""
        with self._sole as engine:
            for tp in partitions:
                engine.positions.of(TopicPartition(*tp)).is_paused = False
            engine.fetcher.pump()

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        states = self._engine.positions.partitions
        return {tp for tp, state in states.items() if state.is_paused}

    def wakeup(self) -> None:
        """From any task or thread: the poll under way, or the next, raises WakeupError."""
        if self._made is not None:
            self._made.wakeup()

    # The cluster and the group.

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """The topic's partitions and who leads them."""
        with self._sole as engine:
            return await engine.cluster.partitions_for(
                topic,
                self._timeout_ms(timeout),
                allow_auto_create=self._config.allow_auto_create_topics,
            )

    async def list_topics(self, timeout: float | None = None) -> dict[str, list[PartitionInfo]]:
        """All topics that one may see, with their partitions."""
        with self._sole as engine:
            await engine.cluster.refresh_all(timeout_ms=self._timeout_ms(timeout))
            known = engine.cluster.topics.values()
            return {row.name: list(row.partitions.values()) for row in known if not row.error}

    def group_metadata(self) -> ConsumerGroupMetadata:
        """For `send_offsets_to_transaction`."""
        engine = self._engine
        engine.need_commits()
        assert engine.group is not None, "commits need a group"
        return engine.group.membership.metadata

    @property
    def member_state(self) -> MemberState:
        """How this member stands in its group."""
        group = self._engine.group
        return MemberState.UNJOINED if group is None else group.membership.state

    def enforce_rebalance(self, reason: str = "rebalance enforced by user") -> None:
        """Have the group share out anew in the next poll (KIP-568)."""
        with self._sole as engine:
            if engine.group is None or engine.positions.mode in (Mode.NONE, Mode.ASSIGNED):
                raise IllegalStateError(
                    "Tried to force a rebalance but consumer does not have a group."
                )
            engine.group.membership.request_rejoin(reason)

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Commit if enable.auto.commit is on, leave the group, close the connections."""
        if self._made is not None and not self._made.is_closed:
            with self._sole as engine:
                await engine.close(timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _timeout_ms(self, timeout: float | None) -> int:
        return self._config.default_api_timeout_ms if timeout is None else int(timeout * 1000)
