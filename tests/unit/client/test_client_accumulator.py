"""Batches, their memory and their order, without a clock, a socket or a thread."""

from __future__ import annotations

import pytest

from moldau.client.producer.producer_batch import ProducerBatch, record_bytes
from moldau.client.producer.record_accumulator import Accumulator, PartitionQueue
from moldau.records.batch_codec import decode_batch
from moldau.records.compression import Codec


def accumulator(**changes: int) -> Accumulator:
    settings = {
        "batch_size_bytes": 1000,
        "linger_ms": 5,
        "buffer_memory_bytes": 10_000,
        "delivery_timeout_ms": 120_000,
    }
    return Accumulator(**{**settings, **changes})


def put(
    box: Accumulator, value: bytes, *, now_ms: int = 0, partition: int = 0, topic: str = "t"
) -> ProducerBatch | None:
    """As the pipeline does it."""
    queues = box.topic_queues(topic, partition + 1)
    size = record_bytes(None, value, ())
    batch = queues.queues[partition].open
    if batch is None or batch.size_bytes + size > batch.limit_bytes:
        batch = box.open_batch(queues, partition, size, now_ms)
    if batch is not None:
        batch.add(value, None, (), now_ms, size)
    return batch


def queue(box: Accumulator, partition: int = 0, topic: str = "t") -> PartitionQueue:
    return box.topics[topic].queues[partition]


def test_records_share_a_batch_until_it_is_full() -> None:
    box = accumulator()
    batches = [put(box, b"x" * 300) for _ in range(4)]
    assert batches[0] is batches[1] is batches[2]
    assert batches[3] is not batches[0]
    assert len(queue(box).batches) == 2


def test_a_record_larger_than_a_batch_gets_one_of_its_own() -> None:
    box = accumulator()
    first, large, next_one = put(box, b"x"), put(box, b"x" * 5000), put(box, b"x")
    assert first is not large
    assert large is not next_one
    assert large is not None
    assert large.reserved_bytes > 5000


def test_memory_is_taken_per_batch_and_given_back_when_it_is_done() -> None:
    box = accumulator(buffer_memory_bytes=2000)
    put(box, b"a", partition=0)
    put(box, b"b", partition=1)
    assert box.free_bytes == 0
    assert put(box, b"c", partition=2) is None
    taken = box.take(queue(box, 0))
    box.release(taken)
    assert box.free_bytes == 1000
    box.release(taken)
    assert box.free_bytes == 1000
    assert put(box, b"c", partition=2) is not None


def test_an_open_batch_waits_for_linger_and_a_full_one_does_not() -> None:
    box = accumulator()
    put(box, b"x" * 900, now_ms=100)
    assert box.ready_at(queue(box), 100) == 105
    put(box, b"x" * 900, now_ms=101)
    assert box.ready_at(queue(box), 101) == 101


def test_a_flush_or_a_sender_without_memory_ends_the_lingering() -> None:
    box = accumulator()
    put(box, b"x", now_ms=100)
    box.hurries += 1
    assert box.ready_at(queue(box), 100) == 100


def test_taking_the_open_batch_closes_it() -> None:
    box = accumulator()
    first = put(box, b"x")
    assert box.take(queue(box)) is first
    assert not box.waiting
    assert put(box, b"y") is not first


def test_a_batch_put_back_comes_first_and_waits_for_its_pause() -> None:
    box = accumulator()
    put(box, b"x" * 900)
    put(box, b"y" * 900)
    batch = box.take(queue(box))
    box.put_back(batch, retry_at_ms=500)
    assert queue(box).batches[0] is batch
    assert queue(box).in_flight == 0
    assert box.ready_at(queue(box), 400) == 500
    assert box.ready_at(queue(box), 500) == 500


@pytest.mark.parametrize("first", [0, 2**31 - 2])
def test_batches_put_back_in_any_order_are_sent_in_order_of_sequence(first: int) -> None:
    box = accumulator()
    for _ in range(4):
        put(box, b"x" * 900)
    taken = [box.take(queue(box)) for _ in range(3)]
    for index, batch in enumerate(taken):
        batch.set_producer(1, 0, (first + index) & 0x7FFFFFFF)
    for batch in (taken[1], taken[2], taken[0]):
        box.put_back(batch, 0)
    assert list(queue(box).batches)[:3] == taken


def test_batches_expire_delivery_timeout_after_their_first_record() -> None:
    box = accumulator(delivery_timeout_ms=1000)
    old = put(box, b"x" * 900, now_ms=0)
    put(box, b"y" * 900, now_ms=500)
    assert box.expired(999) == []
    assert box.expired(1000) == [old]
    assert len(queue(box).batches) == 1


