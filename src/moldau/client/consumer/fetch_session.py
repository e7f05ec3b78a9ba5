"""How fetches are asked for, and the client's half of a fetch session (KIP-227).

A session says only what has changed since the last fetch. Pure, one object per broker. The first
fetch names every partition and opens a session; later ones name those that are new, have moved or
were dropped. Any failure starts over with a full fetch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from moldau.config.client_settings.consumer_settings import ConsumerConfig
from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

NO_SESSION = 0
EPOCH_FULL = 0
EPOCH_NONE = -1
"""A fetch without a session."""
EPOCH_MAX = 2**31 - 1
TOPIC_IDS_FROM = 13
_BROKEN = {
    Error.FETCH_SESSION_ID_NOT_FOUND,
    Error.INVALID_FETCH_SESSION_EPOCH,
    Error.FETCH_SESSION_TOPIC_ID_ERROR,
}


@dataclass(frozen=True, slots=True)
class FetchSettings:
    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    partition_max_bytes: int
    request_timeout_ms: int
    retry_backoff_ms: int
    metadata_max_age_ms: int
    is_read_committed: bool
    rack: str

    @classmethod
    def of(cls, config: ConsumerConfig) -> FetchSettings:
        return cls(
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            max_wait_ms=config.fetch_max_wait_ms,
            partition_max_bytes=config.max_partition_fetch_bytes,
            request_timeout_ms=config.request_timeout_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            metadata_max_age_ms=config.metadata_max_age_ms,
            is_read_committed=config.isolation_level == "read_committed",
            rack=config.client_rack,
        )

    def request(self) -> FetchRequest:
        """A fetch of nothing yet."""
        return FetchRequest(
            max_wait_ms=self.max_wait_ms,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes,
            isolation_level=int(self.is_read_committed),
            rack_id=self.rack,
        )


class Want(NamedTuple):
    """What to fetch of one partition; a change of any of it has to be told."""

    topic_id: bytes
    fetch_offset: int
    leader_epoch: int
    max_bytes: int


class FetchSession:
    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = EPOCH_FULL
        self.has_ids = False
        self._told: dict[TopicPartition, Want] = {}
        self._names: dict[bytes, str] = {}

    def fill(self, request: FetchRequest, wanted: Mapping[TopicPartition, Want]) -> int | None:
        """Put the partitions in; returns the newest version that may be sent, None for any."""
        has_ids = all(want.topic_id != NO_TOPIC_ID for want in wanted.values())
        if has_ids != self.has_ids:
            self.failed()
            self.has_ids = has_ids
        if self.epoch == EPOCH_FULL:
            fresh, forgotten = dict(wanted), {}
        else:
            told = self._told
            fresh = {tp: want for tp, want in wanted.items() if told.get(tp) != want}
            forgotten = {
                tp: want
                for tp, want in told.items()
                if tp not in wanted or wanted[tp].topic_id != want.topic_id
            }
        self._told = dict(wanted)
        self._names = {want.topic_id: tp.topic for tp, want in wanted.items()}
        request.session_id = self.session_id
        request.session_epoch = self.epoch
        request.topics = _fetch_topics(fresh)
        request.forgotten_topics_data = _forgotten_topics(forgotten)
        return None if has_ids else TOPIC_IDS_FROM - 1

    def answered(self, error_code: int, session_id: int) -> bool:
        """Whether the answer may be used."""
        if error_code:
            if error_code in _BROKEN:
                self.session_id = NO_SESSION
            self.epoch = EPOCH_FULL
            return False
        if self.epoch == EPOCH_FULL:
            self.session_id = session_id
            # A broker without room for the session gives none: the next fetch is full again.
            self.epoch = 1 if session_id != NO_SESSION else EPOCH_FULL
        else:
            self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        return True

    def failed(self) -> None:
        """No answer came, so nobody knows what the broker took in: open another session."""
        self.epoch = EPOCH_FULL

    def name_of(self, topic_id: bytes, topic: str) -> str:
        return topic or self._names.get(topic_id, "")


def _fetch_topics(wanted: Mapping[TopicPartition, Want]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (topic, partition), want in wanted.items():
        row = topics.get(topic)
        if row is None:
            row = topics[topic] = FetchTopic(topic=topic, topic_id=want.topic_id)
        row.partitions.append(
            FetchPartition(
                partition=partition,
                current_leader_epoch=want.leader_epoch,
                fetch_offset=want.fetch_offset,
                partition_max_bytes=want.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten_topics(forgotten: Mapping[TopicPartition, Want]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for (topic, partition), want in forgotten.items():
        row = topics.get((topic, want.topic_id))
        if row is None:
            row = ForgottenTopic(topic=topic, topic_id=want.topic_id)
            topics[topic, want.topic_id] = row
        row.partitions.append(partition)
    return list(topics.values())
