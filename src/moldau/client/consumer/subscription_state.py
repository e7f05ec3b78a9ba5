"""Which partitions a consumer reads and where it stands in each; no I/O, no clock.

A partition's `position` is the next offset that the user gets, `fetch_offset` the next one to ask
a broker for: what lies between is buffered. `round` is a number that no assignment and no seek of
this process ever gets again, so what was asked for or fetched before is recognized and dropped. A
position is known, or is to come from the committed offset, or from the partition's start, end or
a time (`reset_to`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import Enum
from itertools import count

from moldau.client.consumer.consumer_records import OffsetAndMetadata
from moldau.client.shared.client_errors import IllegalStateError
from moldau.model.names import NO_TOPIC_ID, Millis, TopicPartition

LATEST = -1
EARLIEST = -2

_rounds = count(1)

_DURATION = re.compile(r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def reset_timestamp(policy: str, now: Millis) -> int | None:
    """What auto.offset.reset means to ListOffsets; None if the user wants to be told instead."""
    if policy == "none":
        return None
    if policy in ("earliest", "latest"):
        return EARLIEST if policy == "earliest" else LATEST
    found = _DURATION.fullmatch(policy)
    assert found is not None, policy
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return now - int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


class Mode(Enum):
    """How the partitions are chosen; a consumer uses one way until it unsubscribes."""

    NONE = "none"
    TOPICS = "topics"
    PATTERN = "pattern"
    ASSIGNED = "assigned"


class PartitionState:
    """One partition that is being read."""

    __slots__ = (
        "epoch",
        "fetch_offset",
        "has_new_leader",
        "high_watermark",
        "is_paused",
        "is_validating",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "position",
        "replica",
        "replica_until",
        "reset_to",
        "retry_at",
        "round",
        "topic_id",
        "tp",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.position: int | None = None
        self.epoch = -1
        """Leader epoch of the record before the position, -1 if not known."""
        self.fetch_offset: int | None = None
        self.reset_to: int | None = None
        self.round = next(_rounds)
        self.is_paused = False
        self.has_new_leader = False
        """Whether what is buffered may have gone from the log. Nothing is fetched or handed out
        until a poll has seen it: only there is it certain that nobody is taking records."""
        self.is_validating = False
        self.leader_epoch = -1
        """Of the leader against whom the position was last known to be good."""
        self.topic_id = NO_TOPIC_ID
        self.retry_at = 0.0
        self.replica = -1
        self.replica_until = 0.0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1

    @property
    def is_readable(self) -> bool:
        """Whether buffered records may be handed out now."""
        return not (self.is_paused or self.is_validating or self.has_new_leader)

    def seek(self, offset: int, epoch: int = -1) -> None:
        """With the epoch of the record before it, the leader is asked whether it still has it."""
        self.seek_valid(offset, epoch)
        if epoch >= 0:
            self.leader_epoch = -1

    def seek_valid(self, offset: int, epoch: int = -1) -> None:
        """Where the leader itself said that reading may go on."""
        self.round = next(_rounds)
        self.position = self.fetch_offset = offset
        self.epoch = epoch
        self.reset_to = None
        self.has_new_leader = self.is_validating = False
        self.retry_at = 0.0

    def reset(self, timestamp: int) -> None:
        """Have the position looked up: the start, the end, or the first record from a time on."""
        self.round = next(_rounds)
        self.position = self.fetch_offset = None
        self.reset_to = timestamp
        self.has_new_leader = self.is_validating = False
        self.replica = -1

    def refetch(self) -> None:
        """Forget what was fetched ahead; the position stays."""
        self.round = next(_rounds)
        self.fetch_offset = self.position

    def meet_leader(self, topic_id: bytes) -> None:
        """Forget what another leader said, and have the position checked if that is possible.

        Epochs of a topic that had the same name say nothing about this one."""
        if self.topic_id != topic_id:
            self.topic_id = topic_id
            self.epoch = -1
        self.has_new_leader = False
        self.is_validating = self.epoch >= 0
        self.leader_epoch = -1
        self.refetch()

    def believe(self, leader_epoch: int) -> None:
        """The leader of that epoch has what was read."""
        self.is_validating = False
        self.leader_epoch = leader_epoch

    def release(self) -> None:
        """It is not read any more: what is under way for it is stale."""
        self.round = next(_rounds)

    @property
    def committable(self) -> OffsetAndMetadata | None:
        return None if self.position is None else OffsetAndMetadata(self.position, "", self.epoch)


class Positions:
    def __init__(self) -> None:
        self.mode = Mode.NONE
        self.topics: frozenset[str] = frozenset()
        """Subscribed to by name, or matched by the pattern so far."""
        self.pattern: re.Pattern[str] | None = None
        self.partitions: dict[TopicPartition, PartitionState] = {}

    @property
    def is_subscribed(self) -> bool:
        """Whether the group says which partitions to read."""
        return self.mode in (Mode.TOPICS, Mode.PATTERN)

    def subscribe(self, topics: Collection[str]) -> None:
        self._choose(Mode.TOPICS)
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        self._choose(Mode.PATTERN)
        self.pattern = pattern

    def match(self, names: Iterable[str]) -> bool:
        """Take the names that the pattern matches; whether they are others than before."""
        assert self.pattern is not None, "a subscription by pattern"
        matched = frozenset(name for name in names if self.pattern.fullmatch(name))
        changed = matched != self.topics
        self.topics = matched
        return changed

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        self._choose(Mode.ASSIGNED)
        self._take(partitions)

    def assign_from_group(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions that stay keep their position; others start from the committed offset."""
        assert self.is_subscribed, "only a subscriber has a group"
        self._take(partitions)

    def unsubscribe(self) -> None:
        self.mode = Mode.NONE
        self.topics = frozenset()
        self.pattern = None
        self._take(())

    def _choose(self, mode: Mode) -> None:
        if self.mode not in (Mode.NONE, mode):
            raise IllegalStateError(
                "Subscription to topics, partitions and pattern are mutually exclusive"
            )
        self.mode = mode

    def _take(self, partitions: Collection[TopicPartition]) -> None:
        old = self.partitions
        # A new dictionary, so that whoever goes through the old one is not disturbed.
        self.partitions = {tp: old.get(tp) or PartitionState(tp) for tp in partitions}
        for tp, state in old.items():
            if tp not in self.partitions:
                state.release()

    def of(self, tp: TopicPartition) -> PartitionState:
        state = self.partitions.get(tp)
        if state is None:
            raise IllegalStateError(f"No current assignment for partition {tp}")
        return state

    def is_current(self, state: PartitionState, asked_in: int) -> bool:
        return state.round == asked_in and self.partitions.get(state.tp) is state

    def committable(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Every known position, as it would be committed."""
        return {
            tp: offset
            for tp, state in self.partitions.items()
            if (offset := state.committable) is not None
        }

    def without_position(self) -> list[PartitionState]:
        """Those that need a committed offset or a reset to begin."""
        return [
            state
            for state in self.partitions.values()
            if state.position is None and state.reset_to is None
        ]

    def to_reset(self) -> list[PartitionState]:
        return [state for state in self.partitions.values() if state.reset_to is not None]
