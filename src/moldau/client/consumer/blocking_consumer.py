"""`moldau.Consumer`: the consumer for everybody without an event loop.

A background loop fetches and sends heartbeats; listeners and callbacks run in the caller's
thread, inside the call that they belong to. The asyncio twin is in `asyncio_consumer.py`; what
both do is in `poll_loop.py`. A test holds their names and arguments together.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from queue import SimpleQueue
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from moldau.client.consumer.asyncio_consumer import (
    ARROW_RECORDS,
    CLOSE_SECONDS,
    OffsetsGiven,
    Partition,
)
from moldau.client.consumer.asyncio_consumer import Consumer as AsyncConsumer
from moldau.client.consumer.concurrent_use import SoleThread
from moldau.client.consumer.consumer_coordinator import (
    ConsumerRebalanceListener as ConsumerRebalanceListener,
)
from moldau.client.consumer.consumer_membership import MemberState
from moldau.client.consumer.consumer_records import ConsumerGroupMetadata as ConsumerGroupMetadata
from moldau.client.consumer.consumer_records import ConsumerRecord, ConsumerRecords
from moldau.client.consumer.consumer_records import OffsetAndMetadata as OffsetAndMetadata
from moldau.client.consumer.consumer_records import OffsetAndTimestamp as OffsetAndTimestamp
from moldau.client.consumer.offset_commits import OnCommit
from moldau.client.network.cluster_metadata import PartitionInfo
from moldau.client.shared.background_loop import is_inherited, is_loop_thread, loop_of, submit
from moldau.model.names import TopicPartition

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")
P = ParamSpec("P")


class _Errand:
    """A piece of user code for the caller's thread, and what came of it for the loop."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], reply: asyncio.Future[Any]
    ) -> None:
        self._function = function
        self._args = args
        self._reply = reply
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        with self:
            self._result = self._function(*self._args)
        self._reply.get_loop().call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        if self._reply.done():
            return
        if self._error is not None:
            self._reply.set_exception(self._error)
        else:
            self._reply.set_result(self._result)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Errors of the user's code come out of the call that ran it."""
        self._error = error
        return isinstance(error, Exception)


