"""Offsets and groups that nobody needs any more: past their retention, or of deleted topics.

A group without members keeps its offsets for a time after it became empty; consumers that manage
their partitions themselves, for a time after each commit. When an empty group has no offsets left
it is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from moldau.engine.machine import Decision, Reply, Timer, Token
from moldau.groups import group_facts
from moldau.groups.committed_offsets import Offsets
from moldau.groups.group import Group
from moldau.groups.group_commands import DeletedTopic, ExpireOffsets, ForgetTopics
from moldau.groups.group_facts import NO_TIMESTAMP, CommittedOffset
from moldau.groups.group_settings import GroupSettings
from moldau.model.clock import Now
from moldau.model.names import NO_TOPIC_ID, Millis, TopicPartition

REMOVALS_MAX = 2_000
"""Offsets removed by one decision; the rest waits for the next turn of the loop."""


def expire(
    groups: dict[str, Group],
    offsets: Offsets,
    command: ExpireOffsets,
    settings: GroupSettings,
    token: Token,
    now: Now,
) -> Decision:
    found: list[group_facts.Durable] = []
    room = REMOVALS_MAX
    for group_id, group in groups.items():
        if not room:
            again = Timer(("expire offsets",), now.monotonic_ms, command)
            return Decision(tuple(found), (again,), (Reply(token, None),))
        expired = _expired(group, offsets, now.wall_ms, settings.offsets_retention_ms)
        places = tuple(islice(expired, room))
        room -= len(places)
        if places:
            found.append(group_facts.OffsetsRemoved(group_id, places))
        if _can_go(group, offsets, len(places)):
            found.append(group_facts.GroupDeleted(group_id, group.generation))
    return Decision(tuple(found), replies=(Reply(token, None),))


def _expired(
    group: Group, offsets: Offsets, wall_ms: Millis, retention_ms: Millis
) -> Iterator[TopicPartition]:
    placed = offsets.of_group(group.group_id)
    if not placed:
        return
    in_use = group.topics_in_use()
    if in_use is None:
        return
    for place, stored in placed.items():
        if (
            place.topic not in in_use
            and _is_past(stored.value, group, wall_ms, retention_ms)
            and not offsets.is_pending(group.group_id, place)
        ):
            yield place


def _is_past(value: CommittedOffset, group: Group, wall_ms: Millis, retention_ms: Millis) -> bool:
    if value.expire_timestamp_ms != NO_TIMESTAMP:
        # A client of long ago has said how long its offsets are to be kept.
        return wall_ms >= value.expire_timestamp_ms
    since_ms = group.offsets_unused_since_ms
    if since_ms is None:
        since_ms = value.commit_timestamp_ms
    return wall_ms - since_ms >= retention_ms


def _can_go(group: Group, offsets: Offsets, expired_count: int) -> bool:
    return (
        group.is_unused
        and expired_count == len(offsets.of_group(group.group_id))
        and not offsets.is_in_transaction(group.group_id)
    )


def forget_topics(offsets: Offsets, command: ForgetTopics, token: Token, now: Now) -> Decision:
    """Also positions inside open transactions: there is nothing left to read."""
    some = list(islice(_forgotten(offsets, command), REMOVALS_MAX))
    gone: dict[str, dict[TopicPartition, None]] = {}
    for group_id, place in some:
        gone.setdefault(group_id, {})[place] = None
    found = tuple(
        group_facts.OffsetsRemoved(group_id, tuple(places)) for group_id, places in gone.items()
    )
    again = Timer(("forget", command.topics), now.monotonic_ms, command)
    timers = (again,) if len(some) == REMOVALS_MAX else ()
    return Decision(found, timers, (Reply(token, None),))


def _forgotten(offsets: Offsets, command: ForgetTopics) -> Iterator[tuple[str, TopicPartition]]:
    deleted = {topic.name: topic for topic in command.topics}
    for group_id, placed in offsets.committed.items():
        for place, stored in placed.items():
            if _is_of(stored.value, deleted.get(place.topic)):
                yield group_id, place
    for _, group_id, placed in offsets.in_transactions():
        for place, stored in placed.items():
            if _is_of(stored.value, deleted.get(place.topic)):
                yield group_id, place


def _is_of(value: CommittedOffset, topic: DeletedTopic | None) -> bool:
    return topic is not None and value.topic_id in (NO_TOPIC_ID, topic.id)


def delete_group(group: Group, offsets: Offsets, token: Token) -> Decision:
    """On request. The group itself goes with the last of its offsets: whoever is killed in between
    leaves a group with fewer of them, and the client has no answer yet."""
    places = tuple(islice(offsets.places(group.group_id), REMOVALS_MAX + 1))
    if len(places) > REMOVALS_MAX:
        some = group_facts.OffsetsRemoved(group.group_id, places[:REMOVALS_MAX])
        return Decision((some,), replies=(Reply(token, False),))
    removed = (group_facts.OffsetsRemoved(group.group_id, places),) if places else ()
    deleted = group_facts.GroupDeleted(group.group_id, group.generation)
    return Decision((*removed, deleted), group.timers_of_deletion(), (Reply(token, True),))
