"""What a consumer makes of new leaders, shorter logs and refusals while it fetches ahead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moldau import TopicPartition, aio, errors
from moldau.client.consumer.consumer_records import OffsetAndMetadata
from moldau.model.errors import Error
from moldau.records.batch_codec import Record, encode_batch
from moldau.wire.messages.fetch import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
)
from moldau.wire.messages.offsets import (
    EpochEndOffset,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.support.scripted_broker import ScriptedBroker

TP = TopicPartition("t", 0)


class PlayedLog:
    """A partition whose log the test writes, cuts and breaks; a fetch gets two records."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.rows: list[tuple[int, str]] = []
        """Epoch and value of each record."""
        self.refused: dict[int, Error] = {}
        """Offsets whose fetch is refused."""
        self.start = 0
        self.asked: list[int] = []
        broker.answers[FetchRequest] = self._fetch
        broker.answers[ListOffsetsRequest] = self._offsets
        broker.answers[OffsetForLeaderEpochRequest] = self._epochs
        self.elect(0)

    def elect(self, epoch: int) -> None:
        self.epoch = epoch
        self.broker.add_topic("t", leader_epoch=epoch)

    def append(self, *values: str) -> None:
        self.rows += [(self.epoch, value) for value in values]

    def cut(self, end: int) -> None:
        del self.rows[end:]

    def _fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        answers = [
            FetchableTopicResponse(
                topic_id=topic.topic_id, partitions=[self._row(row) for row in topic.partitions]
            )
            for topic in request.topics
        ]
        return FetchResponse(responses=answers)

    def _row(self, asked: Any) -> FetchablePartitionResponse:
        offset = asked.fetch_offset
        self.asked.append(offset)
        row = FetchablePartitionResponse(
            high_watermark=len(self.rows), last_stable_offset=len(self.rows)
        )
        if asked.current_leader_epoch != self.epoch:
            row.error_code = Error.FENCED_LEADER_EPOCH
        elif offset in self.refused:
            row.error_code = self.refused[offset]
        elif not self.start <= offset <= len(self.rows):
            row.error_code = Error.OFFSET_OUT_OF_RANGE
        else:
            data = b""
            for place in range(offset, min(offset + 2, len(self.rows))):
                epoch, value = self.rows[place]
                record = Record(timestamp=0, value=value.encode())
                data += encode_batch([record], base_offset=place, leader_epoch=epoch)
            row.records = data
        return row

    def _offsets(self, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        row = ListOffsetsPartitionResponse(offset=self.start, leader_epoch=self.epoch)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[row])])

    def _epochs(
        self, request: OffsetForLeaderEpochRequest, version: int
    ) -> OffsetForLeaderEpochResponse:
        wanted = request.topics[0].partitions[0].leader_epoch
        known = [epoch for epoch, _ in self.rows if epoch <= wanted]
        row = EpochEndOffset(leader_epoch=-1, end_offset=-1)
        if known:
            row = EpochEndOffset(leader_epoch=known[-1], end_offset=len(known))
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic="t", partitions=[row])]
        )


Story = Callable[[PlayedLog, aio.Consumer], Coroutine[Any, Any, None]]


def go(story: Story, **settings: Any) -> None:
    async def main() -> None:
        async with ScriptedBroker() as broker:
            log = PlayedLog(broker)
            options = {
                "auto_offset_reset": "earliest",
                "fetch_max_wait_ms": 10,
                "retry_backoff_ms": 10,
                "metadata_max_age_ms": 50,
                **settings,
            }
            async with aio.Consumer(bootstrap_servers=broker.bootstrap, **options) as consumer:
                consumer.assign([TP])
                await story(log, consumer)

    asyncio.run(asyncio.wait_for(main(), 60))


async def read(consumer: aio.Consumer, count: int) -> list[str]:
    values: list[str] = []
    while len(values) < count:
        records = await consumer.poll(30, max_records=count - len(values))
        values += [record.value.decode() for record in records]
    return values


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


async def fetched_ahead(log: PlayedLog, offset: int) -> None:
    """Until the consumer has asked for that offset."""
    await until(lambda: offset in log.asked)


async def learned(consumer: aio.Consumer, epoch: int) -> None:
    """Until the consumer knows of the new leader; it hears of it from the next fetch."""
    await until(lambda: consumer._engine.cluster.leader("t", 0) == (0, epoch))


