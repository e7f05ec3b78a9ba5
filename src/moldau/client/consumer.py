"""The consumer: `moldau.Consumer`.

    with Consumer(bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        for record in consumer:
            print(record.offset, record.value)

A background loop fetches and sends heartbeats; listeners and callbacks run in the caller's
thread, inside the call that they belong to. One thread at a time may use it; only `wakeup` is for
others. Time-outs are in seconds.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping
from queue import SimpleQueue
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, overload

from moldau.client.assignors import Assignor as Assignor
from moldau.client.consumer_async import (
    ARROW_RECORDS,
    AsyncConsumer,
    Partition,
)
from moldau.client.consumer_group import ConsumerRebalanceListener as ConsumerRebalanceListener
from moldau.client.consumer_guard import SoleThread
from moldau.client.loop_thread import is_inherited, is_loop_thread, loop_of, submit
from moldau.client.membership import MemberState
from moldau.client.records import ConsumerGroupMetadata as ConsumerGroupMetadata
from moldau.client.records import ConsumerRecord, ConsumerRecords
from moldau.client.records import OffsetAndMetadata as OffsetAndMetadata
from moldau.client.records import OffsetAndTimestamp as OffsetAndTimestamp
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


@overload
def _on_loop(
    method: Callable[Concatenate[AsyncConsumer, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]: ...
@overload
def _on_loop(
    method: Callable[Concatenate[AsyncConsumer, P], T],
) -> Callable[Concatenate[Any, P], T]: ...
def _on_loop(method: Callable[..., Any]) -> Callable[..., Any]:
    """The synchronous twin of a method, with its signature."""

    @functools.wraps(method)
    def call(self: Consumer, *args: Any, **kwargs: Any) -> Any:
        with self._sole:
            return self._run(method, args, kwargs)

    return call


class Consumer:
    """Settings are Kafka's, as a mapping or as keywords with underscores for dots."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        self._sole = SoleThread()
        self._errands: list[SimpleQueue[_Errand | None]] = []
        self._twin = AsyncConsumer(config, **settings)
        self._twin.serve(self._invoke)
        self._engine = self._run(lambda twin: twin.engine, (), {})

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
        if method is AsyncConsumer.close and is_inherited(self._twin):
            return None  # It is the parent's, who goes on with it.
        loop_of(self._twin)
        errands: SimpleQueue[_Errand | None] = SimpleQueue()
        self._errands.append(errands)
        future = submit(_awaited(method, self._twin, args, kwargs), self._twin)
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
            engine = self._twin.engine
            limit = max_records or engine.config.max_poll_records
            return self._until(timeout, lambda: engine.taking.records(limit)) or ConsumerRecords()

    def poll_arrow(
        self, timeout: float | None = None, *, max_records: int = ARROW_RECORDS
    ) -> pyarrow.Table:
        """All that is there, as one Arrow table: whole batches until they hold `max_records`.

        Columns: topic, partition, offset, timestamp, key, value, headers. Deserializers are not
        used. Many times faster than `poll`. Needs `pip install 'moldau[arrow]'`."""
        from moldau.client.arrow import schema, table_of

        empty = schema().empty_table()
        with self._sole:
            engine = self._twin.engine
            table = self._until(timeout, lambda: engine.taking.table(max_records, table_of))
            return empty if table is None else table

    def _until(self, timeout: float | None, take: Callable[[], T | None]) -> T | None:
        """What `take` gives once it gives something. Records are taken, decoded and deserialized
        in this thread, which also waits for them; the loop is asked only if there is more to do."""
        engine = self._twin.engine
        deadline = None if timeout is None else monotonic() + timeout
        has_waited = False
        while True:
            loop_of(self._twin)  # Refuses if that is gone: nobody would ever wake us.
            left = None if deadline is None else max(0.0, deadline - monotonic())
            is_quiet = engine.is_quiet
            is_there = is_quiet and engine.buffer.has_records()
            if not is_there:
                if is_quiet and not has_waited and left != 0.0:
                    has_waited = True
                    engine.wait_here(left)
                    continue
                has_waited = False
                is_there = self._run(AsyncConsumer.await_records, (left,), {})
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

    subscribe = _on_loop(AsyncConsumer.subscribe)
    assign = _on_loop(AsyncConsumer.assign)
    unsubscribe = _on_loop(AsyncConsumer.unsubscribe)
    commit = _on_loop(AsyncConsumer.commit)
    commit_sync = commit
    commit_async = _on_loop(AsyncConsumer.commit_async)
    committed = _on_loop(AsyncConsumer.committed)
    position = _on_loop(AsyncConsumer.position)
    seek = _on_loop(AsyncConsumer.seek)
    seek_to_beginning = _on_loop(AsyncConsumer.seek_to_beginning)
    seek_to_end = _on_loop(AsyncConsumer.seek_to_end)
    offsets_for_times = _on_loop(AsyncConsumer.offsets_for_times)
    beginning_offsets = _on_loop(AsyncConsumer.beginning_offsets)
    end_offsets = _on_loop(AsyncConsumer.end_offsets)
    pause = _on_loop(AsyncConsumer.pause)
    resume = _on_loop(AsyncConsumer.resume)
    partitions_for = _on_loop(AsyncConsumer.partitions_for)
    list_topics = _on_loop(AsyncConsumer.list_topics)
    enforce_rebalance = _on_loop(AsyncConsumer.enforce_rebalance)
    close = _on_loop(AsyncConsumer.close)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are being read."""
        return self._twin.assignment()

    def subscription(self) -> set[str]:
        return self._twin.subscription()

    def paused(self) -> set[TopicPartition]:
        return self._twin.paused()

    def current_lag(self, partition: Partition) -> int | None:
        """How many records are behind the position, as far as the last fetch told."""
        return self._twin.current_lag(partition)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """For `send_offsets_to_transaction`."""
        return self._twin.group_metadata()

    @property
    def member_state(self) -> MemberState:
        return self._twin.member_state

    def wakeup(self) -> None:
        """From any thread: the poll under way, or the next, raises WakeupError."""
        self._twin.wakeup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _awaited(
    method: Callable[..., Any], twin: AsyncConsumer, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    result = method(twin, *args, **kwargs)
    return await result if inspect.isawaitable(result) else result
