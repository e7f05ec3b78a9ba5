"""One machine for each partition of an internal topic that this broker leads.

A key (a group, a transactional id) belongs to the partition that its hash names, and whoever leads
that partition coordinates the key. A shard comes with the leadership, is loaded by replaying the
partition's log, and goes with the leadership: its state is worth nothing once another broker
writes to the log. What a shard needs of the log comes in through `open_log`.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from moldau.engine.engine import Engine, seen
from moldau.engine.key_hash import partition_for
from moldau.engine.machine import Command, Journal, Machine, Send
from moldau.engine.timers import TimerHandle, Timers
from moldau.model.clock import Clock
from moldau.model.cluster import ClusterImage, TopicImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import BrokerId, Millis, TopicId
from moldau.records.batch import BatchHeader
from moldau.records.batch_codec import Record

log = logging.getLogger(__name__)

R = TypeVar("R")

FACTS_PER_TURN = 250
"""Facts that are replayed at a time; then the loop does something else."""


LOAD_TIMES_MAX = 100
RETRY_MS = 30_000
"""After this a log that could not be loaded is tried again."""


class Codec(Protocol):
    def encode(self, facts: Sequence[object], wall_ms: Millis) -> list[bytes]:
        """Ready record batches."""

    def decode(self, header: BatchHeader, records: list[Record]) -> Iterable[object]:
        """The facts that one batch holds."""


class ShardLog(Journal, Protocol):
    """A partition's log, as its leader in one leader epoch sees it."""

    @property
    def position(self) -> int:
        """Of the last fact; -1 if there is none."""

    @property
    def is_current(self) -> bool:
        """Whether that epoch lasts: afterwards nothing that was loaded can be trusted."""

    @property
    def is_loaded(self) -> bool:
        """Whether it can be written to and read."""

    async def load(self) -> None:
        """Make it so. Raises ApiError."""

    def batches(self) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """Everything there is, read piece by piece. Raises ApiError for what cannot be read."""

    def close(self) -> None:
        """Nobody listens any more."""


OpenLog = Callable[[int, Codec], ShardLog]
"""By partition; raises ApiError if the log is not here or not led."""


class ShardMachine(Machine, Protocol):
    @property
    def kept_bytes(self) -> int:
        """About what its state takes in memory."""


NewMachine = Callable[[int, int], ShardMachine]
"""By partition and leader epoch."""
Observe = Callable[[int, Sequence[object]], None]
"""Told of a partition's committed facts."""


