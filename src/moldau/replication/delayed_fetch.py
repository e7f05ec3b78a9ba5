"""A fetch over many partitions: read what there is, and wait for more if that is too little.

The first pass usually suffices and does not suspend. While a fetch is parked nothing is read: it
counts the bytes that become readable and looks again once there are enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.model.errors import ApiError
from moldau.model.names import BrokerId, Millis, Offset
from moldau.replication.delayed_requests import Waiting, Watched
from moldau.replication.fetch_sessions import Answers, FetchedPartition, PartitionRead
from moldau.replication.following.replication_throttle import Throttle, names
from moldau.replication.replica import NO_FOLLOWER, Replica
from moldau.replication.replica_loading import load

Find = Callable[[FetchedPartition], Replica]
"""The replica that a client means; raises ApiError if it is not here."""


Prefer = Callable[[Replica, FetchedPartition], BrokerId]
"""The replica that a consumer should rather read from; NO_FOLLOWER if this one will do."""

UNCOUNTED = -1
WATERMARK_NEWS_MS: Millis = 10
"""How long news of the high watermark wait for records to travel with them to a follower."""


class FetchLimits(NamedTuple):
    min_bytes: int
    max_bytes: int
    max_wait_ms: Millis
    isolation: int
    follower: BrokerId = NO_FOLLOWER
    """The broker that fetches to replicate."""
    leader_only: bool = True
    """Newer consumers may read from followers as well."""
    throttle: Throttle | None = None
    """How fast followers that are not in sync may go, where their topic says so."""


class Pass(NamedTuple):
    answers: Answers
    size_bytes: int
    is_final: bool
    """An error or a divergence is told at once."""
    at_rest: Sequence[tuple[FetchedPartition, Replica]] = ()
    """What could not be read because its log has to be loaded first; not among the answers."""


def read_all(
    find: Find,
    wanted: Sequence[FetchedPartition],
    limits: FetchLimits,
    now_ms: Millis,
    prefer: Prefer | None = None,
    *,
    is_second: bool = False,
    begun: Pass | None = None,
) -> Pass:
    """`begun` is what the partitions before these gave, where many are read in turns."""
    answers, size_bytes, is_final, _ = begun or Pass([], 0, False)
    at_rest: list[tuple[FetchedPartition, Replica]] = []
    room_bytes = max(0, limits.max_bytes - size_bytes)
    follower, isolation = limits.follower, limits.isolation
    for partition in wanted:
        try:
            replica = find(partition)
            nearer = NO_FOLLOWER if prefer is None else prefer(replica, partition)
            # The first batch of all is sent whatever its size, or a client could never get past a
            # large one (KIP-74).
            max_bytes, min_one_batch = min(partition.max_bytes, room_bytes), not size_bytes
            read: PartitionRead | None
            if follower >= 0:
                read = _read_for_follower(
                    replica, partition, limits, max_bytes, min_one_batch, now_ms, is_second
                )
            elif nearer != NO_FOLLOWER:
                read = replica.read_elsewhere(isolation, nearer)
                is_final = True
            else:
                read = replica.read(
                    partition, max_bytes, min_one_batch, isolation, limits.leader_only
                )
            if read is None:
                at_rest.append((partition, replica))
                continue
        except ApiError as refusal:
            read = PartitionRead(refusal.error)
        if read.error or read.diverging_epoch is not None:
            is_final = True
        elif read.size_bytes:
            size_bytes += read.size_bytes
            room_bytes = max(0, room_bytes - read.size_bytes)
        answers.append((partition, read))
    return Pass(answers, size_bytes, is_final, at_rest)


async def read_at_rest(
    find: Find,
    found: Pass,
    limits: FetchLimits,
    now_ms: Millis,
    prefer: Prefer | None = None,
    *,
    is_second: bool = False,
) -> Pass:
    """Load what a pass found at rest, and read that too."""
    answers, size_bytes, is_final, at_rest = found
    loads = asyncio.gather(*(load(replica) for _, replica in at_rest), return_exceptions=True)
    loaded: list[FetchedPartition] = []
    for (partition, _), outcome in zip(at_rest, await loads, strict=True):
        if isinstance(outcome, ApiError):
            answers.append((partition, PartitionRead(outcome.error)))
            is_final = True
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            loaded.append(partition)
    begun = Pass(answers, size_bytes, is_final)
    return read_all(find, loaded, limits, now_ms, prefer, is_second=is_second, begun=begun)


def _read_for_follower(
    replica: Replica,
    wanted: FetchedPartition,
    limits: FetchLimits,
    max_bytes: int,
    min_one_batch: bool,
    now_ms: Millis,
    is_second: bool,
) -> PartitionRead | None:
    """What it asks for, and what its asking says of it; a second look says nothing new."""
    follower, throttle, partition = limits.follower, limits.throttle, replica.partition
    partition.check_leader(wanted.current_leader_epoch)
    partition.check_follower(follower, wanted.current_leader_epoch)
    is_throttled = throttle is not None and _is_throttled(replica, limits)
    if is_throttled and throttle is not None and throttle.is_exceeded(now_ms):
        max_bytes, min_one_batch = 0, False
    read = replica.read(wanted, max_bytes, min_one_batch, limits.isolation)
    if read is None:
        return None
    if is_throttled and throttle is not None and read.size_bytes:
        throttle.record(read.size_bytes, now_ms)
    if read.diverging_epoch is not None:
        return read
    if not is_second:
        replica.follower_fetched(follower, wanted.fetch_offset, now_ms, wanted.reader_log_start)
    return read._replace(high_watermark=partition.high_watermark)


def _is_throttled(replica: Replica, limits: FetchLimits) -> bool:
    entries = replica.settings.leader_replication_throttled_replicas
    partition = replica.partition
    return (
        bool(entries)
        and limits.follower not in partition.isr
        and names(entries, partition.topic_partition.partition, partition.node_id)
    )


class NewsAwaited:
    """Whether a follower would learn of a higher high watermark than it was told of."""

    __slots__ = ("_told",)

    def __init__(self, find: Find, wanted: Sequence[FetchedPartition]) -> None:
        self._told: dict[Watched, Offset] = {}
        for partition in wanted:
            # Without a session nobody knows what was told.
            if partition.high_watermark >= 0:
                self._told[find(partition)] = partition.high_watermark

    def __call__(self, place: Watched) -> bool:
        assert isinstance(place, Replica)
        return place.partition.high_watermark > self._told.get(
            place, place.partition.high_watermark
        )

    @property
    def is_there(self) -> bool:
        return any(map(self, self._told))


class BytesAwaited:
    """How much more must become readable before a second look is worth it."""

    __slots__ = ("_isolation", "_missing_bytes", "_seen")

    def __init__(self, missing_bytes: int, isolation: int) -> None:
        self._missing_bytes = missing_bytes
        self._isolation = isolation
        self._seen: dict[Watched, tuple[Offset, int]] = {}

    def watch(self, replica: Replica) -> None:
        self._seen[replica] = self._look(replica)

    def _look(self, replica: Replica) -> tuple[Offset, int]:
        """Where readers stop, and a count of the bytes before it if that can be had for free."""
        offset_end = replica.readable_end(self._isolation)
        is_all = offset_end == replica.log.offset_end
        return offset_end, replica.bytes_appended if is_all else UNCOUNTED

    @property
    def watched(self) -> list[Watched]:
        return list(self._seen)

    def __call__(self, place: Watched) -> bool:
        assert isinstance(place, Replica)
        offset_seen, bytes_seen = self._seen[place]
        seen_now = self._look(place)
        self._seen[place] = seen_now
        offset_end = seen_now[0]
        if offset_end == offset_seen:
            # More was written, but it is not committed yet or its transaction is undecided.
            return False
        if bytes_seen == UNCOUNTED or offset_end < offset_seen:
            return True
        self._missing_bytes -= place.bytes_appended - bytes_seen
        return self._missing_bytes <= 0


async def poll(
    find: Find,
    wanted: Sequence[FetchedPartition],
    limits: FetchLimits,
    first: Pass,
    waiting: Waiting,
    clock_ms: Callable[[], Millis],
) -> Answers:
    """Go on after a first pass that found too little, until there is enough or time is up."""
    deadline_ms = clock_ms() + limits.max_wait_ms
    found = first
    while not is_enough(found, limits):
        awaited = BytesAwaited(limits.min_bytes - found.size_bytes, limits.isolation)
        for partition in wanted:
            awaited.watch(find(partition))
        left_ms = deadline_ms - clock_ms()
        if limits.follower >= 0:
            in_time = await _until_worth_telling(find, wanted, awaited, left_ms, waiting)
        else:
            in_time = await waiting.until(awaited.watched, awaited, left_ms)
        found = read_all(find, wanted, limits, clock_ms(), is_second=True)
        if found.at_rest:
            found = await read_at_rest(find, found, limits, clock_ms(), is_second=True)
        if not in_time:
            break
    return found.answers


async def _until_worth_telling(
    find: Find,
    wanted: Sequence[FetchedPartition],
    awaited: BytesAwaited,
    left_ms: Millis,
    waiting: Waiting,
) -> bool:
    """Wait for records. If only the high watermark moves, give records a moment to come along:
    a follower needs to know, but under load the next records tell it anyway."""
    news = NewsAwaited(find, wanted)
    have_come = False

    def is_ready(place: Watched) -> bool:
        nonlocal have_come
        have_come = awaited(place)
        return have_come or news(place)

    if not news.is_there:
        in_time = await waiting.until(awaited.watched, is_ready, left_ms)
        if not in_time or not news.is_there or have_come:
            return in_time
    await waiting.until(awaited.watched, awaited, min(left_ms, WATERMARK_NEWS_MS))
    return False


def is_enough(found: Pass, limits: FetchLimits) -> bool:
    return found.is_final or found.size_bytes >= limits.min_bytes or not found.answers