class Consumer:
    """Reads records; one thread at a time may use it, only `wakeup` is for others.

    >>> with Consumer(bootstrap_servers="localhost:9092", group_id="billing") as consumer:
    ...     consumer.subscribe(["orders"])
    ...     for record in consumer:
    ...         print(record.offset, record.value)

    Settings are Kafka's keys, in a mapping or as keywords with underscores. Time-outs are in
    seconds."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        self._sole = SoleThread()
        self._errands: list[SimpleQueue[_Errand | None]] = []
        self._client = AsyncConsumer(config, **settings)
        self._client._serve(self._invoke)
        self._engine = self._run(lambda client: client._engine, (), {})

    def _await(
        self,
        method: Callable[Concatenate[AsyncConsumer, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        with self._sole:
            result: T = self._run(method, args, kwargs)
            return result

    def _call(
        self,
        method: Callable[Concatenate[AsyncConsumer, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        with self._sole:
            result: T = self._run(method, args, kwargs)
            return result

    async def _invoke(self, function: Callable[..., Any], *args: Any) -> Any:
        """On the loop: have the caller's thread run user code, and wait for it."""
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._errands[-1].put(_Errand(function, args, reply))
        return await reply

    def _run(
        self, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if is_loop_thread():
            raise RuntimeError(
                "a synchronous consumer was called from its own loop; use moldau.aio.Consumer"
            )
        if method is AsyncConsumer.close and is_inherited(self._client):
            return None  # It is the parent's, who goes on with it.
        loop_of(self._client)
        errands: SimpleQueue[_Errand | None] = SimpleQueue()
        self._errands.append(errands)
        future = submit(_awaited(method, self._client, args, kwargs), self._client)
        future.add_done_callback(lambda _: errands.put(None))
        is_done = False
        try:
            while (errand := errands.get()) is not None:
                errand.run()
            is_done = True
        finally:
            if not is_done:
                # Ctrl-C: nothing of the call goes on behind the user's back.
                future.cancel()
            self._errands.remove(errands)
        return future.result()

    def poll(
        self, timeout: float | None = None, *, max_records: int | None = None
    ) -> ConsumerRecords:
        """Records as soon as there are any; none when the time-out is over first."""
        with self._sole:
            engine = self._client._engine
            limit = max_records or engine.config.max_poll_records
            return self._until(timeout, lambda: engine.taking.records(limit)) or ConsumerRecords()

    def poll_arrow(
        self, timeout: float | None = None, *, max_records: int = ARROW_RECORDS
    ) -> pyarrow.Table:
        """All that is there, as one Arrow table: whole batches until they hold `max_records`.

        Columns: topic, partition, offset, timestamp, key, value, headers. Deserializers are not
        used. Many times faster than `poll`. Needs `pip install 'moldau[arrow]'`."""
        from moldau.client.consumer.arrow_tables import schema, table_of

        empty = schema().empty_table()
        with self._sole:
            engine = self._client._engine
            table = self._until(timeout, lambda: engine.taking.table(max_records, table_of))
            return empty if table is None else table

    def _until(self, timeout: float | None, take: Callable[[], T | None]) -> T | None:
        """What `take` gives once it gives something. Records are taken, decoded and deserialized
        in this thread, which also waits for them; the loop is asked only if there is more to do."""
        engine = self._client._engine
        deadline = None if timeout is None else monotonic() + timeout
        has_waited = False
        while True:
            loop_of(self._client)  # Refuses if that is gone: nobody would ever wake us.
            left = None if deadline is None else max(0.0, deadline - monotonic())
            is_quiet = engine.is_quiet
            is_there = is_quiet and engine.buffer.has_records()
            if not is_there:
                if is_quiet and not has_waited and left != 0.0:
                    has_waited = True
                    engine.wait_here(left)
                    continue
                has_waited = False
                is_there = self._run(AsyncConsumer._await_records, (left,), {})
            if is_there and (taken := take()):
                return taken
            if not is_there and left is not None and monotonic() >= (deadline or 0.0):
                return None

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Every record, one by one; ends after consumer.timeout.ms without one, if that is set.

        The position moves with each record, so whoever stops can go on with the next."""
        config = self._engine.config
        timeout = None if config.consumer_timeout_ms < 0 else config.consumer_timeout_ms / 1000
        limit, taking = config.max_poll_records, self._engine.taking
        while True:
            with self._sole:
                records = self._until(timeout, lambda: taking.one_by_one(limit))
            if records is not None:
                yield from records
            elif timeout is not None:
                return

    def subscribe(
        self,
        topics: Iterable[str] | str | re.Pattern[str] = (),
        listener: ConsumerRebalanceListener | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
    ) -> None:
        """Read these topics, or all whose whole name matches a pattern, shared with the group.

        Replaces an earlier subscription; takes effect in the next poll."""
        self._call(AsyncConsumer.subscribe, topics, listener, pattern=pattern)

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions and no others, without sharing them with the group."""
        self._call(AsyncConsumer.assign, partitions)

    def unsubscribe(self) -> None:
        """Give up all partitions; the group shares them out anew."""
        self._await(AsyncConsumer.unsubscribe)

    def commit(self, offsets: OffsetsGiven | None = None, timeout: float | None = None) -> None:
        """Commit the position of every partition, or these offsets, and wait until it is done.

        The offset to commit is that of the next record to read. CommitFailedError: the group
        has given the partitions to others."""
        self._await(AsyncConsumer.commit, offsets, timeout)

    def commit_async(
        self, offsets: OffsetsGiven | None = None, on_commit: OnCommit | None = None
    ) -> None:
        """Commit without waiting and without a second try; `on_commit(offsets, error)` runs
        inside a later call of this consumer."""
        self._call(AsyncConsumer.commit_async, offsets, on_commit)

    def committed(
        self, partitions: Iterable[Partition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where it has not."""
        return self._await(AsyncConsumer.committed, partitions, timeout)

    def position(self, partition: Partition, timeout: float | None = None) -> int:
        """The offset of the next record that poll returns."""
        return self._await(AsyncConsumer.position, partition, timeout)

    def seek(self, partition: Partition, offset: int | OffsetAndMetadata) -> None:
        """Read on from there; the offset is not looked at before the next poll."""
        self._call(AsyncConsumer.seek, partition, offset)

    def seek_to_beginning(self, partitions: Iterable[Partition] | None = None) -> None:
        """These partitions, or all; looked up when the next poll or `position` needs it."""
        self._call(AsyncConsumer.seek_to_beginning, partitions)

    def seek_to_end(self, partitions: Iterable[Partition] | None = None) -> None:
        """These partitions, or all: read only what comes from now on."""
        self._call(AsyncConsumer.seek_to_end, partitions)

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time, in ms since 1970; None where there is none."""
        return self._await(AsyncConsumer.offsets_for_times, times, timeout)

    def beginning_offsets(
        self, partitions: Iterable[Partition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset that there is in each partition."""
        return self._await(AsyncConsumer.beginning_offsets, partitions, timeout)

    def end_offsets(
        self, partitions: Iterable[Partition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset that the next record will get; with read_committed, where readers stop."""
        return self._await(AsyncConsumer.end_offsets, partitions, timeout)

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Polls return nothing of them until they are resumed; no rebalance comes of it."""
        self._call(AsyncConsumer.pause, partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Polls return records of them again."""
        self._call(AsyncConsumer.resume, partitions)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[PartitionInfo]:
        """The topic's partitions and who leads them."""
        return self._await(AsyncConsumer.partitions_for, topic, timeout)

    def list_topics(self, timeout: float | None = None) -> dict[str, list[PartitionInfo]]:
        """All topics that one may see, with their partitions."""
        return self._await(AsyncConsumer.list_topics, timeout)

    def enforce_rebalance(self, reason: str = "rebalance enforced by user") -> None:
        """Have the group share out anew in the next poll (KIP-568)."""
        self._call(AsyncConsumer.enforce_rebalance, reason)

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Commit if enable.auto.commit is on, leave the group, close the connections."""
        self._await(AsyncConsumer.close, timeout)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are being read."""
        return self._client.assignment()

    def subscription(self) -> set[str]:
        """The topics that are subscribed to."""
        return self._client.subscription()

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return self._client.paused()

    def current_lag(self, partition: Partition) -> int | None:
        """How many records are behind the position, as far as the last fetch told."""
        return self._client.current_lag(partition)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """For `send_offsets_to_transaction`."""
        return self._client.group_metadata()

    @property
    def member_state(self) -> MemberState:
        """How this member stands in its group."""
        return self._client.member_state

    def wakeup(self) -> None:
        """From any thread: the poll under way, or the next, raises WakeupError."""
        self._client.wakeup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _awaited(
    method: Callable[..., Any], client: AsyncConsumer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    result = method(client, *args, **kwargs)
    return await result if inspect.isawaitable(result) else result