class _Shard:
    __slots__ = ("engine", "is_dropped", "leader_epoch", "log", "machine", "partition")

    def __init__(self, partition: int, leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.log: ShardLog | None = None
        self.machine: ShardMachine | None = None
        self.engine: Engine | None = None
        """None until everything is loaded."""
        self.is_dropped = False

    @property
    def is_current(self) -> bool:
        return self.log is not None and self.log.is_current


class Shards:
    def __init__(
        self,
        topic: str,
        node_id: BrokerId,
        *,
        open_log: OpenLog,
        new_machine: NewMachine,
        new_codec: Callable[[], Codec],
        loaded: Callable[[], object],
        clock: Clock,
        timers: Timers,
        observe: Observe | None = None,
        send: Callable[[Send], None] | None = None,
        led: Callable[[], Mapping[int, int]] | None = None,
        bytes_max: Callable[[], int] = lambda: sys.maxsize,
    ) -> None:
        """`loaded()` makes the command that a machine is given first after its replay; `led`
        gives the leader epochs of the partitions led here, without it the image says so. Nothing is
        made before there is a partition to lead, so that the start stays short. `bytes_max` is what
        the states of all machines may take."""
        self.topic = topic
        self._node_id = node_id
        self._open_log = open_log
        self._new_machine = new_machine
        self._new_codec = new_codec
        self._codec: Codec | None = None
        self._loaded = loaded
        self._clock = clock
        self._timers = timers
        self._observe = observe
        self._send = send
        self._led_here = led
        self._bytes_max = bytes_max
        self._leader_epochs: Mapping[int, int] = {}
        self._image: TopicImage | None = None
        self._topic_id: TopicId | None = None
        self._shards: dict[int, _Shard] = {}
        self._failed: set[int] = set()
        """Led here, but their logs cannot be understood."""
        self._retries: dict[int, TimerHandle] = {}
        """Of those that failed."""
        self._queue: deque[_Shard] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._missing_because = ""
        self.load_times_ms: deque[Millis] = deque(maxlen=LOAD_TIMES_MAX)
        """Of the last partitions that were loaded."""

    # Asking

    def partition_of(self, key: str) -> int:
        """Raises COORDINATOR_NOT_AVAILABLE while the topic does not exist."""
        if self._image is None:
            raise self._no_topic(Error.COORDINATOR_NOT_AVAILABLE)
        return partition_for(key, len(self._image.partitions))

    def partitions(self) -> list[int]:
        """Those that are led here and loaded."""
        return [partition for partition, shard in self._shards.items() if shard.engine is not None]

    def states(self) -> Counter[str]:
        """How many partitions are active, loading, failed."""
        states = Counter(active=len(self.partitions()), failed=len(self._failed))
        states["loading"] = len(self._shards) - states["active"]
        return states

    def machines(self) -> list[ShardMachine]:
        """Of the partitions that are led here and loaded."""
        loaded = (shard.machine for shard in self._shards.values() if shard.engine is not None)
        return [machine for machine in loaded if machine is not None]

    @property
    def kept_bytes(self) -> int:
        """About what the states of all of them take in memory."""
        machines = (shard.machine for shard in self._shards.values())
        return sum(machine.kept_bytes for machine in machines if machine is not None)

    @property
    def is_loading(self) -> bool:
        return any(shard.engine is None for shard in self._shards.values())

    def submit(self, key: str, command: Command[R]) -> asyncio.Future[R]:
        """Give the command to whoever coordinates the key. Refusals are in the future."""
        if self._image is None:
            return _refused(self._no_topic())
        return self.submit_to(partition_for(key, len(self._image.partitions)), command)

    def submit_to(self, partition: int, command: Command[R]) -> asyncio.Future[R]:
        shard = self._shards.get(partition)
        if shard is None:
            return _refused(self._absence(partition))
        if shard.engine is None:
            text = f"{self.topic}-{partition} is being loaded"
            return _refused(ApiError(Error.COORDINATOR_LOAD_IN_PROGRESS, text))
        if not shard.is_current:
            # The role has changed, and `follow` will be told when all other roles have.
            return _refused(self._not_led(partition))
        return shard.engine.submit(command)

    def tell_all(self, command: object) -> None:
        """For every machine that is loaded; nobody waits."""
        for shard in list(self._shards.values()):
            if shard.engine is not None:
                shard.engine.tell(command)

    def _absence(self, partition: int) -> ApiError:
        if self._image is None:
            return self._no_topic()
        if partition in self._failed:
            text = f"{self.topic}-{partition} could not be loaded"
            return ApiError(Error.NOT_COORDINATOR, text)
        return self._not_led(partition)

    def _not_led(self, partition: int) -> ApiError:
        text = f"{self.topic}-{partition} is not led by broker {self._node_id}"
        return ApiError(Error.NOT_COORDINATOR, text)

    def _no_topic(self, error: Error = Error.NOT_COORDINATOR) -> ApiError:
        """Who looks for a coordinator waits, who asks one looks for it: Kafka's answers."""
        return ApiError(error, f"there is no topic {self.topic} yet")

    def say_missing(self, reason: str) -> None:
        """Why the topic could not be made: said once, not to every client that asks."""
        if reason != self._missing_because:
            self._missing_because = reason
            log.warning("%s is not there, so nobody coordinates: %s", self.topic, reason)

    # Following the cluster

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Called after every change of the cluster or of the replicas' roles, when the replicas
        have followed it."""
        topic = new.topics.get(self.topic)
        if self._is_stopped:
            return
        led = self._led(topic)
        if topic is self._image and led == self._leader_epochs and self._has_all(led):
            return
        self._leader_epochs = led
        topic_id = None if topic is None else topic.id
        # A role may come before the image that names its topic.
        is_same_topic = topic_id == self._topic_id or (
            self._topic_id is None and self._led_here is not None
        )
        self._image = topic
        self._topic_id = topic_id
        for shard in list(self._shards.values()):
            is_led = led.get(shard.partition) == shard.leader_epoch and shard.is_current
            if not is_same_topic or not is_led:
                self._drop(shard)
        self._failed &= led.keys()
        for partition, leader_epoch in led.items():
            if partition not in self._shards:
                self._take(partition, leader_epoch)

    def _has_all(self, led: Mapping[int, int]) -> bool:
        """Whether each partition that is led has its shard, on the log that it has now."""
        for partition in led:
            shard = self._shards.get(partition)
            if partition not in self._failed and (shard is None or not shard.is_current):
                return False
        return True

    def stop(self) -> None:
        """The broker goes down: whoever waits is told to look for another coordinator."""
        self._is_stopped = True
        for shard in list(self._shards.values()):
            self._drop(shard)
        for retry in self._retries.values():
            retry.cancel()
        self._retries.clear()

    def _led(self, topic: TopicImage | None) -> Mapping[int, int]:
        if self._led_here is not None:
            return self._led_here()
        if topic is None:
            return {}
        return {
            partition: image.leader_epoch
            for partition, image in enumerate(topic.partitions)
            if image.leader == self._node_id
        }

    def _drop(self, shard: _Shard) -> None:
        del self._shards[shard.partition]
        shard.is_dropped = True
        if shard.engine is not None:
            text = f"broker {self._node_id} no longer leads {self.topic}-{shard.partition}"
            shard.engine.stop(Error.NOT_COORDINATOR, text)
        if shard.log is not None:
            shard.log.close()

    def _take(self, partition: int, leader_epoch: int) -> None:
        shard = _Shard(partition, leader_epoch)
        self._failed.discard(partition)
        if self._codec is None:
            self._codec = self._new_codec()
        try:
            shard.log = self._open_log(partition, self._codec)
        except ApiError as refusal:
            self._fail(shard, refusal)
            return
        self._shards[partition] = shard
        if shard.log.position < 0 and shard.log.is_loaded:
            # A new log is ready at once, so that the first to use it need not come back.
            self._run(shard, shard.log, self._new_machine(partition, leader_epoch))
            return
        self._queue.append(shard)
        if self._loading is None:
            self._load_next()

    # Loading

    def _load_next(self) -> None:
        while self._queue:
            shard = self._queue.popleft()
            if not shard.is_dropped:
                self._loading = asyncio.get_running_loop().create_task(self._load(shard))
                self._loading.add_done_callback(partial(self._load_ended, shard))
                return

    async def _load(self, shard: _Shard) -> None:
        assert shard.log is not None
        assert self._codec is not None
        began_ms = self._clock.monotonic_ms()
        machine = self._new_machine(shard.partition, shard.leader_epoch)
        await shard.log.load()
        if shard.is_dropped:
            return
        count = 0
        for header, records in shard.log.batches():
            for fact in self._codec.decode(header, records):
                machine.apply(fact)
                count += 1
                if count % FACTS_PER_TURN == 0:
                    await asyncio.sleep(0)
                    if shard.is_dropped:
                        return
        self._run(shard, shard.log, machine)
        took_ms = self._clock.monotonic_ms() - began_ms
        self.load_times_ms.append(took_ms)
        text = "loaded partition=%s-%d facts=%d took_ms=%d"
        log.info(text, self.topic, shard.partition, count, took_ms)

    def _load_ended(self, shard: _Shard, task: asyncio.Task[None]) -> None:
        self._loading = None
        fault = None if task.cancelled() else task.exception()
        if fault is not None and not shard.is_dropped:
            self._drop(shard)
            self._fail(shard, fault)
        self._load_next()

    def _fail(self, shard: _Shard, fault: BaseException) -> None:
        """Other partitions go on; this one is tried again when its leadership changes, and after
        a while: a disk may be well again."""
        self._failed.add(shard.partition)
        self._retry_later(shard)
        log.error(
            "not loaded, its keys are not served: partition=%s-%d fault=%r",
            self.topic,
            shard.partition,
            fault,
            exc_info=None if isinstance(fault, ApiError) else fault,
        )

    def _retry_later(self, shard: _Shard) -> None:
        def retry() -> None:
            del self._retries[shard.partition]
            is_led = self._leader_epochs.get(shard.partition) == shard.leader_epoch
            if is_led and shard.partition in self._failed and not self._is_stopped:
                self._take(shard.partition, shard.leader_epoch)

        earlier = self._retries.get(shard.partition)
        if earlier is not None:
            earlier.cancel()
        self._retries[shard.partition] = self._timers.after(RETRY_MS, retry)

    def _run(self, shard: _Shard, shard_log: ShardLog, machine: ShardMachine) -> None:
        shard.machine = machine
        engine = Engine(
            f"{self.topic}-{shard.partition}",
            machine,
            shard_log,
            clock=self._clock,
            timers=self._timers,
            on_committed=self._observe and partial(self._observe, shard.partition),
            on_stopped=lambda reason: self._stopped(shard, reason),
            send=self._send,
            position=shard_log.position,
            room_bytes=lambda: self._bytes_max() - self.kept_bytes,
        )
        shard.engine = engine
        engine.submit(self._loaded())

    def _stopped(self, shard: _Shard, reason: ApiError) -> None:
        """The engine gave up: only what the log says can be trusted."""
        if shard.is_dropped:
            return
        is_led = shard.is_current
        self._drop(shard)
        if is_led:
            log.error(
                "loading anew partition=%s-%d: %s", self.topic, shard.partition, reason.message
            )
            self._take(shard.partition, shard.leader_epoch)


def _refused(refusal: ApiError) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.set_exception(refusal)
    seen(future)
    return future
