"""How many seconds a group is behind: the age of the first record that it has not committed.

Asked of the log itself, so it holds for any Kafka cluster. One small fetch for each partition
that is behind, and only for so many.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Any

from moldau.client.consumer.partition_fetch import OutOfRangeError
from moldau.client.shared.client_errors import KafkaError
from moldau.console.records.record_reading import CONTROL, records_of
from moldau.console.records.topic_reading import TopicReading
from moldau.model.names import TopicPartition

PARTITIONS_MAX = 100
AT_ONCE = 8
READS_MAX = 3
"""Markers and what compaction has left may stand before the first record."""
ONE_BATCH = 1
"""A fetch of so few bytes brings one batch, however large it is."""


async def seconds_behind(
    settings: Mapping[str, Any], unread: Mapping[TopicPartition, int]
) -> dict[TopicPartition, float]:
    """By the offsets of the next records; a partition that cannot be read is left out."""
    chosen = dict(list(unread.items())[:PARTITIONS_MAX])
    found: dict[TopicPartition, float] = {}
    gate = asyncio.Semaphore(AT_ONCE)

    async def of_topic(topic: str, partitions: Collection[TopicPartition]) -> None:
        async with TopicReading(settings, topic) as reading:
            await asyncio.gather(*(of_partition(reading, tp) for tp in partitions))

    async def of_partition(reading: TopicReading, tp: TopicPartition) -> None:
        async with gate:
            try:
                written_ms = await _first_time(reading, tp.partition, chosen[tp])
            except (KafkaError, OutOfRangeError):
                return
        if written_ms is not None:
            found[tp] = max(0.0, time.time() - written_ms / 1000)

    by_topic: dict[str, list[TopicPartition]] = {}
    for tp in chosen:
        by_topic.setdefault(tp.topic, []).append(tp)
    await asyncio.gather(*(of_topic(topic, tps) for topic, tps in by_topic.items()))
    return found


async def _first_time(reading: TopicReading, partition: int, offset: int) -> int | None:
    reader = reading.reader(partition, fetch_bytes=ONE_BATCH)
    for _ in range(READS_MAX):
        chunk = await reader.read(offset)
        for batch, mark in chunk.batches:
            rows = [] if mark == CONTROL else records_of(chunk, batch)
            if rows:
                return rows[0].timestamp
        if chunk.next_offset == offset:
            return None
        offset = chunk.next_offset
    return None
