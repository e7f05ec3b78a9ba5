"""Fetch sessions (KIP-227): a client states its partitions once, then only what changes.

Pure. A session remembers what a client asked for and what it was last told; an incremental answer
carries only partitions that have something new. The cache is bounded; who may push whom out of it
follows Apache Kafka: followers before consumers, idle sessions first, larger before smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from moldau.model.errors import ApiError, Error
from moldau.model.file_regions import FileRegion
from moldau.model.names import BrokerId, Millis, Offset, TopicId

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 0x7FFFFFFF
SESSION_IDS_END = 0x7FFFFFFF
EVICTION_AFTER_MS = 120_000
"""A session idle for so long may go; one younger than this is not pushed out by a larger one."""

PARTITIONS_MAX = 100_000
"""What all sessions together remember; a client beyond it says all its partitions every time."""

FetchKey = tuple[str | TopicId, int]
"""Topic and partition; the topic by id or by name, as the request does it."""


class FetchedPartition:
    """What a client wants of one partition and, in a session, what it was last told."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "reader_log_start",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        topic_id: TopicId,
        partition: int,
        fetch_offset: Offset,
        max_bytes: int,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        reader_log_start: Offset = -1,
    ) -> None:
        self.topic = topic
        """Empty if the client speaks in topic ids."""
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.reader_log_start = reader_log_start
        """Where a follower's own log starts."""
        self.high_watermark: Offset = -1
        self.log_start_offset: Offset = -1

    def ask_again(self, asked: FetchedPartition) -> None:
        if asked.current_leader_epoch != self.current_leader_epoch:
            # A follower that was given its role anew may have passed over the last answer.
            self.high_watermark = -1
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.reader_log_start = asked.reader_log_start

    def is_news(self, read: PartitionRead) -> bool:
        return (
            read.size_bytes > 0
            or read.high_watermark != self.high_watermark
            or read.log_start_offset != self.log_start_offset
            or read.error != 0
            or read.diverging_epoch is not None
            or read.preferred_read_replica >= 0
        )

    def told(self, read: PartitionRead) -> bool:
        """Remember what the client learns from this answer; False if it knows all of it."""
        is_news = self.is_news(read)
        self.log_start_offset = read.log_start_offset
        # An error is told every time, and when it goes away that is news too. A follower that has
        # to truncate takes nothing else from the answer.
        is_taken = read.error == 0 and read.diverging_epoch is None
        self.high_watermark = read.high_watermark if is_taken else -1
        return is_news


class PartitionRead(NamedTuple):
    """What a read of one partition gave."""

    error: int
    high_watermark: Offset = -1
    last_stable_offset: Offset = -1
    log_start_offset: Offset = -1
    records: FileRegion | None = None
    size_bytes: int = 0
    aborted_transactions: Sequence[tuple[int, Offset]] | None = None
    """(producer id, first offset) in order of offsets; None if the reader reads uncommitted."""
    diverging_epoch: tuple[int, Offset] | None = None
    preferred_read_replica: BrokerId = -1
    """A replica nearer to the consumer, which should read there (KIP-392)."""


Answers = list[tuple[FetchedPartition, PartitionRead]]


class FetchSession:
    __slots__ = (
        "created_ms",
        "epoch",
        "id",
        "is_follower",
        "partitions",
        "used_ms",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        partitions: dict[FetchKey, FetchedPartition],
        *,
        is_follower: bool,
        uses_topic_ids: bool,
        now: Millis,
    ) -> None:
        self.id = session_id
        self.partitions = partitions
        self.is_follower = is_follower
        self.uses_topic_ids = uses_topic_ids
        self.epoch = INITIAL_EPOCH + 1
        self.created_ms = now
        self.used_ms = now

    def update(
        self, asked: Mapping[FetchKey, FetchedPartition], forgotten: Sequence[FetchKey]
    ) -> None:
        for key, partition in asked.items():
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = partition
            else:
                known.ask_again(partition)
        for key in forgotten:
            self.partitions.pop(key, None)


class FetchContext:
    """One request's dealings with its session: what to read, then what to answer."""

    __slots__ = ("_sessions", "_uses_topic_ids", "partitions")

    def __init__(
        self, sessions: FetchSessions, partitions: list[FetchedPartition], uses_topic_ids: bool
    ) -> None:
        self._sessions = sessions
        self._uses_topic_ids = uses_topic_ids
        self.partitions = partitions

    def answer(self, answers: Answers, now: Millis) -> tuple[int, Answers]:
        """Session id and the partitions that belong in the answer."""
        return NO_SESSION, answers

    def would_answer(self, answers: Answers) -> Answers:
        """As `answer`, but nothing is remembered: perhaps the client will not get it."""
        return answers

    def refrain(self) -> int:
        """The session id of an answer without partitions, by which the client learns nothing."""
        return NO_SESSION

    def key_of(self, partition: FetchedPartition) -> FetchKey:
        if self._uses_topic_ids:
            return partition.topic_id, partition.partition
        return partition.topic, partition.partition


