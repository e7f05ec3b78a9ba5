"""The way of a record into its batch, without a broker or a loop."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.client.producer.record_accumulator import Accumulator
from moldau.client.producer.record_append import Pipeline
from moldau.client.producer.record_future import RecordFuture
from moldau.client.producer.transaction_manager import TransactionMachine
from moldau.client.shared import client_errors as errors
from moldau.client.shared.interceptors import ProducerRecord
from moldau.config.client_settings.producer_settings import ProducerConfig
from moldau.model.names import TopicPartition


def pipeline(machine: TransactionMachine | None = None, **settings: Any) -> Pipeline:
    settings.setdefault("batch_size", 1000)
    config, _ = ProducerConfig.parse(bootstrap_servers="localhost:9092", **settings)
    accumulator = Accumulator(
        batch_size_bytes=config.batch_size,
        linger_ms=config.linger_ms,
        buffer_memory_bytes=config.buffer_memory,
        delivery_timeout_ms=config.delivery_timeout_ms,
    )
    made = Pipeline(config, accumulator, machine, RecordFuture)
    made.know("t", 2, [0, 1])
    return made


def place(line: Pipeline, value: Any = b"x", key: Any = None, topic: str = "t", **more: Any) -> Any:
    return line.place(
        topic,
        value,
        key,
        more.get("headers", ()),
        more.get("partition"),
        more.get("timestamp_ms"),
        more.get("on_delivery"),
    )


def test_a_topic_without_metadata_has_no_place_yet() -> None:
    assert place(pipeline(), topic="unknown") is None


def test_a_record_has_no_place_while_memory_is_used_up() -> None:
    line = pipeline(buffer_memory=1000)
    assert place(line, b"x" * 900) is not None
    assert place(line, b"x" * 900) is None
    queue = next(iter(line.accumulator.waiting))
    line.accumulator.release(line.accumulator.take(queue))
    assert place(line, b"x" * 900) is not None


def test_the_loop_is_woken_once_per_batch_and_not_again_before_it_has_looked() -> None:
    line = pipeline()
    wakes: list[int] = []
    line.wake = lambda: wakes.append(1)
    for _ in range(5):
        place(line)
    assert len(wakes) == 1
    line.slept()
    place(line)
    assert len(wakes) == 1
    place(line, b"x" * 950)
    assert len(wakes) == 2


def test_records_without_keys_move_on_when_a_batch_is_full() -> None:
    line = pipeline(partitioner_adaptive_partitioning_enable=False)
    partitions = [place(line, b"x" * 300)._batch.partition for _ in range(12)]
    assert partitions in ([0, 0, 0, 1, 1, 1] * 2, [1, 1, 1, 0, 0, 0] * 2)


def test_given_partitions_and_keys_decide() -> None:
    line = pipeline()
    assert place(line, partition=1)._batch.partition == 1
    assert place(line, key=b"a")._batch.partition == place(line, key="a")._batch.partition
    with pytest.raises(ValueError, match="-1"):
        line.missing_partition("t", -1)
    assert line.missing_partition("t", 2)
    line.know("t", 3, [0, 1, 2])
    assert not line.missing_partition("t", 2)


def test_a_custom_partitioner_must_choose_a_partition_that_exists() -> None:
    line = pipeline(partitioner_class=lambda topic, key, value: 5)
    with pytest.raises(ValueError, match="partition 5"):
        place(line)


def test_a_record_larger_than_a_request_is_refused() -> None:
    line = pipeline(max_request_size=5000)
    with pytest.raises(errors.RecordTooLargeError):
        place(line, b"x" * 5000)
    with pytest.raises(errors.RecordTooLargeError):
        line.place_many("t", [b"x", b"x" * 5000], 0, [])


def test_what_cannot_be_sent_is_refused_before_it_reaches_a_batch() -> None:
    line = pipeline()
    with pytest.raises(errors.SerializationError):
        place(line, 5)
    with pytest.raises(errors.SerializationError):
        place(line, b"x", key=1.5)
    assert not line.accumulator.waiting


def test_many_values_fill_batches_as_single_ones_do() -> None:
    line = pipeline()
    line.know("one", 1, [0])
    batches: list[Any] = []
    values = [b"%d" % n * (n % 50) for n in range(500)] + ["text", None]
    assert line.place_many("one", values, 0, batches) == len(values)
    placed = [value for batch in dict.fromkeys(batches) for value in batch.values]
    assert placed == [*values[:500], b"text", None]
    assert all(batch.size_bytes <= 1000 for batch in batches)


def test_many_values_stop_where_memory_ends() -> None:
    line = pipeline(buffer_memory=2000)
    taken = line.place_many("t", [b"x" * 100] * 100, 0, [])
    assert 0 < taken < 20


def test_interceptors_come_first_and_serializers_next() -> None:
    class Mark:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return record._replace(value=record.value + 1)

    line = pipeline(interceptor_classes=[Mark], value_serializer="long")
    assert line.has_stages
    args = line.prepare(ProducerRecord("t", 1), None)
    assert args[:3] == ("t", (2).to_bytes(8, "big"), None)
    with pytest.raises(errors.SerializationError, match="value"):
        line.prepare(ProducerRecord("t", 1.5), None)


def test_a_transaction_hears_of_every_partition_written_to() -> None:
    machine = TransactionMachine("id")
    line = pipeline(machine, transactional_id="id")
    with pytest.raises(errors.IllegalStateError):
        place(line)
    machine.begin_initializing()
    machine.initialized()
    machine.begin()
    place(line, partition=0)
    place(line, partition=1)
    place(line, partition=1)
    assert machine.new_partitions == {TopicPartition("t", 0), TopicPartition("t", 1)}


def test_a_closed_producer_refuses_everything() -> None:
    line = pipeline()
    line.refusal = errors.IllegalStateError("closed")
    with pytest.raises(errors.IllegalStateError):
        place(line)
    with pytest.raises(errors.IllegalStateError):
        place(line, topic="unknown")


def test_topics_without_use_are_forgotten_and_those_with_waiting_records_are_not() -> None:
    line = pipeline()
    line.know("idle", 1, [0])
    place(line)
    assert line.forget_idle(0) == []
    assert line.forget_idle(1 << 60) == ["idle"]
    assert place(line, topic="idle") is None
