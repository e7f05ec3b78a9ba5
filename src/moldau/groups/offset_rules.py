"""Who may commit, fetch and delete offsets, and what they are told.

A consumer that manages its partitions itself commits without a member id, which only a group
without members accepts. A commit inside a transaction is checked against the group (KIP-447), but
not held up by a rebalance.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.engine.machine import Decision, Reply, Timer, Token
from moldau.groups import facts
from moldau.groups.classic import CONSUMER_PROTOCOL_TYPE, ClassicGroup, State
from moldau.groups.commands import (
    DEFAULT_RETENTION,
    NO_MEMBER_ID,
    CommitOffsets,
    CommitTransactionalOffsets,
    DeleteOffsets,
    EndTransaction,
    ExpireSession,
    FetchOffsets,
    OffsetRow,
    TopicOffsets,
)
from moldau.groups.draft import session_key
from moldau.groups.facts import NO_TIMESTAMP, CommittedOffset
from moldau.groups.identity import generation_error
from moldau.groups.offsets import Offsets, Placed, Stored
from moldau.groups.results import FetchedOffset, FetchedTopic, PlaceResult
from moldau.groups.settings import GroupSettings
from moldau.groups.subscriptions import is_subscribed
from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID, Millis, TopicId, TopicPartition


def commit(
    group: ClassicGroup | None,
    command: CommitOffsets,
    settings: GroupSettings,
    token: Token,
    now_ms: Millis,
) -> Decision:
    error = Error.NONE
    if group is None:
        if command.generation >= 0:
            error = command.unknown_group_error
    else:
        error = _commit_error(group, command)
        if error is Error.NONE and group.state is State.COMPLETING_REBALANCE:
            # The member has heard of the new generation, but what it commits may already be
            # somebody else's: it has to sync first.
            error = Error.REBALANCE_IN_PROGRESS
    if error is not Error.NONE:
        return Decision.refuse(token, error)
    expire_ms = NO_TIMESTAMP
    if command.retention_ms != DEFAULT_RETENTION:
        expire_ms = command.wall_ms + command.retention_ms
    rows = _checked(command.offsets, settings)
    offsets = _placed(command.offsets, rows, command.wall_ms, expire_ms)
    stored = (facts.OffsetsCommitted(command.group_id, offsets),) if offsets else ()
    timers = () if group is None else _sign_of_life(group, command, now_ms)
    return Decision(stored, timers, (Reply(token, rows),))


def commit_in_transaction(
    group: ClassicGroup | None,
    command: CommitTransactionalOffsets,
    settings: GroupSettings,
    token: Token,
) -> Decision:
    error = Error.NONE
    if group is not None:
        error = _commit_error(group, command)
    elif command.generation >= 0:
        error = Error.ILLEGAL_GENERATION
    if error is not Error.NONE:
        return Decision.refuse(token, error)
    rows = _checked(command.offsets, settings)
    offsets = _placed(command.offsets, rows, command.wall_ms, NO_TIMESTAMP)
    if not offsets:
        return Decision.reply(token, rows)
    fact = facts.TransactionalOffsetsCommitted(
        command.group_id, command.producer_id, command.producer_epoch, offsets
    )
    return Decision((fact,), replies=(Reply(token, rows),))


def end_transaction(command: EndTransaction, token: Token) -> Decision:
    """Also for a producer without offsets here: the coordinator asked for a marker and counts on
    it."""
    return Decision((facts.TransactionEnded(*command),), replies=(Reply(token, None),))


def _commit_error(
    group: ClassicGroup, command: CommitOffsets | CommitTransactionalOffsets
) -> Error:
    if command.generation < 0 and group.state is State.EMPTY:
        return Error.NONE
    claims_membership = (
        command.generation >= 0
        or command.member_id != NO_MEMBER_ID
        or command.instance_id is not None
    )
    if claims_membership:
        return generation_error(group, command.member_id, command.instance_id, command.generation)
    # Older transactional producers do not say for which member they commit.
    if isinstance(command, CommitTransactionalOffsets) or group.state is State.EMPTY:
        return Error.NONE
    return Error.UNKNOWN_MEMBER_ID


def _sign_of_life(group: ClassicGroup, command: CommitOffsets, now_ms: Millis) -> tuple[Timer, ...]:
    member = group.members.get(command.member_id)
    if member is None:
        return ()
    timeout_ms = member.session_timeout_ms
    expire = ExpireSession(group.group_id, member.member_id, command.wall_ms + timeout_ms)
    return (Timer(session_key(group.group_id, member.member_id), now_ms + timeout_ms, expire),)


def _checked(rows: tuple[OffsetRow, ...], settings: GroupSettings) -> tuple[PlaceResult, ...]:
    longest = settings.offset_metadata_max_bytes
    return tuple(
        PlaceResult(
            row.place,
            Error.OFFSET_METADATA_TOO_LARGE if len(row.metadata) > longest else Error.NONE,
        )
        for row in rows
    )


def _placed(
    rows: tuple[OffsetRow, ...],
    results: tuple[PlaceResult, ...],
    wall_ms: Millis,
    expire_ms: Millis,
) -> tuple[facts.PlacedOffset, ...]:
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


def delete(
    group: ClassicGroup | None, offsets: Offsets, command: DeleteOffsets, token: Token
) -> Decision:
    if group is None:
        return Decision.refuse(
            token, Error.GROUP_ID_NOT_FOUND, f"Group {command.group_id} not found."
        )
    if group.state is not State.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        # What the members work on is known for consumers only.
        return Decision.refuse(token, Error.NON_EMPTY_GROUP)
    in_use = {place.topic for place in command.places if is_subscribed(group, place.topic)}
    known = offsets.places(command.group_id)
    gone = tuple(place for place in command.places if place.topic not in in_use and place in known)
    rows = tuple(
        PlaceResult(
            place,
            Error.GROUP_SUBSCRIBED_TO_TOPIC if place.topic in in_use else Error.NONE,
        )
        for place in command.places
    )
    removed = (facts.OffsetsRemoved(command.group_id, gone),) if gone else ()
    return Decision(removed, replies=(Reply(token, rows),))