class FullFetch(FetchContext):
    """Everything is answered, and a session is opened for what comes next, if there is room."""

    __slots__ = ("asked", "is_follower")
    asked: dict[FetchKey, FetchedPartition]
    is_follower: bool

    def answer(self, answers: Answers, now: Millis) -> tuple[int, Answers]:
        session = self._sessions.create(self.asked, self.is_follower, self._uses_topic_ids, now)
        if session is None:
            return NO_SESSION, answers
        for partition, read in answers:
            partition.told(read)
        return session.id, answers


class IncrementalFetch(FetchContext):
    __slots__ = ("epoch", "session")
    epoch: int
    session: FetchSession

    def would_answer(self, answers: Answers) -> Answers:
        if self.session.epoch != self.epoch:
            return []
        return [answer for answer in answers if answer[0].is_news(answer[1])]

    def refrain(self) -> int:
        self._check_epoch()
        return self.session.id

    def _check_epoch(self) -> None:
        session = self.session
        if session.epoch != self.epoch:
            raise ApiError(
                Error.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session.id} went on to epoch {session.epoch} meanwhile",
            )

    def answer(self, answers: Answers, now: Millis) -> tuple[int, Answers]:
        self._check_epoch()
        session = self.session
        news: Answers = []
        for answer in answers:
            partition, read = answer
            if not partition.told(read):
                continue
            news.append(answer)
            if read.size_bytes:
                # To the end of the line: the next answer begins with those that got nothing.
                key = self.key_of(partition)
                known = session.partitions.pop(key, None)
                if known is not None:
                    session.partitions[key] = known
        return session.id, news


class FetchSessions:
    __slots__ = ("_held", "_new_id", "_sessions", "_slots", "evictions")

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        """`new_id` gives random numbers of 31 bits."""
        self._slots = slots
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}
        """The least recently used first."""
        self._held = 0
        """Partitions that they remember."""
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Of all sessions together."""
        return self._held

    def begin(
        self,
        session_id: int,
        epoch: int,
        asked: dict[FetchKey, FetchedPartition],
        forgotten: Sequence[FetchKey],
        *,
        uses_topic_ids: bool,
        is_follower: bool,
        now: Millis,
    ) -> FetchContext:
        """Raises ApiError with a session error: then the client starts over."""
        if epoch == FINAL_EPOCH:
            if session_id != NO_SESSION:
                self._drop(session_id)
            return FetchContext(self, list(asked.values()), uses_topic_ids)
        if epoch == INITIAL_EPOCH:
            self._drop(session_id)
            full = FullFetch(self, list(asked.values()), uses_topic_ids)
            full.asked, full.is_follower = asked, is_follower
            return full
        session = self._continued(session_id, epoch, uses_topic_ids)
        if self._held + len(asked) > PARTITIONS_MAX and asked.keys() - session.partitions.keys():
            self._drop(session_id)
            raise ApiError(Error.FETCH_SESSION_ID_NOT_FOUND, "the fetch sessions are full")
        self._held -= len(session.partitions)
        session.update(asked, forgotten)
        self._held += len(session.partitions)
        if not session.partitions:
            self._drop(session_id)
            return FetchContext(self, list(asked.values()), uses_topic_ids)
        self._sessions[session_id] = self._sessions.pop(session_id)
        session.used_ms = now
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        incremental = IncrementalFetch(self, list(session.partitions.values()), uses_topic_ids)
        incremental.session, incremental.epoch = session, session.epoch
        return incremental

    def _continued(self, session_id: int, epoch: int, uses_topic_ids: bool) -> FetchSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise ApiError(Error.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {session_id}")
        if session.epoch != epoch:
            raise ApiError(
                Error.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session_id} is in epoch {session.epoch}, not {epoch}",
            )
        if session.uses_topic_ids != uses_topic_ids:
            raise ApiError(
                Error.FETCH_SESSION_TOPIC_ID_ERROR,
                f"fetch session {session_id} cannot change between topic names and ids",
            )
        return session

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._held -= len(session.partitions)

    def create(
        self,
        partitions: dict[FetchKey, FetchedPartition],
        is_follower: bool,
        uses_topic_ids: bool,
        now: Millis,
    ) -> FetchSession | None:
        """None if the cache is full of sessions that are worth more than this one. The partitions
        are the session's own from now on."""
        if self._held + len(partitions) > PARTITIONS_MAX:
            return None
        if len(self._sessions) >= self._slots and not self._evict(
            is_follower, len(partitions), now
        ):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._new_id() % SESSION_IDS_END
        session = FetchSession(
            session_id,
            partitions,
            is_follower=is_follower,
            uses_topic_ids=uses_topic_ids,
            now=now,
        )
        self._sessions[session_id] = session
        self._held += len(session.partitions)
        return session

    def _evict(self, is_follower: bool, partition_count: int, now: Millis) -> bool:
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now - oldest.used_ms > EVICTION_AFTER_MS:
            self._drop(oldest.id)
            self.evictions += 1
            return True
        candidates = [
            (session.is_follower, len(session.partitions), session.id)
            for session in self._sessions.values()
            if session.used_ms - session.created_ms > EVICTION_AFTER_MS
            or (is_follower and not session.is_follower)
        ]
        least = min(candidates, default=None)
        if least is None or least > (is_follower, partition_count, 0):
            return False
        self._drop(least[2])
        self.evictions += 1
        return True
