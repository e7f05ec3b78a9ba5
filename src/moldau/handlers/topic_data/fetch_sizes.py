"""How long the answer to a Fetch is, before it is made: quotas are asked first.

As Apache Kafka counts it: the frame without its header and without what is told of other nodes.
"""

from __future__ import annotations

from typing import Final

from moldau.model.errors import Error
from moldau.replication.fetch_sessions import Answers

FLEXIBLE_SINCE: Final = 12
TOPIC_IDS_SINCE: Final = 13
LEADER_HINTS_SINCE: Final = 16
LEADER_HINTS = frozenset({Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH})
SIZE_BYTES = 4
UUID_BYTES = 16
LEADER_HINT_BYTES = 11
EPOCH_END_BYTES = 15
ABORTED_BYTES = 16


def fetch_response_bytes(answers: Answers, version: int) -> int:
    flexible = version >= FLEXIBLE_SINCE
    by_topic: dict[object, int] = {}
    size = SIZE_BYTES + _start_bytes(version)
    row_bytes = _row_bytes(version)
    for partition, read in answers:
        key = partition.topic_id if version >= TOPIC_IDS_SINCE else partition.topic
        by_topic[key] = by_topic.get(key, 0) + 1
        size += row_bytes + read.size_bytes
        if version >= 4:
            aborted = read.aborted_transactions
            count = 0 if aborted is None else len(aborted)
            size += count * (ABORTED_BYTES + flexible)
            if flexible:
                size += 1 if aborted is None else uvarint_bytes(count + 1)
        if flexible:
            size += uvarint_bytes(read.size_bytes + 1)
            if read.diverging_epoch is not None:
                size += EPOCH_END_BYTES
            if read.error in LEADER_HINTS and version >= LEADER_HINTS_SINCE:
                size += LEADER_HINT_BYTES
    for topic, count in by_topic.items():
        name_bytes = len(topic.encode()) if isinstance(topic, str) else 0
        if flexible:
            named = UUID_BYTES if version >= TOPIC_IDS_SINCE else uvarint_bytes(name_bytes + 1)
            size += named + name_bytes + uvarint_bytes(count + 1) + 1
        else:
            size += 2 + name_bytes + 4
    return size + (uvarint_bytes(len(by_topic) + 1) if flexible else 4)


def _start_bytes(version: int) -> int:
    """Throttle time, error and session; the last byte is that of the tagged fields."""
    return 4 * (version >= 1) + 6 * (version >= 7) + (version >= FLEXIBLE_SINCE)


def _row_bytes(version: int) -> int:
    """What every row has, without its records."""
    fixed = 4 + 2 + 8 + 8 * (version >= 4) + 8 * (version >= 5) + 4 * (version >= 11)
    if version >= FLEXIBLE_SINCE:
        return fixed + 1
    return fixed + 4 + 4 * (version >= 4)


def uvarint_bytes(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)
