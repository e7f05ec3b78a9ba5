"""What one fetcher asks of one leader, and what an answer means for each partition it follows.

Pure. A partition is asked for from the end of its log, together with the leader epoch of its last
record. If the leader's log has another end for that epoch it says where the logs part, the follower
truncates (KIP-101, KIP-279) and asks again. Requests are incremental (KIP-227): what did not
change is not said again.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID, BrokerId, Millis, Offset, TopicId, TopicPartition
from moldau.wire.messages.fetch import (
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

VERSION = 17
"""Of Fetch between brokers: what Apache Kafka 3.9 speaks."""
VERSION_BY_NAME = 12
"""For topics that have no id."""
SESSION_EPOCH_MAX = 0x7FFFFFFF
FIRST_PAUSE_MS: Millis = 50

_SESSION_LOST = frozenset(
    {
        Error.FETCH_SESSION_ID_NOT_FOUND,
        Error.INVALID_FETCH_SESSION_EPOCH,
        Error.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class FetchSettings(NamedTuple):
    node_id: BrokerId
    broker_epoch: int
    wait_max_ms: Millis
    min_bytes: int
    response_max_bytes: int
    partition_max_bytes: int
    backoff_ms: Millis


class Position(NamedTuple):
    """Where a follower's log is: what it asks for next follows from this."""

    offset_end: Offset
    last_epoch: int
    log_start: Offset


class Followed:
    """One partition; `position` is replaced by whoever changes the log."""

    __slots__ = (
        "is_behind",
        "is_fenced",
        "leader_epoch",
        "place",
        "position",
        "ready_ms",
        "refusals",
        "topic_id",
    )

    def __init__(
        self, place: TopicPartition, topic_id: TopicId, leader_epoch: int, position: Position
    ) -> None:
        self.place = place
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.position = position
        self.ready_ms: Millis = 0
        self.refusals = 0
        self.is_behind = True
        """It lacks something that is committed."""
        self.is_fenced = False
        """The leader is in a newer epoch: only a new role can help."""

    @property
    def told(self) -> _Told:
        return _Told(self.position, self.leader_epoch, self.topic_id)

    def pause(self, now: Millis, longest_ms: Millis) -> None:
        """Leave it alone for a while: briefly at first, for a new leader may just be about to learn
        that it is one."""
        self.ready_ms = now + min(FIRST_PAUSE_MS << min(self.refusals, 16), longest_ms)
        self.refusals += 1


class Step(Enum):
    APPEND = "append"
    TRUNCATE = "truncate"
    LOOK_FOR_RANGE = "look for range"
    """The leader has no such offset: ask which ones it has."""
    PAUSED = "paused"
    FENCED = "fenced"


class Answered(NamedTuple):
    step: Step
    followed: Followed
    row: FetchablePartitionResponse


class _Told(NamedTuple):
    position: Position
    leader_epoch: int
    topic_id: TopicId


class Following:
    """All that is followed over one connection."""

    __slots__ = (
        "_by_key",
        "_partitions",
        "_session_epoch",
        "_session_id",
        "_told",
        "_uses_ids",
        "flushing",
    )

    def __init__(self) -> None:
        self.flushing: set[TopicPartition] = set()
        """Not asked for yet: asking from the end on would say that all before it is safe here."""
        self._partitions: dict[TopicPartition, Followed] = {}
        self._by_key: dict[tuple[str | TopicId, int], Followed] = {}
        self._told: dict[TopicPartition, _Told] = {}
        """What the leader's session knows, by what was sent."""
        self._session_id = 0
        self._session_epoch = 0
        self._uses_ids = True

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def places(self) -> list[TopicPartition]:
        return list(self._partitions)

    def get(self, place: TopicPartition) -> Followed | None:
        return self._partitions.get(place)

    def follow(self, followed: Followed) -> None:
        self.unfollow(followed.place)
        self._partitions[followed.place] = followed
        self._by_key[followed.topic_id, followed.place.partition] = followed
        self._by_key[followed.place.topic, followed.place.partition] = followed

    def unfollow(self, place: TopicPartition) -> bool:
        followed = self._partitions.pop(place, None)
        self.flushing.discard(place)
        if followed is None:
            return False
        self._by_key.pop((followed.topic_id, place.partition), None)
        self._by_key.pop((place.topic, place.partition), None)
        return True

    # Asking

    @property
    def version(self) -> int:
        return VERSION if self._uses_ids else VERSION_BY_NAME

    def start_over(self) -> None:
        """The leader's session is lost, or what it knows is in doubt. The next request names it
        once more, so that the leader drops it and does not have to wait for it to grow old."""
        self._session_epoch = 0
        self._told = {}

    def ready_in_ms(self, now: Millis) -> Millis | None:
        """When something can be asked; None if nothing ever will by itself."""
        waits = [
            each.ready_ms - now
            for place, each in self._partitions.items()
            if not each.is_fenced and place not in self.flushing
        ]
        return max(0, min(waits)) if waits else None

    def request(self, now: Millis, settings: FetchSettings) -> FetchRequest | None:
        """None if there is nothing to ask for now."""
        wanted = {
            place: each
            for place, each in self._partitions.items()
            if each.ready_ms <= now and not each.is_fenced and place not in self.flushing
        }
        if not wanted:
            return None
        uses_ids = all(each.topic_id != NO_TOPIC_ID for each in wanted.values())
        if uses_ids != self._uses_ids:
            self._uses_ids = uses_ids
            self.start_over()
        is_full = self._session_epoch == 0
        known = {} if is_full else self._told
        told = {place: each.told for place, each in wanted.items()}
        asked = [each for place, each in wanted.items() if known.get(place) != told[place]]
        forgotten = [
            (place, before.topic_id)
            for place, before in known.items()
            if place not in told or told[place].topic_id != before.topic_id
        ]
        request = FetchRequest(
            replica_id=settings.node_id,
            max_wait_ms=self._wait_ms(now, settings),
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=_topics(asked, settings),
            forgotten_topics_data=_forgotten(forgotten),
            replica_state=ReplicaState(
                replica_id=settings.node_id, replica_epoch=settings.broker_epoch
            ),
        )
        self._told = told
        return request

    def _wait_ms(self, now: Millis, settings: FetchSettings) -> Millis:
        """How long the leader may hold an empty answer back: a partition whose pause is over does
        not wait for news of the others."""
        pauses = [
            each.ready_ms - now
            for each in self._partitions.values()
            if each.ready_ms > now and not each.is_fenced
        ]
        return min((settings.wait_max_ms, *pauses))

    # What an answer means

    def unreachable(self, now: Millis, settings: FetchSettings) -> None:
        """No answer: everything waits a while, and the session is in doubt."""
        self.start_over()
        for each in self._partitions.values():
            each.pause(now, settings.backoff_ms)

    def answered(
        self, response: FetchResponse, now: Millis, settings: FetchSettings
    ) -> list[Answered]:
        if response.error_code:
            self.start_over()
            if Error(response.error_code) not in _SESSION_LOST:
                for each in self._partitions.values():
                    each.pause(now, settings.backoff_ms)
            return []
        if self._session_epoch == 0:
            self._session_id = response.session_id
        # Without room for a session the leader gives none: then every request is a full one.
        if self._session_id:
            epoch = self._session_epoch
            self._session_epoch = 1 if epoch == SESSION_EPOCH_MAX else epoch + 1
        steps = []
        for topic in response.responses:
            key = topic.topic_id if self._uses_ids else topic.topic
            for row in topic.partitions:
                followed = self._by_key.get((key, row.partition_index))
                if followed is None or self._told.get(followed.place) != followed.told:
                    # Stopped, or moved on to another epoch, while the answer was on its way.
                    continue
                steps.append(Answered(_step(followed, row, now, settings), followed, row))
        return steps


