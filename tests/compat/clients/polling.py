"""A group member in a thread of its own, for client libraries that run inside this process."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Protocol

from tests.compat.clients.group_port import Change, Place, Read

JOIN_SECONDS_MAX = 60

Changed = Callable[[str, Iterable[Place]], None]


class Consumer(Protocol):
    """A library's consumer; every call comes from the same thread."""

    def poll(self) -> list[Read]:
        """Wait briefly; rebalance callbacks are served meanwhile."""

    def commit(self, *, wait: bool) -> None: ...

    def seek(self, topic: str, partition: int, offset: int) -> None: ...

    def close(self) -> None: ...


class PollingMember:
    """`make` is called in the thread, with what the library's callbacks are to call."""

    def __init__(self, make: Callable[[Changed], Consumer], *, commits: bool) -> None:
        self.make = make
        self.commits = commits
        self.seen_changes: list[Change] = []
        self.seen_reads: list[Read] = []
        self.asked: queue.SimpleQueue[tuple[Callable[[Consumer], None], Future[None]]] = (
            queue.SimpleQueue()
        )
        self.stopping = threading.Event()
        self.has_stopped = False
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def changed(self, kind: str, places: Iterable[Place]) -> None:
        if not self.has_stopped:
            self.seen_changes.append(Change(time.time_ns() // 1000, kind, frozenset(places)))

    def run(self) -> None:
        try:
            consumer = self.make(self.changed)
            try:
                while not self.stopping.is_set():
                    self.once(consumer)
            finally:
                # It stops working on its partitions before the group hears of it.
                self.changed(
                    "revoked", {place for one in self.seen_changes for place in one.places}
                )
                self.has_stopped = True
                consumer.close()
        except BaseException as failure:
            self.failure = failure

    def once(self, consumer: Consumer) -> None:
        while not self.asked.empty():
            work, done = self.asked.get()
            try:
                work(consumer)
            except BaseException as failure:
                done.set_exception(failure)
            else:
                done.set_result(None)
        reads = consumer.poll()
        self.seen_reads += reads
        if reads and self.commits:
            consumer.commit(wait=True)

    def changes(self) -> list[Change]:
        self.check()
        return list(self.seen_changes)

    def reads(self) -> list[Read]:
        self.check()
        return list(self.seen_reads)

    def commit(self, *, wait: bool) -> None:
        self.ask(lambda consumer: consumer.commit(wait=wait))

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self.ask(lambda consumer: consumer.seek(topic, partition, offset))

    def ask(self, work: Callable[[Consumer], None]) -> None:
        done: Future[None] = Future()
        self.asked.put((work, done))
        done.result(JOIN_SECONDS_MAX)

    def stop(self) -> None:
        self.stopping.set()
        self.thread.join(JOIN_SECONDS_MAX)
        assert not self.thread.is_alive(), "the consumer did not close"
        self.check()

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure
