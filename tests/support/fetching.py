"""Requests to fetch, what comes back, and records to find."""

from __future__ import annotations

from typing import Any

from moldau.model.cluster import PartitionImage
from moldau.records.batch import read_header, whole_headers
from moldau.records.batch_codec import ControlType, EndMarker, decode_batch, encode_marker
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log_state.producer_state import Origin
from moldau.wire.messages.fetch import (
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from tests.support.services import NODE_ID, Node, batch

TWO_REPLICAS = PartitionImage(NODE_ID, 3, (NODE_ID, 2), (NODE_ID, 2))
BY_NAME, BY_ID = 12, 18
BEFORE_FOLLOWERS_SERVE = 10


def part(
    partition: int = 0, offset: int = 0, max_bytes: int = 1 << 20, **fields: Any
) -> FetchPartition:
    return FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, **fields
    )


def request(
    *partitions: FetchPartition,
    topic: str = "t",
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    **fields: Any,
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=list(partitions))] if partitions else [],
        **fields,
    )


def rows(response: FetchResponse) -> list[FetchablePartitionResponse]:
    assert response.error_code == 0
    return [row for topic in response.responses for row in topic.partitions]


def only_row(response: FetchResponse) -> FetchablePartitionResponse:
    (row,) = rows(response)
    return row


def values(row: FetchablePartitionResponse) -> list[bytes | None]:
    records = row.records or b""
    assert isinstance(records, bytes | memoryview)
    return [
        record.value
        for position, _ in whole_headers(records)
        for record in decode_batch(records, position)
    ]


def append(node: Node, *batches: bytes, topic: str = "t", partition: int = 0) -> None:
    replica = node.replicas.find(topic, partition)
    for records in batches:
        replica.append(memoryview(bytearray(records)), -1, node.clock.wall_ms())


def append_marker(node: Node, producer_id: int, *, committed: bool) -> None:
    replica = node.replicas.find("t", 0)
    marker = EndMarker(ControlType.COMMIT if committed else ControlType.ABORT, 0)
    records = bytearray(
        encode_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp=1_000_000)
    )
    assert isinstance(replica.log, PartitionLog)
    replica.log.append_as_leader(
        records, read_header(records), replica.partition.leader_epoch, Origin.COORDINATOR
    )
    replica.bytes_appended += len(records)
    replica.partition.appended(replica.log.offset_end)
    node.waiting.changed(replica)


def transactional(value: bytes, producer_id: int, sequence: int = 0) -> bytes:
    return batch(
        value,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )


async def fetch(
    node: Node, *partitions: FetchPartition, **fields: Any
) -> FetchablePartitionResponse:
    return only_row(await node.call(request(*partitions, **fields), BY_NAME))
