"""What `send` gives back: a future of where the record went.

It is only a batch and an index until somebody waits for it, so fire-and-forget costs next to
nothing. `RecordFuture`, of the blocking producer, is a `concurrent.futures.Future`: its lock and
its state are made when they are first asked for (`LazyFuture`). `RecordAwaitable`, of the asyncio
producer, is awaited.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.client.producer.producer_batch import ProducerBatch
from moldau.client.shared.background_loop import is_loop_thread
from moldau.client.shared.client_errors import KafkaTimeoutError
from moldau.client.shared.interceptors import RecordMetadata
from moldau.client.shared.user_callbacks import call

T = TypeVar("T")

_STATE = frozenset(vars(Future()))
"""What `Future` keeps in an object."""
_making = threading.Lock()


class LazyFuture(Future[T]):
    """A future that costs nothing before it is looked at. One that is under way cannot be
    cancelled: a record that was handed over may be stored at any moment."""

    __slots__ = ()

    if not TYPE_CHECKING:  # Type checkers would believe that everything is there.

        def __getattr__(self, name: str) -> Any:
            """Called for what is not there: the state of a future that nobody has looked at yet."""
            if name not in _STATE:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            with _making:
                # Two threads may come here for the same future.
                is_new = "_state" not in self.__dict__
                if is_new:
                    Future.__init__(self)
                    self.set_running_or_notify_cancel()
            if is_new:
                self._when_done(self._settle)
            return self.__dict__[name]

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._is_done()

    def result(self, timeout: float | None = None) -> T:
        """Wait up to `timeout` seconds for the outcome; raises if a record was not stored."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._outcome()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait up to `timeout` seconds; why it was not stored, None if it was."""
        if not self._is_done():
            if is_loop_thread():
                raise RuntimeError("waiting in a callback would wait for itself; use on_delivery")
            try:
                super().exception(timeout)
            except TimeoutError:
                raise KafkaTimeoutError(
                    f"The record was not acknowledged within {timeout} s"
                ) from None
        return self._error()

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Call `fn(self)` once the outcome is known, at once if it is; what it raises is logged."""
        name = f"A callback for {self._place()}"
        super().add_done_callback(lambda future: call(name, fn, future))

    def _settle(self) -> None:
        error = self._error()
        try:
            if error is not None:
                self.set_exception(error)
            else:
                self.set_result(self._outcome())
        except InvalidStateError:
            pass  # A batch may tell twice.

    def _place(self) -> str:
        """Where the records go, for the log."""
        raise NotImplementedError

    def _is_done(self) -> bool:
        raise NotImplementedError

    def _error(self) -> BaseException | None:
        """Once done."""
        raise NotImplementedError

    def _outcome(self) -> T:
        """Once done without an error."""
        raise NotImplementedError

    def _when_done(self, waiter: Callable[[], object]) -> None:
        raise NotImplementedError


class RecordFuture(LazyFuture[RecordMetadata]):
    """A `concurrent.futures.Future` of the record's `RecordMetadata`.

    >>> future = producer.send("orders", b"1 tea")
    >>> future.result(timeout=10).offset
    0
    """

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def _place(self) -> str:
        return str(self._batch.topic_partition)

    def _is_done(self) -> bool:
        return self._batch.locate(self._index)[0].is_done

    def _error(self) -> BaseException | None:
        return self._batch.locate(self._index)[0].error

    def _outcome(self) -> RecordMetadata:
        batch, index = self._batch.locate(self._index)
        return batch.metadata(index, self._timestamp)

    def _when_done(self, waiter: Callable[[], object]) -> None:
        _when_done(self._batch, self._index, waiter)


class BulkFuture(LazyFuture[int]):
    """A `concurrent.futures.Future` of how many records `send_many` has stored: all of them, or
    the error of one that was not."""

    __slots__ = ("_batches", "_count")

    def __init__(self, batches: list[ProducerBatch], count: int) -> None:
        self._batches = batches
        self._count = count

    def _place(self) -> str:
        return ", ".join(sorted({batch.topic for batch in self._batches}))

    def _is_done(self) -> bool:
        return all(batch.is_done for batch in self._batches)

    def _error(self) -> BaseException | None:
        leaves = (leaf for batch in self._batches for leaf in batch.leaves())
        return next((leaf.error for leaf in leaves if leaf.error is not None), None)

    def _outcome(self) -> int:
        return self._count

    def _when_done(self, waiter: Callable[[], object]) -> None:
        def look() -> None:
            if self._is_done():
                waiter()

        if not self._batches:
            waiter()
        for batch in self._batches:
            batch.when_done(look)


class RecordAwaitable:
    """What `aio.Producer.send` gives: await it for the record's `RecordMetadata`.

    >>> stored = await producer.send("orders", b"1 tea")
    >>> (await stored).offset
    0
    """

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.locate(self._index)[0].is_done

    def result(self) -> RecordMetadata:
        """The outcome, which must be known; raises if the record was not stored."""
        self._check_done()
        batch, index = self._batch.locate(self._index)
        if batch.error is not None:
            raise batch.error
        return batch.metadata(index, self._timestamp)

    def exception(self) -> BaseException | None:
        """Why the record was not stored, None if it was; the outcome must be known."""
        self._check_done()
        return self._batch.locate(self._index)[0].error

    def add_done_callback(self, fn: Callable[[RecordAwaitable], object]) -> None:
        """Call `fn(self)` on the loop once the outcome is known, at once if it is."""
        left = [fn]

        def tell() -> None:
            if left:
                left.clear()
                call(f"A callback for {self._batch.topic_partition}", fn, self)

        _when_done(self._batch, self._index, tell)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.done():
            yield from _landing(lambda wake: _when_done(self._batch, self._index, wake))
        return self.result()

    def _check_done(self) -> None:
        if not self.done():
            raise asyncio.InvalidStateError("the record is still under way: await it")


class BulkAwaitable:
    """What `aio.Producer.send_many` gives: await it for the number of records, all stored.

    >>> stored = await producer.send_many("orders", [b"1", b"2"])
    >>> await stored
    2
    """

    __slots__ = ("_batches", "_count")

    def __init__(self, batches: list[ProducerBatch], count: int) -> None:
        self._batches = batches
        self._count = count

    def __await__(self) -> Generator[Any, None, int]:
        for batch in self._batches:
            if not batch.is_done:
                yield from _landing(batch.when_done)
        for leaf in (leaf for batch in self._batches for leaf in batch.leaves()):
            if leaf.error is not None:
                raise leaf.error
        return self._count


def _landing(when_done: Callable[[Callable[[], object]], None]) -> Generator[Any, None, None]:
    """Wait on the running loop, whichever thread tells the outcome."""
    loop = asyncio.get_running_loop()
    landed: asyncio.Future[None] = loop.create_future()

    def land() -> None:
        if not landed.done():
            landed.set_result(None)

    def wake() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(land)

    when_done(wake)
    yield from landed


def _when_done(batch: ProducerBatch, index: int, waiter: Callable[[], object]) -> None:
    """The record may move to another batch while it is waited for."""

    def look() -> None:
        if batch.locate(index)[0].is_done:
            waiter()
        else:
            _when_done(batch, index, waiter)

    batch.locate(index)[0].when_done(look)
