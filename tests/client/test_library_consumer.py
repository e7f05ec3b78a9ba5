"""What `moldau.Consumer` promises when it reads alone: positions, offsets, waiting, records."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau import Consumer, Producer, TopicPartition, aio, errors
from moldau.client.consumer.concurrent_use import ConcurrentModificationError
from moldau.client.consumer.consumer_records import (
    ConsumerRecords,
    OffsetAndMetadata,
    TimestampType,
)
from tests.support.topics import create_topic, fill

Names = Callable[[str], str]


@pytest.fixture(scope="module")
def ten(bootstrap: str, fresh_name: Names) -> TopicPartition:
    """A partition with ten records, "0" to "9"."""
    tp = TopicPartition(create_topic(bootstrap, fresh_name("ten")), 0)
    fill(bootstrap, tp, [str(number) for number in range(10)])
    return tp


@pytest.fixture
def make(bootstrap: str) -> Iterator[Callable[..., Consumer]]:
    made: list[Consumer] = []

    def consumer(**settings: Any) -> Consumer:
        made.append(Consumer(bootstrap_servers=bootstrap, **settings))
        return made[-1]

    yield consumer
    for each in made:
        each.close()


def read(consumer: Consumer, count: int, seconds_max: float = 20.0) -> list[str]:
    """The values of the next `count` records."""
    values: list[str] = []
    deadline = time.monotonic() + seconds_max
    while len(values) < count:
        assert time.monotonic() < deadline, f"only {values} came"
        values += [record.value.decode() for record in consumer.poll(1.0)]
    return values


def test_a_poll_returns_records_with_all_that_was_sent(
    bootstrap: str, make: Callable[..., Consumer], fresh_name: Names
) -> None:
    topic = create_topic(bootstrap, fresh_name("full"))
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"v", b"k", {"h": b"x"}, 0, timestamp_ms=1234).result(10)
        producer.send(topic, None, b"k").result(10)
    consumer = make(auto_offset_reset="earliest")
    consumer.assign([(topic, 0)])
    records: list[Any] = []
    while len(records) < 2:
        records += consumer.poll(5.0)
    first, second = records
    assert first.topic_partition == (topic, 0)
    assert (first.offset, first.key, first.value, first.headers) == (
        0,
        b"k",
        b"v",
        (("h", b"x"),),
    )
    assert (first.timestamp, first.timestamp_type) == (1234, TimestampType.CREATE_TIME)
    assert (second.offset, second.value, second.headers) == (1, None, ())


def test_a_poll_without_records_waits_for_its_time_out(
    make: Callable[..., Consumer], ten: TopicPartition
) -> None:
    consumer = make(auto_offset_reset="latest")
    consumer.assign([ten])
    assert consumer.position(ten) == 10
    start = time.monotonic()
    assert consumer.poll(0.3).is_empty()
    assert 0.25 < time.monotonic() - start < 3


def test_a_poll_returns_at_most_max_poll_records(
    make: Callable[..., Consumer], ten: TopicPartition
) -> None:
    consumer = make(auto_offset_reset="earliest", max_poll_records=4)
    consumer.assign([ten])
    sizes = [len(consumer.poll(5.0)) for _ in range(3)]
    assert sizes == [4, 4, 2]
    assert consumer.position(ten) == 10


def test_reading_starts_where_a_seek_says(
    make: Callable[..., Consumer], ten: TopicPartition
) -> None:
    consumer = make()
    consumer.assign([ten])
    consumer.seek(ten, 7)
    assert read(consumer, 3) == ["7", "8", "9"]
    consumer.seek_to_beginning()
    assert consumer.position(ten) == 0
    assert read(consumer, 10)[0] == "0"
    consumer.seek_to_end([ten])
    assert consumer.position(ten) == 10
    consumer.seek(ten, OffsetAndMetadata(9))
    assert read(consumer, 1) == ["9"]
    with pytest.raises(ValueError, match="negative"):
        consumer.seek(ten, -1)


def test_the_last_record_is_found_from_the_end(
    make: Callable[..., Consumer], ten: TopicPartition
) -> None:
    consumer = make()
    consumer.assign([ten])
    consumer.seek(ten, consumer.end_offsets([ten])[ten] - 1)
    assert read(consumer, 1) == ["9"]
    assert consumer.current_lag(ten) == 0


def test_offsets_are_found_by_edge_and_by_time(
    bootstrap: str, make: Callable[..., Consumer], fresh_name: Names
) -> None:
    tp = TopicPartition(create_topic(bootstrap, fresh_name("timed")), 0)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for stamp in (1000, 2000, 3000):
            producer.send(tp.topic, b"v", partition=0, timestamp_ms=stamp).result(10)
    consumer = make()
    assert consumer.beginning_offsets([tp]) == {tp: 0}
    assert consumer.end_offsets([tp]) == {tp: 3}
    found = consumer.offsets_for_times({tp: 1500})[tp]
    assert found is not None
    assert (found.offset, found.timestamp) == (1, 2000)
    assert consumer.offsets_for_times({tp: 4000}) == {tp: None}
    with pytest.raises(ValueError, match="negative"):
        consumer.offsets_for_times({tp: -5})


def test_a_partition_that_does_not_exist_has_no_offsets(
    make: Callable[..., Consumer], ten: TopicPartition
) -> None:
    consumer = make()
    with pytest.raises(errors.KafkaTimeoutError, match="Failed to get offsets by times in 500ms"):
        consumer.end_offsets([(ten.topic, 77)], timeout=0.5)


def test_without_a_committed_offset_the_policy_decides(
    bootstrap: str, make: Callable[..., Consumer], ten: TopicPartition, fresh_name: Names
) -> None:
    latest = make(group_id=fresh_name("g"))
    latest.assign([ten])
    assert latest.position(ten) == 10
    strict = make(group_id=fresh_name("g"), auto_offset_reset="none")
    strict.assign([ten])
    with pytest.raises(errors.NoOffsetForPartitionError, match=str(ten)):
        strict.poll(5.0)
    recent = make(auto_offset_reset="by_duration:PT1H")
    recent.assign([ten])
    assert recent.position(ten) == 0


def test_an_offset_out_of_range_is_reset_or_told(
    make: Callable[..., Consumer], ten: TopicPartition
) -> None:
    consumer = make(auto_offset_reset="earliest")
    consumer.assign([ten])
    consumer.seek(ten, 500)
    assert read(consumer, 10)[0] == "0"
    strict = make(auto_offset_reset="none")
    strict.assign([ten])
    strict.seek(ten, 500)
    with pytest.raises(errors.KafkaError, match="out of range"):
        strict.poll(5.0)


def test_commits_keep_the_next_offset_and_a_note(
    make: Callable[..., Consumer], ten: TopicPartition, fresh_name: Names
) -> None:
    group = fresh_name("g")
    consumer = make(group_id=group, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([ten])
    assert consumer.committed([ten]) == {ten: None}
    read(consumer, 10)
    consumer.commit()
    committed = consumer.committed([ten])[ten]
    assert committed is not None
    assert committed.offset == 10
    consumer.commit({ten: 4})
    consumer.commit({ten: OffsetAndMetadata(5, "note")})
    told: list[Any] = []
    consumer.commit_async({ten: 6}, lambda offsets, error: told.append((offsets, error)))
    while not told:
        consumer.poll(0.05)
    assert told == [({ten: OffsetAndMetadata(6)}, None)]
    later = make(group_id=group, enable_auto_commit=False)
    later.assign([ten])
    assert read(later, 1)[0] == "6"


def test_positions_are_committed_by_themselves_and_at_close(
    make: Callable[..., Consumer], ten: TopicPartition, fresh_name: Names
) -> None:
    group = fresh_name("g")
    consumer = make(group_id=group, auto_offset_reset="earliest", auto_commit_interval_ms=100)
    watcher = make(group_id=group, enable_auto_commit=False)
    consumer.assign([ten])
    read(consumer, 10)
    deadline = time.monotonic() + 10
    while watcher.committed([ten])[ten] is None:
        assert time.monotonic() < deadline
        consumer.poll(0.05)
    consumer.seek(ten, 3)
    consumer.close()
    committed = watcher.committed([ten])[ten]
    assert committed is not None
    assert committed.offset == 3


def test_committing_needs_a_group(make: Callable[..., Consumer], ten: TopicPartition) -> None:
    consumer = make()
    consumer.assign([ten])
    with pytest.raises(errors.InvalidGroupIdError, match=r"group\.id"):
        consumer.commit({ten: 1})
    with pytest.raises(errors.InvalidGroupIdError):
        consumer.subscribe([ten.topic])


def test_paused_partitions_wait(
    bootstrap: str, make: Callable[..., Consumer], fresh_name: Names
) -> None:
    topic = create_topic(bootstrap, fresh_name("paused"), 2)
    left, right = TopicPartition(topic, 0), TopicPartition(topic, 1)
    fill(bootstrap, left, ["l"])
    fill(bootstrap, right, ["r"])
    consumer = make(auto_offset_reset="earliest")
    consumer.assign([left, right])
    consumer.pause([left])
    assert consumer.paused() == {left}
    assert read(consumer, 1) == ["r"]
    assert consumer.poll(0.2).is_empty()
    consumer.resume([left])
    assert read(consumer, 1) == ["l"]


def test_a_poll_sleeps_while_only_paused_partitions_have_records(
    make: Callable[..., Consumer], ten: TopicPartition
) -> None:
    consumer = make(auto_offset_reset="earliest")
    consumer.assign([ten])
    assert len(consumer.poll(10, max_records=1)) == 1
    consumer.pause([ten])
    began, used = time.monotonic(), time.thread_time()
    assert consumer.poll(0.3).is_empty()
    assert time.monotonic() - began < 0.9
    assert time.thread_time() - used < 0.1
    consumer.resume([ten])
    assert len(consumer.poll(10)) == 9


def test_wakeup_ends_a_poll_from_another_thread(
    make: Callable[..., Consumer], ten: TopicPartition
) -> None:
    consumer = make()
    consumer.assign([ten])
    consumer.position(ten)
    threading.Timer(0.2, consumer.wakeup).start()
    start = time.monotonic()
    with pytest.raises(errors.WakeupError):
        consumer.poll(30)
    assert time.monotonic() - start < 10
    assert consumer.poll(0.01).is_empty()
    consumer.wakeup()
    with pytest.raises(errors.WakeupError):
        consumer.poll(0)


def test_two_threads_at_once_are_refused(
    make: Callable[..., Consumer], ten: TopicPartition
) -> None:
    consumer = make()
    consumer.assign([ten])
    consumer.position(ten)
    inside = threading.Thread(target=lambda: consumer.poll(1.0))
    inside.start()
    with pytest.raises(ConcurrentModificationError, match="multi-threaded"):
        while inside.is_alive():
            consumer.seek(ten, 10)
    inside.join()


def test_reading_nothing_in_particular_is_refused(make: Callable[..., Consumer]) -> None:
    consumer = make()
    with pytest.raises(errors.IllegalStateError, match="not subscribed"):
        consumer.poll(0.1)
    consumer.close()
    with pytest.raises(errors.IllegalStateError, match="closed"):
        consumer.poll(0.1)


def test_a_consumer_uses_one_way_to_choose_partitions(
    make: Callable[..., Consumer], ten: TopicPartition, fresh_name: Names
) -> None:
    consumer = make(group_id=fresh_name("g"))
    consumer.assign([ten])
    with pytest.raises(errors.IllegalStateError, match="mutually exclusive"):
        consumer.subscribe([ten.topic])
    consumer.unsubscribe()
    assert consumer.assignment() == set()
    consumer.subscribe([ten.topic])
    assert consumer.subscription() == {ten.topic}


def test_iteration_ends_after_its_time_out(
    make: Callable[..., Consumer], ten: TopicPartition
) -> None:
    consumer = make(auto_offset_reset="earliest", consumer_timeout_ms=300)
    consumer.assign([ten])
    assert [record.value for record in consumer] == [b"%d" % n for n in range(10)]


def test_deserializers_make_keys_and_values(
    make: Callable[..., Consumer], ten: TopicPartition
) -> None:
    consumer = make(auto_offset_reset="earliest", value_deserializer=lambda data: int(data))
    consumer.assign([ten])
    assert [record.value for record in consumer.poll(5.0)] == list(range(10))


def test_a_value_that_cannot_be_read_is_told_with_its_place_and_can_be_passed(
    bootstrap: str, make: Callable[..., Consumer], fresh_name: Names
) -> None:
    tp = TopicPartition(create_topic(bootstrap, fresh_name("odd")), 0)
    fill(bootstrap, tp, ["1", "2", "x", "4"], linger_ms=100)
    consumer = make(auto_offset_reset="earliest", value_deserializer=lambda data: int(data))
    consumer.assign([tp])
    assert [record.value for record in consumer.poll(5.0)] == [1, 2]
    for _ in range(2):
        with pytest.raises(errors.SerializationError, match=f"{tp} at offset 2"):
            consumer.poll(5.0)
    consumer.seek(tp, 3)
    assert [record.value for record in consumer.poll(5.0)] == [4]


def test_compressed_records_are_read(
    bootstrap: str, make: Callable[..., Consumer], fresh_name: Names
) -> None:
    topic = create_topic(bootstrap, fresh_name("packed"), 4)
    for index, codec in enumerate(("gzip", "snappy", "lz4", "zstd")):
        tp = TopicPartition(topic, index)
        fill(bootstrap, tp, [f"{codec}{n}" for n in range(50)], compression_type=codec)
    consumer = make(auto_offset_reset="earliest")
    consumer.assign([(topic, index) for index in range(4)])
    values = read(consumer, 200)
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        mine = [value for value in values if value.startswith(codec)]
        assert mine == [f"{codec}{n}" for n in range(50)]


def test_readers_of_committed_records_see_no_aborted_and_no_open_transaction(
    bootstrap: str, make: Callable[..., Consumer], fresh_name: Names
) -> None:
    topic = create_topic(bootstrap, fresh_name("txn"))
    tp = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=bootstrap, transactional_id=fresh_name("t")) as producer:
        producer.init_transactions()
        for number, outcome in enumerate(("commit", "abort", "commit")):
            producer.begin_transaction()
            producer.send(topic, f"{outcome}{number}".encode()).result(10)
            if outcome == "commit":
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"open").result(10)
        committed = make(auto_offset_reset="earliest", isolation_level="read_committed")
        committed.assign([tp])
        assert read(committed, 2) == ["commit0", "commit2"]
        assert committed.poll(0.3).is_empty()
        assert committed.position(tp) == committed.end_offsets([tp])[tp] == 6
        everything = make(auto_offset_reset="earliest")
        everything.assign([tp])
        assert read(everything, 4) == ["commit0", "abort1", "commit2", "open"]
        producer.commit_transaction()
        assert read(committed, 1) == ["open"]


def test_topics_and_partitions_are_told(make: Callable[..., Consumer], ten: TopicPartition) -> None:
    consumer = make()
    assert [row.partition for row in consumer.partitions_for(ten.topic)] == [0]
    assert ten.topic in consumer.list_topics()


def test_more_data_than_one_fetch_holds_arrives_in_order(
    bootstrap: str, make: Callable[..., Consumer], fresh_name: Names
) -> None:
    tp = TopicPartition(create_topic(bootstrap, fresh_name("large")), 0)
    fill(bootstrap, tp, [f"{n:09}" + "x" * 1000 for n in range(3000)])
    consumer = make(
        auto_offset_reset="earliest", max_partition_fetch_bytes=40_000, fetch_max_bytes=100_000
    )
    consumer.assign([tp])
    values = read(consumer, 3000)
    assert [int(value[:9]) for value in values] == list(range(3000))


def test_the_asynchronous_twin_reads_the_same(bootstrap: str, ten: TopicPartition) -> None:
    async def story() -> list[bytes]:
        async with aio.Consumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=500
        ) as consumer:
            consumer.assign([ten])
            waiting = asyncio.create_task(consumer.poll(0.5, max_records=1))
            await asyncio.sleep(0)
            with pytest.raises(ConcurrentModificationError):
                await consumer.poll(0)
            assert len(await waiting) <= 1
            consumer.seek_to_beginning()
            values = [record.value async for record in consumer]
            consumer.wakeup()
            with pytest.raises(errors.WakeupError):
                await consumer.poll(1)
        return values

    assert asyncio.run(story()) == [b"%d" % n for n in range(10)]


def test_records_of_a_poll_are_found_by_partition_and_topic() -> None:
    assert ConsumerRecords().is_empty()
    assert ConsumerRecords().records("t") == []
