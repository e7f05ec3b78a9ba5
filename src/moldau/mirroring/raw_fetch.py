"""Batches as a broker stores them, of many partitions in one question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.client.admin.admin_core import AdminCore
from moldau.client.shared.client_errors import UnsupportedVersionError, error_for
from moldau.mirroring.mirror_faults import MirrorFault
from moldau.mirroring.partition_mirror import Fetched, PartitionMirror
from moldau.model.names import TopicPartition
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

TOPIC_IDS_SINCE = 13
"""The first version of Fetch that says which topic of a name is meant."""
PARTITION_BYTES = 1024 * 1024
FETCH_BYTES = 4 * 1024 * 1024
FETCH_WAIT_MS = 500


async def fetch_from(
    admin: AdminCore, node: int, wanted: Sequence[PartitionMirror]
) -> dict[TopicPartition, Fetched]:
    """Raises KafkaError."""
    cluster = admin.cluster
    topics: dict[bytes, FetchTopic] = {}
    names = {}
    for each in wanted:
        # The topic that was begun with, whatever has the name now.
        (name, number), topic_id = each.place, each.topic_id
        leader = cluster.leader(name, number)
        row = FetchPartition(
            partition=number,
            current_leader_epoch=-1 if leader is None else leader[1],
            fetch_offset=each.position,
            last_fetched_epoch=each.last_epoch,
            partition_max_bytes=PARTITION_BYTES,
        )
        topics.setdefault(topic_id, FetchTopic(topic_id=topic_id)).partitions.append(row)
        names[topic_id] = name
    request = FetchRequest(
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        isolation_level=0,
        topics=list(topics.values()),
    )
    try:
        answer = await admin.network.call(node, request, version_min=TOPIC_IDS_SINCE)
    except UnsupportedVersionError:
        reason = "the source does not fetch by topic id: Apache Kafka does since 3.1"
        raise MirrorFault(reason) from None
    if answer.error_code:
        raise error_for(answer.error_code)
    return {
        TopicPartition(names[topic.topic_id], row.partition_index): _fetched(row)
        for topic in answer.responses
        for row in topic.partitions
        if topic.topic_id in names
    }


def _fetched(row: Any) -> Fetched:
    diverging = -1 if row.diverging_epoch is None else row.diverging_epoch.end_offset
    return Fetched(
        row.error_code, row.high_watermark, row.log_start_offset, row.records or b"", diverging
    )
