"""What the answer to a Fetch carries, counted for its topics when nothing of it changes any more.

Bytes for consumers and those for followers are told apart, as in Apache Kafka.
"""

from __future__ import annotations

from typing import Final

from moldau.model.errors import Error
from moldau.model.file_regions import FileRegion
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


def count_fetched(response: FetchResponse, replicas: Replicas, *, is_follower: bool) -> None:
    for topic in response.responses:
        cells = replicas.traffic.of(topic.topic or replicas.known_name(topic.topic_id))
        if cells is None:
            continue
        size_bytes = 0
        for row in topic.partitions:
            if row.error_code:
                cells.failed_fetches += row.error_code not in NOT_FAILED
            elif row.records:
                records = row.records
                size_bytes += (
                    records.size_bytes if isinstance(records, FileRegion) else len(records)
                )
        if is_follower:
            cells.replication_bytes_out += size_bytes
        else:
            cells.bytes_out += size_bytes
