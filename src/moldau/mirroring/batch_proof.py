"""Whether two clusters hold the same last batch before an offset. One that lost its end, or was put
back to an earlier state, may go on in the same leader epoch: then nothing else tells them apart.

Compaction may have taken records out of it in one of them; then its header has to do.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.admin.admin_core import AdminCore
from moldau.client.shared.client_errors import KafkaError, error_for
from moldau.mirroring.partition_mirror import NO_EPOCH, PartitionMirror
from moldau.mirroring.raw_fetch import fetch_from
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.records.batch import DELETE_HORIZON_FLAG, Buffer, read_header, whole_headers


def batch_at(records: Buffer, offset: int) -> bytes:
    """The batch that holds the offset; empty if there is none."""
    view = memoryview(records)
    for position, header in whole_headers(view):
        if header.base_offset <= offset <= header.last_offset:
            return bytes(view[position : position + header.size_bytes])
    return b""


def is_same(one: bytes | KafkaError, other: bytes | KafkaError) -> bool:
    """As far as can be told: what is not there contradicts nothing. Raises KafkaError."""
    for each in (one, other):
        if isinstance(each, KafkaError):
            raise each
    assert isinstance(one, bytes) and isinstance(other, bytes)
    if not one or not other or one == other:
        return True
    first, second = read_header(one), read_header(other)
    is_compacted = (
        first.record_count != second.record_count
        or (first.attributes | second.attributes) & DELETE_HORIZON_FLAG
    )
    return bool(is_compacted) and (
        first.last_offset,
        first.leader_epoch,
        first.producer_id,
        first.producer_epoch,
        first.last_sequence,
    ) == (
        second.last_offset,
        second.leader_epoch,
        second.producer_id,
        second.producer_epoch,
        second.last_sequence,
    )


async def last_batches(
    admin: AdminCore, topic_ids: Mapping[str, bytes], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, bytes | KafkaError]:
    """The batch before each end, empty where it is not there any more. Raises KafkaError if a
    broker does not answer."""
    found: dict[TopicPartition, bytes | KafkaError] = {}
    left: dict[TopicPartition, int] = {}
    for place, end in ends.items():
        if admin.cluster.leader(*place) is None:
            found[place] = admin._no_leader(place)
        elif end > 0:
            left[place] = end
    is_alone = False
    while left:
        before = len(left)
        for node, probes in _questions(admin, topic_ids, left, is_alone):
            for place, row in (await fetch_from(admin, node, probes)).items():
                if row.error_code not in (0, Error.OFFSET_OUT_OF_RANGE):
                    found[place] = error_for(row.error_code)
                elif len(row.records) or row.error_code or is_alone:
                    found[place] = batch_at(row.records, left[place] - 1)
                else:
                    # The answer was full, or there is nothing.
                    continue
                del left[place]
        if len(left) == before:
            if is_alone:
                raise error_for(Error.UNKNOWN_SERVER_ERROR, "a broker leaves out what it was asked")
            is_alone = True
    return found


def _questions(
    admin: AdminCore,
    topic_ids: Mapping[str, bytes],
    ends: Mapping[TopicPartition, int],
    is_alone: bool,
) -> list[tuple[int, list[PartitionMirror]]]:
    by_leader: dict[int, list[PartitionMirror]] = {}
    for place, end in ends.items():
        leader = admin.cluster.leader(*place)
        assert leader is not None, place
        probe = PartitionMirror(place, topic_ids[place.topic])
        probe.stands_at(0, end - 1, NO_EPOCH, NO_EPOCH)
        by_leader.setdefault(leader[0], []).append(probe)
    if is_alone:
        return [(node, [probe]) for node, probes in by_leader.items() for probe in probes]
    return list(by_leader.items())
