"""A position moves for the records that were handed over, for no others and not before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moldau import Admin, Consumer, TopicPartition, aio
from moldau.client.consumer import arrow_tables as arrow
from tests.support.eventually import eventually
from tests.support.reading import COUNT, has_fetched_ahead, offsets, some
from tests.support.topics import create_topic, fill

Names = Callable[[str], str]
Make = Callable[..., Consumer]


def test_a_seek_holds_in_a_partition_that_was_given_up_and_taken_again(
    make: Make, two: list[TopicPartition]
) -> None:
    left, right = two
    consumer = make()
    consumer.assign([left])
    consumer.seek(left, 0)
    assert some(consumer)[0].offset == 0
    eventually(lambda: has_fetched_ahead(consumer))
    consumer.assign([right])
    consumer.assign([left])
    consumer.seek(left, 200)
    assert some(consumer)[0].offset == 200


def test_a_partition_that_a_rebalance_took_and_gave_back_starts_at_the_committed_offset(
    bootstrap: str, make: Make, two: list[TopicPartition], fresh_name: Names
) -> None:
    group = fresh_name("g")
    options: dict[str, Any] = {
        "group_id": group,
        "partition_assignment_strategy": "range",
        "enable_auto_commit": False,
        "heartbeat_interval_ms": 100,
    }
    consumer = make(**options)
    firsts: dict[TopicPartition, int] = {}
    told: list[list[TopicPartition]] = []

    class Listener:
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            told.append(partitions)
            firsts.clear()

    def poll() -> bool:
        for record in consumer.poll(1.0, max_records=10):
            firsts.setdefault(record.topic_partition, record.offset)
        return len(firsts) == 2

    consumer.subscribe([two[0].topic], Listener())
    eventually(lambda: consumer.poll(0.1) is not None and len(told) == 1)
    for tp in two:
        consumer.seek(tp, 0)
    some(consumer, 10)
    consumer.commit(dict.fromkeys(two, 100))
    eventually(lambda: has_fetched_ahead(consumer))
    consumer.enforce_rebalance()
    eventually(lambda: poll() and len(told) == 2)
    assert firsts == dict.fromkeys(two, 100)


def test_a_table_that_could_not_be_made_is_made_by_the_next_poll(
    make: Make, two: list[TopicPartition], monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = make()
    consumer.assign(two[:1])
    consumer.seek(two[0], 0)
    table_of = arrow.table_of
    monkeypatch.setattr(arrow, "table_of", lambda *_: bytearray(-1))
    with pytest.raises(ValueError, match="negative"):
        consumer.poll_arrow(10)
    assert consumer.position(two[0]) == 0
    monkeypatch.setattr(arrow, "table_of", table_of)
    found: list[int] = []
    eventually(
        lambda: (
            bool(found.extend(consumer.poll_arrow(1).column("offset").to_pylist()))
            or len(found) >= COUNT
        )
    )
    assert found == list(range(COUNT))


def test_who_leaves_an_iteration_finds_the_next_record_later(
    make: Make, two: list[TopicPartition], fresh_name: Names
) -> None:
    group = fresh_name("g")
    consumer = make(group_id=group)
    consumer.assign(two[:1])
    for record in consumer:
        if record.offset == 3:
            break
    assert consumer.position(two[0]) == 4
    assert some(consumer)[0].offset == 4
    for record in consumer:
        assert record.offset == 5
        break
    consumer.close()
    later = make(group_id=group)
    later.assign(two[:1])
    assert some(later)[0].offset == 6


def test_an_iteration_obeys_what_its_body_does(make: Make, two: list[TopicPartition]) -> None:
    left, right = two
    consumer = make(consumer_timeout_ms=5000)
    consumer.assign([left])
    read = []
    for record in consumer:
        read.append(record.offset)
        if read == [0, 1]:
            consumer.seek(left, 100)
        elif read[-1] == 101:
            read += [r.offset for r in consumer.poll(5, max_records=2)]
        elif read[-1] == 104:
            consumer.assign([right])
        elif len(read) > 7:
            break
    assert read == [0, 1, 100, 101, 102, 103, 104, 0]


def test_the_asynchronous_iteration_can_be_left_too(
    bootstrap: str, two: list[TopicPartition]
) -> None:
    async def story() -> list[int]:
        async with aio.Consumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(two[:1])
            async for record in consumer:
                if record.offset == 2:
                    break
            return [record.offset for record in await consumer.poll(30, max_records=2)]

    assert asyncio.run(story()) == [3, 4]


def test_a_poll_that_is_cancelled_loses_no_record(
    bootstrap: str, two: list[TopicPartition]
) -> None:
    async def story() -> dict[TopicPartition, list[int]]:
        read: dict[TopicPartition, list[int]] = {tp: [] for tp in two}
        turns = 0
        async with aio.Consumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=17
        ) as consumer:
            consumer.assign(two)
            while sum(map(len, read.values())) < 2 * COUNT:
                turns += 1
                task = asyncio.create_task(consumer.poll(5))
                for _ in range(turns % 7):
                    await asyncio.sleep(0)
                if turns % 3:
                    task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    for record in task.result():
                        read[record.topic_partition].append(record.offset)
        return read

    assert asyncio.run(asyncio.wait_for(story(), 60)) == {tp: list(range(COUNT)) for tp in two}


def test_a_seek_is_obeyed_when_the_buffer_is_full(
    bootstrap: str, make: Make, fresh_name: Names
) -> None:
    tp = TopicPartition(create_topic(bootstrap, fresh_name("wide")), 0)
    fill(bootstrap, tp, ["x" * 1000 for _ in range(200)], batch_size=2000)
    consumer = make(max_partition_fetch_bytes=5000, fetch_max_bytes=10_000)
    consumer.assign([tp])
    some(consumer)
    engine = consumer._client._engine
    eventually(lambda: engine.fetcher.is_full)
    consumer.seek(tp, 150)
    assert some(consumer)[0].offset == 150


def test_a_paused_partition_with_a_full_buffer_does_not_hold_up_others(
    bootstrap: str, make: Make, fresh_name: Names
) -> None:
    topic = create_topic(bootstrap, fresh_name("wide"), 2)
    left, right = TopicPartition(topic, 0), TopicPartition(topic, 1)
    fill(bootstrap, left, ["x" * 1000 for _ in range(50)], batch_size=2000)
    consumer = make(max_partition_fetch_bytes=5000, fetch_max_bytes=10_000)
    consumer.assign([left, right])
    first = some(consumer)[0].offset
    eventually(lambda: consumer._client._engine.fetcher.is_full)
    consumer.pause([left])
    fill(bootstrap, right, ["y"])
    assert some(consumer)[0].topic_partition == right
    consumer.resume([left])
    assert some(consumer)[0].offset == first + 1


def test_a_topic_that_was_made_anew_is_read_from_its_start(
    bootstrap: str, make: Make, fresh_name: Names
) -> None:
    tp = TopicPartition(create_topic(bootstrap, fresh_name("again")), 0)
    fill(bootstrap, tp, [f"old{n}" for n in range(50)])
    consumer = make(metadata_max_age_ms=200)
    consumer.assign([tp])
    assert [record.value for record in some(consumer, 20)][-1] == b"old19"
    eventually(lambda: has_fetched_ahead(consumer))
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([tp.topic]).check()
        eventually(lambda: tp.topic not in admin.list_topics())
    create_topic(bootstrap, tp.topic)
    fill(bootstrap, tp, ["new0", "new1"])
    engine = consumer._client._engine
    new_id = engine.cluster.topic_id(tp.topic)
    consumer.pause([tp])
    eventually(
        lambda: consumer.poll(0.1) is not None and engine.cluster.topic_id(tp.topic) != new_id
    )
    consumer.resume([tp])
    assert [record.value for record in some(consumer, 20)] == [b"new0", b"new1"]


def test_a_committed_position_holds_when_all_records_before_it_were_deleted(
    bootstrap: str, make: Make, fresh_name: Names
) -> None:
    tp = TopicPartition(create_topic(bootstrap, fresh_name("deleted")), 0)
    fill(bootstrap, tp, ["a", "b", "c"])
    group = fresh_name("g")
    consumer = make(group_id=group)
    consumer.assign([tp])
    assert offsets(consumer, 3) == [0, 1, 2]
    consumer.commit()
    consumer.close()
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({tp: 3}).check()
    later = make(group_id=group, auto_offset_reset="none")
    later.assign([tp])
    assert later.poll(0.5).is_empty()
    fill(bootstrap, tp, ["d"])
    assert some(later)[0].offset == 3
