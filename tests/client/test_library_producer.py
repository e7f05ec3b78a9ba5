"""The producer against a running broker: what is sent is there, once, in order, in its place."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import Consumer as ForeignConsumer
from confluent_kafka import KafkaError as ForeignError
from confluent_kafka import TopicPartition as ForeignPartition

from moldau import Admin, NewTopic, Producer, ProducerRecord, RecordMetadata
from moldau.client.consumer.consumer_records import ConsumerGroupMetadata
from moldau.client.producer.asyncio_producer import Producer as AsyncProducer
from moldau.client.producer.partitioners import partition_for_key
from moldau.client.shared import client_errors as errors
from moldau.client.shared.interceptors import ProducerInterceptor
from moldau.model.names import TopicPartition

Name = Callable[[str], str]


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin, fresh_name: Name) -> str:
    return made(admin, fresh_name("produced"), 1)


@pytest.fixture
def wide_topic(admin: Admin, fresh_name: Name) -> str:
    return made(admin, fresh_name("wide"), 4)


def made(admin: Admin, name: str, partitions: int, **configs: str) -> str:
    admin.create_topics([NewTopic(name, partitions, 1, configs=configs)])[name]
    return name


def read(bootstrap: str, topic: str, partitions: int = 1, isolation: str = "read_committed") -> Any:
    """Every record there is, as confluent-kafka reads it."""
    consumer = ForeignConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.assign([ForeignPartition(topic, p, 0) for p in range(partitions)])
    found, ended = [], 0
    while ended < partitions:
        message = consumer.poll(20)
        assert message is not None, "nothing to read came in time"
        if message.error() is None:
            found.append(message)
        elif message.error().code() == ForeignError._PARTITION_EOF:
            ended += 1
        else:
            raise AssertionError(str(message.error()))
    consumer.close()
    return found


def values(bootstrap: str, topic: str, partitions: int = 1, **kwargs: Any) -> list[bytes]:
    return [message.value() for message in read(bootstrap, topic, partitions, **kwargs)]


def test_a_record_arrives_with_key_value_headers_and_timestamp(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        delivery = producer.send(
            topic, b"tea", key=b"alice", headers={"trace": b"7", "none": None}, timestamp_ms=1234567
        )
        assert delivery.result(timeout=10) == RecordMetadata(topic, 0, 0, 1234567)
    (message,) = read(bootstrap, topic)
    assert (message.key(), message.value()) == (b"alice", b"tea")
    assert message.headers() == [("trace", b"7"), ("none", None)]
    assert message.timestamp()[1] == 1234567


def test_a_tombstone_and_an_empty_value_stay_different(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, None, key=b"k")
        producer.send(topic, b"", key=b"k")
    assert values(bootstrap, topic) == [None, b""]


def test_records_of_one_partition_keep_their_order_over_many_batches(
    bootstrap: str, topic: str
) -> None:
    sent = [b"%d" % n for n in range(20_000)]
    with Producer(bootstrap_servers=bootstrap, batch_size=1000) as producer:
        for value in sent:
            producer.send(topic, value)
        producer.flush()
        assert producer.metrics()["record-send-total"] == len(sent)
        assert producer.sequences == {TopicPartition(topic, 0): len(sent)}
    assert values(bootstrap, topic) == sent


def test_send_many_takes_thousands_at_once(bootstrap: str, topic: str) -> None:
    sent = [b"%d" % n for n in range(50_000)]
    with Producer(bootstrap_servers=bootstrap) as producer:
        assert producer.send_many(topic, sent).result(timeout=30) == len(sent)
    assert values(bootstrap, topic) == sent


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read_by_others(bootstrap: str, topic: str, codec: str) -> None:
    sent = [b"the same words again and again %d" % n for n in range(3000)]
    with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        for value in sent:
            producer.send(topic, value)
        producer.flush()
        assert producer.metrics()["byte-total"] < sum(map(len, sent)) / 2
    assert values(bootstrap, topic) == sent


def test_keys_go_where_javas_producer_puts_them(bootstrap: str, wide_topic: str) -> None:
    keys = [b"key-%d" % n for n in range(200)]
    with Producer(bootstrap_servers=bootstrap) as producer:
        deliveries = [producer.send(wide_topic, b"", key=key) for key in keys]
        placed = [delivery.result(timeout=10).partition for delivery in deliveries]
    assert placed == [partition_for_key(key, 4) for key in keys]


def test_records_without_keys_spread_over_partitions_batch_by_batch(
    bootstrap: str, wide_topic: str
) -> None:
    with Producer(bootstrap_servers=bootstrap, batch_size=500) as producer:
        deliveries = [producer.send(wide_topic, b"x" * 50) for _ in range(2000)]
        placed = [delivery.result(timeout=10).partition for delivery in deliveries]
    assert set(placed) == {0, 1, 2, 3}
    switches = sum(a != b for a, b in pairwise(placed))
    assert switches < 500
    assert len(values(bootstrap, wide_topic, 4)) == 2000


def test_round_robin_and_custom_partitioners_are_asked(bootstrap: str, wide_topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, partitioner_class="RoundRobinPartitioner") as one:
        first = [one.send(wide_topic, b"").result(10).partition for _ in range(4)]
    assert sorted(first) == [0, 1, 2, 3]
    with Producer(
        bootstrap_servers=bootstrap, partitioner_class=lambda topic, key, value: len(value)
    ) as two:
        assert two.send(wide_topic, b"xx").result(10).partition == 2


def test_a_given_partition_is_kept_and_one_that_does_not_exist_refused(
    bootstrap: str, wide_topic: str
) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        assert producer.send(wide_topic, b"", key=b"k", partition=3).result(10).partition == 3
        with pytest.raises(errors.UnknownTopicOrPartitionError):
            producer.send(wide_topic, b"", partition=4)


def test_callbacks_hear_of_every_record_in_order(bootstrap: str, topic: str) -> None:
    heard: list[int] = []
    with Producer(bootstrap_servers=bootstrap) as producer:
        for _ in range(1000):
            producer.send(topic, b"x", on_delivery=lambda m, e: heard.append(m.offset if m else -1))
        producer.flush()
    assert heard == list(range(1000))


def test_serializers_and_interceptors_see_every_record(bootstrap: str, topic: str) -> None:
    class Auditor(ProducerInterceptor):
        seen: list[Any] = []

        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return record._replace(value=record.value + "!")

        def on_acknowledgement(
            self, metadata: RecordMetadata | None, error: BaseException | None
        ) -> None:
            self.seen.append(metadata)

    with Producer(
        bootstrap_servers=bootstrap,
        key_serializer="org.apache.kafka.common.serialization.LongSerializer",
        value_serializer="string",
        interceptor_classes=[Auditor],
    ) as producer:
        producer.send(topic, "grüß", key=5).result(10)
        with pytest.raises(errors.SerializationError):
            producer.send(topic, "x", key="no number")
        producer.flush()
    (message,) = read(bootstrap, topic)
    assert (message.key(), message.value()) == ((5).to_bytes(8, "big"), "grüß!".encode())
    assert Auditor.seen[0].offset == 0


def test_several_threads_share_a_producer(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, buffer_memory=200_000) as producer:

        def work(name: int) -> None:
            for n in range(3000):
                producer.send(topic, b"%d %d" % (name, n))

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = values(bootstrap, topic)
    for name in range(4):
        own = [value for value in found if value.startswith(b"%d " % name)]
        assert own == [b"%d %d" % (name, n) for n in range(3000)]


def test_a_buffer_far_too_small_only_slows_down(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap, buffer_memory=5000, batch_size=1000) as producer:
        for n in range(2000):
            producer.send(topic, b"%04d" % n + b"x" * 60)
    assert len(values(bootstrap, topic)) == 2000


def test_batches_too_large_for_the_topic_are_split(
    bootstrap: str, admin: Admin, fresh_name: Name
) -> None:
    small = made(admin, fresh_name("small"), 1, **{"max.message.bytes": "1000"})
    with Producer(bootstrap_servers=bootstrap, batch_size=16384) as producer:
        deliveries = [producer.send(small, b"%03d" % n + b"x" * 80) for n in range(300)]
        assert [d.result(10).offset for d in deliveries] == list(range(300))
        assert producer.metrics()["batch-split-total"] > 0
        with pytest.raises(errors.RecordTooLargeError):
            producer.send(small, b"x" * 5000).result(10)
        assert producer.send(small, b"after").result(10).offset == 300
    assert [value[:3] for value in values(bootstrap, small)][:300] == [
        b"%03d" % n for n in range(300)
    ]


def test_a_bulk_with_one_record_too_large_says_so_and_stores_the_others(
    bootstrap: str, admin: Admin, fresh_name: Name
) -> None:
    small = made(admin, fresh_name("small"), 1, **{"max.message.bytes": "1000"})
    sent = [b"%03d" % n for n in range(300)]
    with Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(errors.RecordTooLargeError):
            producer.send_many(small, [*sent, b"x" * 5000]).result(timeout=20)
        producer.flush()
    assert values(bootstrap, small) == sent


def test_a_record_larger_than_a_request_is_refused_at_once(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"x").result(10)
        with pytest.raises(errors.RecordTooLargeError):
            producer.send(topic, b"x" * 2_000_000)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_level_of_acks_delivers(bootstrap: str, topic: str, acks: str) -> None:
    with Producer(bootstrap_servers=bootstrap, acks=acks) as producer:
        offset = producer.send(topic, b"x").result(10).offset
        assert offset == (-1 if acks == "0" else 0)
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"y").result(10)
    assert sorted(values(bootstrap, topic)) == [b"x", b"y"]


def test_an_unknown_topic_fails_after_max_block_ms(bootstrap: str) -> None:
    with (
        Producer(bootstrap_servers=bootstrap, max_block_ms=300) as producer,
        pytest.raises(errors.KafkaError),
    ):
        producer.send("not a topic name!", b"x")


def test_a_closed_producer_refuses_records(bootstrap: str, topic: str) -> None:
    producer = Producer(bootstrap_servers=bootstrap)
    delivery = producer.send(topic, b"x")
    producer.close()
    assert delivery.result().offset == 0
    with pytest.raises(errors.IllegalStateError):
        producer.send(topic, b"y")
    producer.close()


def test_partitions_for_tells_leaders(bootstrap: str, wide_topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        found = producer.partitions_for(wide_topic)
    assert [row.partition for row in found] == [0, 1, 2, 3]
    assert all(row.leader >= 0 for row in found)


def test_the_asyncio_producer_does_the_same(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
            assert (await (await producer.send(topic, b"0"))).offset == 0
            deliveries = [await producer.send(topic, b"%d" % n) for n in range(1, 3000)]
            assert (await deliveries[-1]).offset == 2999

    asyncio.run(main())
    assert values(bootstrap, topic) == [b"%d" % n for n in range(3000)]


# Transactions.


def transactional(bootstrap: str, name: str, **settings: Any) -> Producer:
    producer = Producer(bootstrap_servers=bootstrap, transactional_id=name, **settings)
    producer.init_transactions()
    return producer


def test_committed_records_are_seen_and_aborted_ones_are_not(
    bootstrap: str, wide_topic: str, fresh_name: Name
) -> None:
    with transactional(bootstrap, fresh_name("txn")) as producer:
        for turn in range(6):
            producer.begin_transaction()
            for partition in range(4):
                producer.send(wide_topic, b"%d" % turn, partition=partition)
            if turn % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    assert sorted(values(bootstrap, wide_topic, 4)) == sorted([b"0", b"2", b"4"] * 4)
    assert len(values(bootstrap, wide_topic, 4, isolation="read_uncommitted")) >= 12


def test_a_with_block_commits_and_an_exception_aborts(
    bootstrap: str, topic: str, fresh_name: Name
) -> None:
    with transactional(bootstrap, fresh_name("txn")) as producer:
        with producer.transaction():
            producer.send(topic, b"good")
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send(topic, b"bad").result(10)
            raise ZeroDivisionError
        with producer.transaction():
            pass
        with producer.transaction():
            producer.send(topic, b"better")
    assert values(bootstrap, topic) == [b"good", b"better"]


def test_a_newer_producer_fences_the_older_one(
    bootstrap: str, topic: str, fresh_name: Name
) -> None:
    name = fresh_name("txn")
    with transactional(bootstrap, name) as old:
        old.begin_transaction()
        old.send(topic, b"old").result(10)
        with transactional(bootstrap, name) as new:
            with new.transaction():
                new.send(topic, b"new")
            assert (new.producer_id, new.producer_epoch) > (old.producer_id, old.producer_epoch)
            with pytest.raises(errors.KafkaError):
                old.send(topic, b"zombie").result(10)
                old.commit_transaction()
            with pytest.raises(errors.KafkaError):
                old.begin_transaction()
    assert values(bootstrap, topic) == [b"new"]


def test_offsets_are_committed_with_the_transaction(
    bootstrap: str, admin: Admin, topic: str, fresh_name: Name
) -> None:
    group = fresh_name("group")
    source = TopicPartition(topic, 0)
    with transactional(bootstrap, fresh_name("txn")) as producer:
        producer.begin_transaction()
        producer.send(topic, b"x")
        producer.send_offsets_to_transaction({source: 5}, ConsumerGroupMetadata(group))
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({source: 7}, group)
        producer.commit_transaction()
    consumer = ForeignConsumer({"bootstrap.servers": bootstrap, "group.id": group})
    committed = consumer.committed([ForeignPartition(topic, 0)], timeout=20)
    consumer.close()
    assert committed[0].offset == 7


def test_calls_out_of_order_are_refused(bootstrap: str, topic: str, fresh_name: Name) -> None:
    with Producer(bootstrap_servers=bootstrap, transactional_id=fresh_name("txn")) as producer:
        producer.partitions_for(topic)
        with pytest.raises(errors.IllegalStateError):
            producer.begin_transaction()
        producer.init_transactions()
        with pytest.raises(errors.IllegalStateError):
            producer.send(topic, b"x")
        with pytest.raises(errors.IllegalStateError):
            producer.commit_transaction()
        producer.begin_transaction()
        producer.send(topic, b"x")
        producer.commit_transaction()
    with Producer(bootstrap_servers=bootstrap) as plain, pytest.raises(errors.IllegalStateError):
        plain.init_transactions()


def test_several_producers_write_in_one_transaction(
    bootstrap: str, wide_topic: str, fresh_name: Name
) -> None:
    with transactional(bootstrap, fresh_name("txn")) as owner:
        for turn in range(3):
            owner.begin_transaction()
            for part in range(2):
                with Producer.attach(owner.session(), bootstrap_servers=bootstrap) as worker:
                    worker.send(wide_topic, b"%d %d" % (turn, part), partition=part)
                    worker.send(wide_topic, b"%d %d" % (turn, part), partition=part)
                    worker.flush()
                    owner.adopt(worker.session())
            owner.send(wide_topic, b"%d owner" % turn, partition=3)
            if turn == 1:
                owner.abort_transaction()
            else:
                owner.commit_transaction()
    found = sorted(values(bootstrap, wide_topic, 4))
    assert found == sorted(
        [b"0 0", b"0 0", b"0 1", b"0 1", b"0 owner", b"2 0", b"2 0", b"2 1", b"2 1", b"2 owner"]
    )


def test_a_transaction_with_a_lost_record_can_be_aborted_and_the_next_one_committed(
    bootstrap: str, admin: Admin, fresh_name: Name
) -> None:
    small = made(admin, fresh_name("small"), 1, **{"max.message.bytes": "1000"})
    with transactional(bootstrap, fresh_name("txn")) as producer:
        producer.begin_transaction()
        producer.send(small, b"fits").result(10)
        with pytest.raises(errors.RecordTooLargeError):
            producer.send(small, b"x" * 5000).result(10)
        with pytest.raises(errors.KafkaError):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(small, b"next")
    assert values(bootstrap, small) == [b"next"]
