"""Who may commit, fetch and delete offsets, and what they are told.

A consumer that manages its partitions itself commits without a member id, which only a group
without members accepts. A commit inside a transaction is checked against the group (KIP-447), but
not held up by a rebalance.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.engine.machine import Decision, Reply, Token
from moldau.groups import group_facts
from moldau.groups.committed_offsets import Offsets, Placed, Stored
from moldau.groups.group import Group
from moldau.groups.group_commands import (
    DEFAULT_RETENTION,
    CommitOffsets,
    CommitTransactionalOffsets,
    DeleteOffsets,
    EndTransaction,
    FetchOffsets,
    OffsetRow,
    TopicOffsets,
)
from moldau.groups.group_facts import LAST_TIMESTAMP, NO_TIMESTAMP, CommittedOffset
from moldau.groups.group_results import FetchedOffset, FetchedTopic, PartitionResult
from moldau.groups.group_settings import GroupSettings
from moldau.model.clock import Now
from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID, Millis, TopicId, TopicPartition


def commit(
    group: Group | None,
    command: CommitOffsets,
    settings: GroupSettings,
    token: Token,
    now: Now,
) -> Decision:
    error = Error.NONE
    if group is None:
        if command.generation >= 0:
            error = command.unknown_group_error
    else:
        error = group.commit_error(command)
    if error is not Error.NONE:
        return Decision.refuse(token, error)
    expire_ms = NO_TIMESTAMP
    if command.retention_ms != DEFAULT_RETENTION:
        expire_ms = min(now.wall_ms + command.retention_ms, LAST_TIMESTAMP)
    rows = _checked(command.offsets, settings)
    offsets = _placed(command.offsets, rows, now.wall_ms, expire_ms)
    stored = (group_facts.OffsetsCommitted(command.group_id, offsets),) if offsets else ()
    timers = () if group is None else group.heard_from(command.member_id, now)
    return Decision(stored, timers, (Reply(token, rows),))


def commit_in_transaction(
    group: Group | None,
    command: CommitTransactionalOffsets,
    settings: GroupSettings,
    token: Token,
    now: Now,
) -> Decision:
    error = Error.NONE
    if group is not None:
        error = group.commit_error(command)
    elif command.generation >= 0:
        error = Error.ILLEGAL_GENERATION
    if error is not Error.NONE:
        return Decision.refuse(token, error)
    rows = _checked(command.offsets, settings)
    offsets = _placed(command.offsets, rows, now.wall_ms, NO_TIMESTAMP)
    if not offsets:
        return Decision.reply(token, rows)
    fact = group_facts.TransactionalOffsetsCommitted(
        command.group_id, command.producer_id, command.producer_epoch, offsets
    )
    return Decision((fact,), replies=(Reply(token, rows),))


def end_transaction(command: EndTransaction, token: Token) -> Decision:
    """Also for a producer without offsets here: the coordinator asked for a marker and counts on
    it."""
    fact = group_facts.TransactionEnded(
        command.producer_id, command.producer_epoch, command.coordinator_epoch, command.committed
    )
    return Decision((fact,), replies=(Reply(token, None),))


def _checked(rows: tuple[OffsetRow, ...], settings: GroupSettings) -> tuple[PartitionResult, ...]:
    longest = settings.offset_metadata_max_bytes
    return tuple(
        PartitionResult(
            row.place,
            Error.OFFSET_METADATA_TOO_LARGE if len(row.metadata) > longest else Error.NONE,
        )
        for row in rows
    )


def _placed(
    rows: tuple[OffsetRow, ...],
    results: tuple[PartitionResult, ...],
    wall_ms: Millis,
    expire_ms: Millis,
) -> tuple[group_facts.PlacedOffset, ...]:
    return tuple(
        (
            row.place,
            CommittedOffset(
                row.offset, row.leader_epoch, row.metadata, wall_ms, expire_ms, row.topic_id
            ),
        )
        for row, result in zip(rows, results, strict=True)
        if result.error is Error.NONE
    )


def fetch(offsets: Offsets, command: FetchOffsets, token: Token) -> Decision:
    placed = offsets.of_group(command.group_id)
    asked = _all_topics(placed) if command.topics is None else command.topics
    rows = tuple(
        FetchedTopic(
            topic.topic,
            tuple(
                _fetched(offsets, placed, command, TopicPartition(topic.topic, partition), topic)
                for partition in topic.partitions
            ),
            topic.topic_id,
        )
        for topic in asked
    )
    return Decision.reply(token, rows)


def _all_topics(placed: Placed) -> tuple[TopicOffsets, ...]:
    partitions: dict[str, list[int]] = {}
    for place in placed:
        partitions.setdefault(place.topic, []).append(place.partition)
    return tuple(TopicOffsets(topic, tuple(found)) for topic, found in partitions.items())


def _fetched(
    offsets: Offsets,
    placed: Mapping[TopicPartition, Stored],
    command: FetchOffsets,
    place: TopicPartition,
    topic: TopicOffsets,
) -> FetchedOffset:
    if command.require_stable and offsets.is_pending(command.group_id, place):
        return FetchedOffset(place.partition, error=Error.UNSTABLE_OFFSET_COMMIT)
    stored = placed.get(place)
    if stored is None or _is_of_another_topic(stored.value.topic_id, topic.topic_id):
        return FetchedOffset(place.partition)
    value = stored.value
    return FetchedOffset(place.partition, value.offset, value.leader_epoch, value.metadata)


def _is_of_another_topic(stored: TopicId, asked: TopicId) -> bool:
    """The topic was deleted and created again; zeros mean that the id is not known."""
    return NO_TOPIC_ID not in (stored, asked) and stored != asked


def delete(group: Group | None, offsets: Offsets, command: DeleteOffsets, token: Token) -> Decision:
    if group is None:
        return Decision.refuse(
            token, Error.GROUP_ID_NOT_FOUND, f"Group {command.group_id} not found."
        )
    error = group.offset_deletion_error()
    if error is not Error.NONE:
        return Decision.refuse(token, error)
    in_use = {place.topic for place in command.places if group.is_subscribed_to(place.topic)}
    known = offsets.places(command.group_id)
    gone = tuple(place for place in command.places if place.topic not in in_use and place in known)
    rows = tuple(
        PartitionResult(
            place,
            Error.GROUP_SUBSCRIBED_TO_TOPIC if place.topic in in_use else Error.NONE,
        )
        for place in command.places
    )
    removed = (group_facts.OffsetsRemoved(command.group_id, gone),) if gone else ()
    return Decision(removed, replies=(Reply(token, rows),))
