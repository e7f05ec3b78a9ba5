"""What the answer to a Fetch carries, counted for its topics when nothing of it changes any more.

Bytes for consumers and those for followers are told apart, as in Apache Kafka.
"""

from __future__ import annotations

from typing import Final

from moldau.model.errors import ApiError, Error
from moldau.model.file_regions import FileRegion
from moldau.model.names import BrokerId
from moldau.replication.replicas import Replicas
from moldau.wire.messages.fetch import FetchResponse

NOT_FAILED: Final = frozenset(
    {
        Error.NONE,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.UNKNOWN_LEADER_EPOCH,
        Error.FENCED_LEADER_EPOCH,
        Error.REPLICA_NOT_AVAILABLE,
        Error.KAFKA_STORAGE_ERROR,
        Error.OFFSET_OUT_OF_RANGE,
        Error.INCONSISTENT_TOPIC_ID,
    }
)
"""What Apache Kafka does not count as failures: it belongs to the life of a cluster."""


def count_fetched(response: FetchResponse, replicas: Replicas, follower: BrokerId) -> None:
    """`follower` is who has asked, below 0 of a consumer."""
    for topic in response.responses:
        name = topic.topic or replicas.known_name(topic.topic_id)
        cells = replicas.traffic.of(name)
        if cells is None:
            continue
        size_bytes = moved_bytes = 0
        for row in topic.partitions:
            if row.error_code:
                cells.failed_fetches += row.error_code not in NOT_FAILED
            elif row.records:
                records = row.records
                count = records.size_bytes if isinstance(records, FileRegion) else len(records)
                size_bytes += count
                if follower >= 0 and _is_brought(replicas, name, row.partition_index, follower):
                    moved_bytes += count
        if follower >= 0:
            cells.replication_bytes_out += size_bytes
            cells.reassignment_bytes_out += moved_bytes
        else:
            cells.bytes_out += size_bytes


def _is_brought(replicas: Replicas, topic: str, partition: int, follower: BrokerId) -> bool:
    """Whether a reassignment brings the replica to that broker."""
    try:
        return follower in replicas.find(topic, partition).partition.adding
    except ApiError:
        return False  # it has gone since it was read
