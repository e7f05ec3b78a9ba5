"""Offsets and groups that nobody needs any more: past their retention, or of deleted topics.

A group without members keeps its offsets for a time after it became empty; consumers that manage
their partitions themselves, for a time after each commit. When an empty group has no offsets left
it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from moldau.engine.machine import Decision, Reply, Timer, Token
from moldau.groups import facts
from moldau.groups.classic import ClassicGroup, State
from moldau.groups.commands import DeletedTopic, ExpireOffsets, ForgetTopics
from moldau.groups.draft import session_key
from moldau.groups.facts import NO_TIMESTAMP, CommittedOffset
from moldau.groups.offsets import Offsets
from moldau.groups.settings import GroupSettings
from moldau.groups.subscriptions import subscribed_topics
from moldau.model.names import NO_TOPIC_ID, Millis, TopicPartition

REMOVALS_MAX = 2_000
"""Offsets removed by one decision; the rest waits for the next turn of the loop."""


def expire(
    groups: dict[str, ClassicGroup],
    offsets: Offsets,
    command: ExpireOffsets,
    settings: GroupSettings,
    token: Token,
    now_ms: Millis,
) -> Decision:
    found: list[facts.Durable] = []
    room = REMOVALS_MAX
    for group_id, group in groups.items():
        if not room:
            again = Timer(("expire offsets",), now_ms, command)
            return Decision(tuple(found), (again,), (Reply(token, None),))
        expired = _expired(group, offsets, command.wall_ms, settings.offsets_retention_ms)
        places = tuple(islice(expired, room))
        room -= len(places)
        if places:
            found.append(facts.OffsetsRemoved(group_id, places))
        if _can_go(group, offsets, len(places)):
            found.append(facts.GroupDeleted(group_id, group.generation))
    return Decision(tuple(found), replies=(Reply(token, None),))


def _expired(
    group: ClassicGroup, offsets: Offsets, wall_ms: Millis, retention_ms: Millis
) -> Iterator[TopicPartition]:
    placed = offsets.of_group(group.group_id)
    if not placed:
        return
    in_use: frozenset[str] = frozenset()
    if group.protocol_type is not None and group.state is not State.EMPTY:
        topics = subscribed_topics(group)
        if topics is None or group.state is not State.STABLE:
            return
        in_use = topics
    for place, stored in placed.items():
        if (
            place.topic not in in_use
            and _is_past(stored.value, group, wall_ms, retention_ms)
            and not offsets.is_pending(group.group_id, place)
        ):
            yield place


def _is_past(
    value: CommittedOffset, group: ClassicGroup, wall_ms: Millis, retention_ms: Millis
) -> bool:
    if value.expire_timestamp_ms != NO_TIMESTAMP:
        # A client of long ago has said how long its offsets are to be kept.
        return wall_ms >= value.expire_timestamp_ms
    since_ms = value.commit_timestamp_ms
    has_had_members = group.protocol_type is not None
    if has_had_members and group.state is State.EMPTY and group.state_timestamp_ms != NO_TIMESTAMP:
        since_ms = group.state_timestamp_ms
    return wall_ms - since_ms >= retention_ms


def _can_go(group: ClassicGroup, offsets: Offsets, expired_count: int) -> bool:
    return (
        group.state is State.EMPTY
        and not group.pending
        and expired_count == len(offsets.of_group(group.group_id))
        and not offsets.is_in_transaction(group.group_id)
    )


def forget_topics(offsets: Offsets, command: ForgetTopics, token: Token) -> Decision:
    """Also positions inside open transactions: there is nothing left to read."""
    deleted = {topic.name: topic for topic in command.topics}
    gone: dict[str, dict[TopicPartition, None]] = {}
    for group_id, placed in offsets.committed.items():
        for place, stored in placed.items():
            if _is_of(stored.value, deleted.get(place.topic)):
                gone.setdefault(group_id, {})[place] = None
    for _, group_id, placed in offsets.in_transactions():
        for place, stored in placed.items():
            if _is_of(stored.value, deleted.get(place.topic)):
                gone.setdefault(group_id, {})[place] = None
    found = tuple(
        facts.OffsetsRemoved(group_id, tuple(places)) for group_id, places in gone.items()
    )
    return Decision(found, replies=(Reply(token, None),))


def _is_of(value: CommittedOffset, topic: DeletedTopic | None) -> bool:
    return topic is not None and value.topic_id in (NO_TOPIC_ID, topic.id)


def delete_group(group: ClassicGroup, offsets: Offsets, token: Token) -> Decision:
    """On request; whoever was handed an id here is not waited for any more."""
    places = tuple(offsets.places(group.group_id))
    removed = (facts.OffsetsRemoved(group.group_id, places),) if places else ()
    deleted = facts.GroupDeleted(group.group_id, group.generation)
    timers = tuple(Timer(session_key(group.group_id, pending), None) for pending in group.pending)
    return Decision((*removed, deleted), timers, (Reply(token, None),))
