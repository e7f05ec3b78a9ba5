"""The last record of a partition, and what else a restoring worker reads: a few records, at once.

The end of a partition says only which offset comes next. What stands before it may be the marker
of a transaction, aborted records, or a gap that compaction left: so the last record is looked for
in steps that double.
"""

from __future__ import annotations

from time import monotonic

from moldau.client.consumer.blocking_consumer import Consumer
from moldau.client.consumer.consumer_records import ConsumerRecord
from moldau.client.shared.client_errors import KafkaTimeoutError
from moldau.model.names import TopicPartition
from moldau.recovery.snapshot_records import FULL_HEADER, FullPart, state_of

TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.05
"""A poll that passes over markers and aborted records only returns when its time is over."""
FIRST_STEP = 2
"""A record and the marker of its transaction."""


def last_record(
    consumer: Consumer, partition: TopicPartition, timeout: float = TIMEOUT_SECONDS
) -> ConsumerRecord | None:
    """The last record that this consumer can see in a partition, None if there is none.

    With `isolation.level=read_committed` it is of a committed transaction. The consumer is
    assigned that partition and no other; it must not be subscribed."""
    deadline = monotonic() + timeout
    consumer.assign([partition])
    start = consumer.beginning_offsets([partition])[partition]
    end = consumer.end_offsets([partition])[partition]
    step, upper = FIRST_STEP, end
    while upper > start:
        lower = max(start, end - step)
        found = _last_between(consumer, partition, lower, upper, deadline)
        if found is not None:
            return found
        step, upper = 2 * step, lower
    return None


def _last_between(
    consumer: Consumer, partition: TopicPartition, lower: int, upper: int, deadline: float
) -> ConsumerRecord | None:
    last: ConsumerRecord | None = None
    consumer.seek(partition, lower)
    while consumer.position(partition) < upper:
        for record in consumer.poll(_left(deadline, partition)):
            if record.offset < upper:
                last = record
    return last


def read_full(
    consumer: Consumer, partition: TopicPartition, position: int
) -> tuple[int, bytes] | None:
    """The input offset and the state of the full snapshot at this offset of its partition; None
    if it is not there, or not whole."""
    deadline = monotonic() + TIMEOUT_SECONDS
    consumer.assign([partition])
    start = consumer.beginning_offsets([partition])[partition]
    end = consumer.end_offsets([partition])[partition]
    if not start <= position < end:
        return None
    consumer.seek(partition, position)
    found: list[tuple[FullPart, bytes]] = []
    while consumer.position(partition) < end:
        for record in consumer.poll(_left(deadline, partition)):
            if not found and record.offset != position:
                return None
            part = FullPart.decoded(dict(record.headers).get(FULL_HEADER))
            if part is None or (found and part.name != found[0][0].name):
                # Between the parts may stand those of a rival who was fenced meanwhile.
                if not found:
                    return None
                continue
            found.append((part, record.value or b""))
            if len(found) == part.parts:
                return state_of(found)
    return None


def _left(deadline: float, partition: TopicPartition) -> float:
    left = deadline - monotonic()
    if left <= 0:
        raise KafkaTimeoutError(f"The snapshots in {partition} could not be read in time")
    return min(left, POLL_SECONDS)
