"""`StatefulConsumer`: the member of the group. It reads, and gives each partition's records to the
worker of that partition; a rebalance stops workers and begins others.

Everything here runs in the thread that calls `run`; the workers are in `partition_worker.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Generic, Self, TypeVar

from moldau.client.consumer.blocking_consumer import Consumer
from moldau.client.consumer.consumer_coordinator import ConsumerRebalanceListener
from moldau.client.shared.client_errors import WakeupError
from moldau.model.names import TopicPartition
from moldau.recovery.application import Application, FullSnapshots, Topics
from moldau.recovery.full_writer import FullWriter
from moldau.recovery.partition_worker import Observe, PartitionWorker, WorkerParts
from moldau.recovery.recovery_errors import is_passing
from moldau.recovery.transactional_ids import partition_id

S = TypeVar("S")
log = logging.getLogger("moldau.recovery")

POLL_SECONDS = 0.2
STOP_SECONDS = 30.0
PAUSE_SECONDS_MAX = 30.0
SECONDS_OF_GOOD_WORK = 60.0
"""A worker that lasted so long was well: the next one begins without a pause."""


def _silent(step: str, partition: TopicPartition) -> None:
    pass


@dataclass
class _Post(Generic[S]):
    """A partition that this member has, and who works there."""

    worker: PartitionWorker[S] | None = None
    done: Future[None] | None = None
    began: float = 0.0
    pause: float = 0.5
    again_at: float = 0.0


class StatefulConsumer(Generic[S]):
    """Runs an `Application` on the partitions that its group gives to this process.

    >>> with StatefulConsumer(clearing, Topics("trades"), settings) as consumer:
    ...     consumer.run()

    `settings` are those of clients: `bootstrap.servers` and `group.id` must be there; those of
    consumers are for reading the input, `producer` holds those of producers that differ.
    `transactional_prefix` comes before the transactional ids. `records_per_transaction` is a
    limit: a transaction takes what has been read. `observe(step, partition)` is called before
    and after each step of a worker, in its thread: for logs, metrics and tests."""

    def __init__(
        self,
        application: Application[S],
        topics: Topics,
        settings: Mapping[str, Any],
        *,
        producer: Mapping[str, Any] | None = None,
        fulls: FullSnapshots | None = None,
        records_per_transaction: int = 500,
        transactional_prefix: str = "",
        observe: Observe = _silent,
    ) -> None:
        if records_per_transaction < 1:
            raise ValueError(
                f"records_per_transaction must be above 0, is {records_per_transaction}"
            )
        if "transactional.id" in (producer or {}):
            raise ValueError("transactional.id is the library's; see transactional_prefix")
        reading = {
            "partition.assignment.strategy": "cooperative-sticky",
            **settings,
            "enable.auto.commit": "false",
            "isolation.level": "read_committed",
            "auto.offset.reset": "none",
        }
        alone = {key: reading[key] for key in reading if key != "group.instance.id"}
        common = {key: settings[key] for key in settings if key.startswith(_COMMON)}
        writing = {**common, **(producer or {}), "enable.idempotence": "true", "acks": "all"}
        self._topics = topics
        self._batch = records_per_transaction
        self._id_of = partial(partition_id, str(settings["group.id"]), prefix=transactional_prefix)
        self._posts: dict[TopicPartition, _Post[S]] = {}
        self._leaving: set[Future[None]] = set()
        self._is_stopping = False
        self._is_closed = False
        self._consumer = Consumer(reading)
        self._parts = WorkerParts(
            application,
            topics,
            fulls or FullSnapshots(),
            {**alone, "auto.offset.reset": "earliest"},
            writing,
            FullWriter(writing, topics.fulls),
            self._consumer.group_metadata,
            observe,
            records_per_transaction,
            self._wake,
        )

    def run(self, until: Callable[[], bool] | None = None) -> None:
        """Work until `stop` is called, or `until()` says so, which is asked several times a
        second. Raises what the application raises, and what cannot be mended by a new beginning:
        `RecoveryError`, refused access, a record that is too large."""
        self._consumer.subscribe([self._topics.input], _Listener(self))
        while not self._is_stopping and not (until and until()):
            self._poll()
            for partition, post in list(self._posts.items()):
                self._look_after(partition, post)
            self._leaving = {future for future in self._leaving if not future.done()}

    def stop(self) -> None:
        """From any thread, or a handler of a signal: have `run` return."""
        self._is_stopping = True
        self._consumer.wakeup()

    def close(self) -> None:
        """Take full snapshots, leave the group, close everything."""
        if self._is_closed:
            return
        self._is_closed = True
        with ExitStack() as parts:
            parts.callback(self._parts.writer.close, STOP_SECONDS)
            parts.callback(self._consumer.close)
            self._release(list(self._posts), with_full=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *outcome: object) -> None:
        self.close()

    # The main loop.

    def _wake(self) -> None:
        if not self._is_closed:
            self._consumer.wakeup()

    def _poll(self) -> None:
        try:
            records = self._consumer.poll(POLL_SECONDS)
        except WakeupError:
            return
        for partition, some in records.items():
            post = self._posts.get(partition)
            if post is not None and post.worker is not None:
                post.worker.put(some)

    def _look_after(self, partition: TopicPartition, post: _Post[S]) -> None:
        worker, done = post.worker, post.done
        if worker is None or done is None:
            if monotonic() >= post.again_at:
                self._employ(partition, post)
            return
        if done.done():
            self._ended(partition, post, done.exception())
            return
        if (begin := worker.take_begin()) is not None:
            self._consumer.seek(partition, begin)
            self._consumer.resume([partition])
            return
        if not worker.is_held and worker.waiting >= 2 * self._batch:
            self._consumer.pause([partition])
            worker.is_held = True
        elif worker.is_held and worker.waiting < self._batch:
            self._consumer.resume([partition])
            worker.is_held = False

    def _employ(self, partition: TopicPartition, post: _Post[S]) -> None:
        """A worker for a partition. Nothing is read there before the state is loaded."""
        self._consumer.pause([partition])
        self._consumer.seek(partition, 0)
        post.worker = PartitionWorker(self._parts, partition, self._id_of(partition))
        threads = ThreadPoolExecutor(1, thread_name_prefix=f"recovery-{partition}")
        post.done = threads.submit(post.worker.run)
        threads.shutdown(wait=False)
        post.began = monotonic()

    def _ended(
        self, partition: TopicPartition, post: _Post[S], error: BaseException | None
    ) -> None:
        """A worker that nobody stopped is over: begin again, if that can help."""
        if error is None:
            return
        post.worker = post.done = None
        if not is_passing(error):
            raise error
        was_well = monotonic() - post.began > SECONDS_OF_GOOD_WORK
        post.pause = 0.5 if was_well else min(2 * post.pause, PAUSE_SECONDS_MAX)
        post.again_at = monotonic() + post.pause
        self._consumer.pause([partition])
        log.warning("%s begins again in %.1f s: %s", partition, post.pause, error)

    # Rebalances.

    def _take(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            post = self._posts[partition] = _Post()
            self._employ(partition, post)

    def _release(self, partitions: list[TopicPartition], *, with_full: bool = False) -> None:
        """They go to others, or we go: what is queued is dropped. Who has not ended in time is
        left to itself: its successor fences it."""
        posts = [post for post in (self._posts.pop(tp, None) for tp in partitions) if post]
        for post in posts:
            if post.worker is not None:
                post.worker.stop(with_full=with_full)
        futures = [post.done for post in posts if post.done is not None]
        unfinished = wait(futures, STOP_SECONDS).not_done
        self._leaving |= unfinished
        if unfinished:
            log.warning("%d workers did not end within %s s", len(unfinished), STOP_SECONDS)
        for future in futures:
            if future.done() and (error := future.exception()) and not is_passing(error):
                raise error


class _Listener(ConsumerRebalanceListener):
    def __init__(self, consumer: StatefulConsumer[Any]) -> None:
        self._consumer = consumer

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self._consumer._take(partitions)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self._consumer._release(partitions)


_COMMON = (
    "bootstrap.servers",
    "security.",
    "sasl.",
    "ssl.",
    "client.",
    "metadata.",
    "connections.",
    "reconnect.",
    "retry.",
    "request.timeout",
    "socket.",
)
"""How the names of settings begin that producers have too."""
