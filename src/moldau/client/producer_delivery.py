"""What `send` gives back: a promise of where the record went.

It is only a batch and an index until somebody waits for it, so fire-and-forget costs next to
nothing. It can be waited for by threads (`get`), by coroutines of any loop (`await`) and by
callbacks.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from typing import Any

from moldau.client.errors import KafkaTimeoutError
from moldau.client.interceptors import RecordMetadata
from moldau.client.loop_thread import is_loop_thread
from moldau.client.producer_batch import OnDelivery, ProducerBatch
from moldau.client.user_code import call


class Delivery:
    """A future of RecordMetadata.

    >>> metadata = producer.send("orders", b"1").get(timeout=10)     # doctest: +SKIP
    >>> metadata = await (await aio_producer.send("orders", b"1"))   # doctest: +SKIP
    """

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    @property
    def batch(self) -> ProducerBatch:
        return self._batch

    @property
    def starts_batch(self) -> bool:
        """Whether the record was the first of its batch."""
        return self._index == 0

    def done(self) -> bool:
        return self._batch.locate(self._index)[0].is_done

    def result(self) -> RecordMetadata:
        """The outcome, which must be known; raises if the record was not stored."""
        batch, index = self._batch.locate(self._index)
        if not batch.is_done:
            raise asyncio.InvalidStateError("the record is still under way")
        if batch.error is not None:
            raise batch.error
        return batch.metadata(index, self._timestamp)

    def exception(self) -> BaseException | None:
        """Why the record was not stored; None if it was, or is still under way."""
        return self._batch.locate(self._index)[0].error

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Wait up to `timeout` seconds for the outcome."""
        if not self.done():
            if is_loop_thread():
                raise RuntimeError("get() in a callback would wait for itself; use on_delivery")
            landed = threading.Event()
            self._when_done(landed.set)
            if not landed.wait(timeout):
                raise KafkaTimeoutError(f"The record was not acknowledged within {timeout} s")
        return self.result()

    def add_done_callback(self, callback: OnDelivery) -> None:
        """Call `callback(metadata, error)` once the outcome is known."""

        left = [callback]

        def tell() -> None:
            if not left:
                return
            left.clear()
            batch, index = self._batch.locate(self._index)
            known = None if batch.error is not None else batch.metadata(index, self._timestamp)
            call(f"A callback for {batch.topic_partition}", callback, known, batch.error)

        self._when_done(tell)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.done():
            loop = asyncio.get_running_loop()
            landed: asyncio.Future[None] = loop.create_future()

            def land() -> None:
                if not landed.done():
                    landed.set_result(None)

            def wake() -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(land)

            self._when_done(wake)
            yield from landed
        return self.result()

    def _when_done(self, waiter: Any) -> None:
        """The record may move to another batch while it is waited for."""
        batch = self._batch.locate(self._index)[0]

        def look() -> None:
            if self.done():
                waiter()
            else:
                self._when_done(waiter)

        batch.when_done(look)