def test_records_that_a_truncation_took_are_not_delivered_though_fetched_before() -> None:
    async def story(log: PlayedLog, consumer: aio.Consumer) -> None:
        log.append(*(f"old{n}" for n in range(8)))
        assert await read(consumer, 2) == ["old0", "old1"]
        await fetched_ahead(log, 8)
        log.cut(4)
        log.elect(1)
        log.append("new4", "new5")
        await learned(consumer, 1)
        assert await read(consumer, 4) == ["old2", "old3", "new4", "new5"]

    go(story)


def test_fetched_records_that_no_one_has_seen_yet_are_not_delivered_after_a_truncation() -> None:
    async def story(log: PlayedLog, consumer: aio.Consumer) -> None:
        log.append(*(f"old{n}" for n in range(6)))
        consumer.seek(TP, 0)
        await until(lambda: consumer._engine.cluster.topic("t") is not None)
        consumer.resume([TP])
        await fetched_ahead(log, 6)
        log.cut(1)
        log.elect(1)
        log.append("new1")
        await learned(consumer, 1)
        assert await read(consumer, 2) == ["old0", "new1"]

    go(story)


def test_a_position_behind_a_truncation_goes_back_to_where_the_logs_part() -> None:
    async def story(log: PlayedLog, consumer: aio.Consumer) -> None:
        log.append(*(f"old{n}" for n in range(4)))
        assert await read(consumer, 4) == ["old0", "old1", "old2", "old3"]
        log.cut(2)
        log.elect(1)
        log.append("new2", "new3", "new4")
        await learned(consumer, 1)
        assert await read(consumer, 3) == ["new2", "new3", "new4"]

    go(story)


def test_a_truncation_is_told_until_the_user_seeks_if_no_policy_is_set() -> None:
    async def story(log: PlayedLog, consumer: aio.Consumer) -> None:
        log.append(*(f"old{n}" for n in range(4)))
        consumer.seek(TP, 0)
        assert await read(consumer, 4) == ["old0", "old1", "old2", "old3"]
        log.cut(2)
        log.elect(1)
        log.append("new2", "new3", "new4")
        await learned(consumer, 1)
        for _ in range(2):
            with pytest.raises(errors.LogTruncationError, match="truncated to offset 2"):
                await read(consumer, 1)
        consumer.seek(TP, 2)
        assert await read(consumer, 3) == ["new2", "new3", "new4"]

    go(story, auto_offset_reset="none")


def test_a_position_of_an_epoch_is_checked_before_it_is_read_from() -> None:
    async def story(log: PlayedLog, consumer: aio.Consumer) -> None:
        log.append("a", "b")
        log.elect(5)
        log.append("c", "d", "e", "f")
        consumer.seek(TP, OffsetAndMetadata(4, leader_epoch=3))
        assert await read(consumer, 1) == ["c"]
        consumer.seek(TP, OffsetAndMetadata(4, leader_epoch=5))
        assert await read(consumer, 1) == ["e"]
        consumer.seek(TP, 4)
        assert await read(consumer, 1) == ["e"]

    go(story)


def test_nothing_left_of_an_epoch_is_a_truncation_too() -> None:
    async def story(log: PlayedLog, consumer: aio.Consumer) -> None:
        log.elect(5)
        log.append("a", "b", "c")
        consumer.seek(TP, OffsetAndMetadata(2, leader_epoch=3))
        assert await read(consumer, 1) == ["a"]

    go(story)


def test_an_offset_out_of_range_met_while_fetching_ahead_delivers_nothing_twice() -> None:
    async def story(log: PlayedLog, consumer: aio.Consumer) -> None:
        log.append(*(str(n) for n in range(10)))
        log.refused[4] = Error.OFFSET_OUT_OF_RANGE
        assert await read(consumer, 1) == ["0"]
        await until(lambda: log.asked.count(4) >= 2)
        log.start = 6
        assert await read(consumer, 5) == ["1", "2", "3", "6", "7"]

    go(story)


def test_what_a_fetch_failed_with_comes_after_the_records_before_it() -> None:
    async def story(log: PlayedLog, consumer: aio.Consumer) -> None:
        log.append(*(str(n) for n in range(6)))
        log.refused[4] = Error.TOPIC_AUTHORIZATION_FAILED
        assert await read(consumer, 1) == ["0"]
        await fetched_ahead(log, 4)
        await asyncio.sleep(0.1)
        assert log.asked.count(4) == 1
        assert await read(consumer, 3) == ["1", "2", "3"]
        for _ in range(2):
            with pytest.raises(errors.TopicAuthorizationError):
                await read(consumer, 1)
        consumer.seek(TP, 5)
        assert await read(consumer, 1) == ["5"]

    go(story)