def _topics(asked: Iterable[Followed], settings: FetchSettings) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for each in asked:
        topic = topics.get(each.place.topic)
        if topic is None:
            topic = FetchTopic(topic_id=each.topic_id, topic=each.place.topic, partitions=[])
            topics[each.place.topic] = topic
        topic.partitions.append(
            FetchPartition(
                partition=each.place.partition,
                current_leader_epoch=each.leader_epoch,
                fetch_offset=each.position.offset_end,
                last_fetched_epoch=each.position.last_epoch,
                log_start_offset=each.position.log_start,
                partition_max_bytes=settings.partition_max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(places: Iterable[tuple[TopicPartition, TopicId]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, TopicId], ForgottenTopic] = {}
    for place, topic_id in places:
        topic = topics.get((place.topic, topic_id))
        if topic is None:
            topic = ForgottenTopic(topic_id=topic_id, topic=place.topic, partitions=[])
            topics[place.topic, topic_id] = topic
        topic.partitions.append(place.partition)
    return list(topics.values())


def _step(
    followed: Followed, row: FetchablePartitionResponse, now: Millis, settings: FetchSettings
) -> Step:
    error = Error(row.error_code)
    if error is Error.NONE:
        followed.refusals = 0
        return Step.APPEND if row.diverging_epoch is None else Step.TRUNCATE
    if error is Error.OFFSET_OUT_OF_RANGE:
        return Step.LOOK_FOR_RANGE
    if error is Error.FENCED_LEADER_EPOCH:
        followed.is_fenced = True
        return Step.FENCED
    followed.pause(now, settings.backoff_ms)
    return Step.PAUSED


# Truncation


def truncation_point(
    leader_says: tuple[int, Offset],
    here: tuple[int, Offset],
    offset_end: Offset,
    high_watermark: Offset,
) -> Offset:
    """Where to cut a log that parts from the leader's.

    `leader_says` is (epoch, end) of the largest epoch in the leader's log up to our last one,
    `here` the same of our log for the leader's epoch. If we do not know that epoch, our largest
    epoch before it is where to go on asking: one more round, without cutting too much (KIP-279).
    """
    leader_epoch, leader_end = leader_says
    own_epoch, own_end = here
    if leader_end < 0:
        return high_watermark
    if leader_epoch < 0 or own_epoch < 0:
        return min(leader_end, offset_end)
    if own_epoch != leader_epoch:
        return min(own_end, offset_end)
    return min(own_end, leader_end, offset_end)


class Range(NamedTuple):
    """What a leader has."""

    start: Offset
    end: Offset


class Restart(NamedTuple):
    """How a log that is out of the leader's range goes on."""

    truncate_to: Offset | None = None
    start_at: Offset | None = None


def out_of_range(offset_end: Offset, leader: Range) -> Restart:
    if leader.end < offset_end:
        # An unclean election made a leader of a replica that lacked what we have.
        return Restart(truncate_to=leader.end)
    if leader.start > offset_end:
        return Restart(start_at=leader.start)
    return Restart()