def test_a_split_batch_keeps_order_sequences_callbacks_and_memory() -> None:
    box = accumulator()
    for n in range(8):
        batch = put(box, b"%d" % n * 100)
    assert batch is not None
    told: list[int] = []
    batch.callbacks = [(n, 0, lambda m, e: told.append(m.offset if m else -1)) for n in range(8)]
    taken = box.take(queue(box))
    taken.set_producer(1, 0, 50)
    free_bytes = box.free_bytes
    parts = box.split(taken)
    assert [part.base_sequence for part in parts] == [50, 53, 56]
    assert [value for part in parts for value in part.values] == [b"%d" % n * 100 for n in range(8)]
    assert sum(len(part.callbacks) for part in parts) == 8
    assert taken.locate(7) == (parts[2], 1)
    for offset, part in enumerate(parts):
        assert box.take(queue(box)) is part
        assert not taken.is_done
        part.complete(offset * 100, -1)
        box.release(part)
    assert taken.is_done
    assert box.free_bytes == free_bytes + 1000
    assert not box.incomplete


def test_topics_that_compress_well_get_larger_batches_until_one_is_refused() -> None:
    box = accumulator(buffer_memory_bytes=100_000)
    batch = put(box, b"x" * 900)
    assert batch is not None
    for _ in range(100):
        box.compressed(batch, 100)
    assert box.topics["t"].limit_bytes > 5000
    assert put(box, b"y" * 900) is not None
    put(box, b"z" * 10)
    box.split(box.take(queue(box)))
    assert box.topics["t"].limit_bytes == 1000


def test_everything_that_is_not_in_flight_can_be_dropped() -> None:
    box = accumulator()
    put(box, b"x" * 900)
    put(box, b"y" * 900)
    flying = box.take(queue(box))
    dropped = box.drop_all()
    assert len(dropped) == 1
    assert flying not in dropped
    assert not box.waiting


def test_an_encoded_batch_is_what_a_reader_decodes() -> None:
    batch = ProducerBatch("t", 0, 1000, 0)
    batch.add(b"v1", None, (), 10, 20)
    batch.add(None, b"k", (), 12, 20)
    batch.add(b"v3", None, (("h", b"x"),), 11, 20)
    batch.seal()
    batch.set_producer(7, 1, 3)
    for codec in Codec:
        batch.payload = None
        rows = decode_batch(batch.encode(codec, None))
        assert [(r.timestamp, r.key, r.value, r.headers) for r in rows] == [
            (10, None, b"v1", ()),
            (12, b"k", None, ()),
            (11, None, b"v3", (("h", b"x"),)),
        ]


def test_waiters_hear_of_the_outcome_once_it_is_known_or_at_once() -> None:
    batch = ProducerBatch("t", 0, 1000, 0)
    heard: list[str] = []
    batch.when_done(lambda: heard.append("early"))
    assert heard == []
    assert batch.complete(5, -1)
    assert not batch.fail(ValueError("too late"))
    batch.when_done(lambda: heard.append("late"))
    assert heard == ["early", "late"]
    assert batch.metadata(2, 99) == ("t", 0, 7, 99)


def test_batches_grow_while_many_wait_and_only_then() -> None:
    box = accumulator(buffer_memory_bytes=1_000_000, growth_bytes_max=8000)
    sizes = []
    for _ in range(300):
        batch = put(box, b"x" * 900)
        assert batch is not None
        sizes.append(batch.limit_bytes)
    assert sizes[:5] == [1000] * 5
    assert sizes == sorted(sizes)
    assert sizes[-1] == 8000
    while queue(box).batches:
        box.release(box.take(queue(box)))
    batch = put(box, b"x")
    assert batch is not None
    assert batch.limit_bytes == 1000


def test_batches_never_grow_where_a_size_was_asked_for_or_a_broker_has_refused_one() -> None:
    box = accumulator(buffer_memory_bytes=1_000_000)
    assert {put(box, b"x" * 900).limit_bytes for _ in range(100)} == {1000}  # type: ignore[union-attr]
    box = accumulator(buffer_memory_bytes=1_000_000, growth_bytes_max=8000)
    for _ in range(3):
        put(box, b"x" * 400)
    box.split(box.take(queue(box)))
    assert {put(box, b"x" * 900).limit_bytes for _ in range(100)} == {1000}  # type: ignore[union-attr]
