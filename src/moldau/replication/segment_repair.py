"""Damaged segments mended from another replica, batch by batch.

The other broker is asked as a consumer asks, which a follower answers too (KIP-392): it gives
committed records only, and Apache Kafka's brokers give them as well. What comes is judged in
`storage/scrubbing/scrub_repair.py`; the caller puts the finished files in place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from moldau.model.errors import Error
from moldau.model.names import BrokerId, Millis, TopicPartition
from moldau.net.peers import PeerCalls, PeerUnreachable
from moldau.storage.scrubbing.scrub_repair import CannotRepair, EpochsAreWrong, Mending, OffsetRange
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

FETCH_VERSION = 12
"""The last one that names topics by their names."""
FETCH_BYTES = 1 << 20
FETCH_WAIT_MS: Millis = 100
FETCH_TIMEOUT_MS: Millis = 10_000
NO_SESSION_EPOCH = -1
LANE = "repair"


T = TypeVar("T")


class InThread(Protocol):
    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Do what blocks elsewhere."""


class Mended(NamedTuple):
    source: BrokerId | None
    """None if nothing had to be fetched."""
    mendings: list[Mending]


async def mend(
    place: TopicPartition,
    begin: Callable[[], list[Mending]],
    sources: Sequence[BrokerId],
    peers: PeerCalls | None,
    in_thread: InThread,
) -> Mended:
    """Write segments anew with what one of `sources` has, the first that can help. `begin` blocks,
    and makes a fresh start for each of them. Raises CannotRepair with every reason, and
    StorageFault."""
    mendings = await in_thread(begin)
    if all(mending.wanted is None for mending in mendings):
        await _carry_out(place, mendings, None, peers, in_thread)
        return Mended(None, mendings)
    if peers is None or not sources:
        raise CannotRepair("there is no other replica in sync")
    reasons: list[str] = []
    for source in sources:
        try:
            await _carry_out(place, mendings, source, peers, in_thread)
            return Mended(source, mendings)
        except EpochsAreWrong:
            raise
        except CannotRepair as reason:
            reasons.append(f"broker {source}: {reason}")
            mendings = await in_thread(begin)
    raise CannotRepair("; ".join(reasons))


async def _carry_out(
    place: TopicPartition,
    mendings: Sequence[Mending],
    source: BrokerId | None,
    peers: PeerCalls | None,
    in_thread: InThread,
) -> None:
    """All of them, or no file stays."""
    is_done = False
    try:
        for mending in mendings:
            await in_thread(mending.start)
            while (wanted := mending.wanted) is not None:
                assert peers is not None
                assert source is not None
                records = await fetch(peers, source, place, wanted)
                await in_thread(partial(mending.take, records))
        is_done = True
    finally:
        if not is_done:
            for mending in mendings:
                mending.abandon()


async def fetch(
    peers: PeerCalls, source: BrokerId, place: TopicPartition, wanted: OffsetRange
) -> bytes:
    """The batches from `wanted` on that fit into one answer; none if there are none."""
    row = FetchPartition(
        partition=place.partition,
        fetch_offset=wanted.offset,
        partition_max_bytes=FETCH_BYTES,
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        session_epoch=NO_SESSION_EPOCH,
        topics=[FetchTopic(topic=place.topic, partitions=[row])],
    )
    try:
        response = await peers.call(
            source, request, timeout_ms=FETCH_TIMEOUT_MS, lane=LANE, version=FETCH_VERSION
        )
    except PeerUnreachable as fault:
        raise CannotRepair(str(fault)) from fault
    if response.error_code:
        raise CannotRepair(f"it answers {Error(response.error_code).name}")
    answer = response.responses[0].partitions[0]
    if answer.error_code:
        raise CannotRepair(f"it answers {Error(answer.error_code).name}")
    if not answer.records and answer.high_watermark < wanted.offset_end:
        raise CannotRepair(f"it has committed only what is before offset {answer.high_watermark}")
    return bytes(answer.records or b"")
