"""kill -9 under load: every acknowledged record is there once, in order.

One real idempotent producer lives through all the crashes and retries as it would in production;
it remembers what was acknowledged. The broker is a real process that gets SIGKILL at random
moments and starts again on the same directory.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.broker_process import BrokerProcess, free_port
from tests.support import seeds

KILLS = 50
PARTITIONS = 3
TOPIC = "survivors"


class Load:
    """Numbers its records per partition and keeps the numbers that were acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.failures: list[str] = []
        self._next = [0] * PARTITIONS
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 20,
                "message.timeout.ms": 120_000,
                "queue.buffering.max.messages": 2_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        partition = 0
        while not self._stop.is_set():
            number = self._next[partition]
            try:
                self._producer.produce(
                    TOPIC, str(number).encode(), partition=partition, on_delivery=self._delivered
                )
            except BufferError:
                self._producer.poll(0.005)
                continue
            self._next[partition] += 1
            partition = (partition + 1) % PARTITIONS
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        value, partition = message.value(), message.partition()
        assert value is not None and partition is not None
        self.acknowledged[partition].append(int(value))


def consume_all(bootstrap: str, partition: int) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0)])
    numbers: list[int] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for message in consumer.consume(10_000, timeout=1.0):
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                consumer.close()
                return numbers
            value = message.value()
            assert value is not None
            numbers.append(int(value))
    raise AssertionError(f"partition {partition} was not read to its end in 60 s")


def test_acknowledged_records_survive_kill_nine_once_and_in_order(tmp_path: Path) -> None:
    moments = seeds.chance()
    port = free_port()
    broker = BrokerProcess(tmp_path, port=port)
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(10)
        load = Load(broker.bootstrap)
        load.start()
        for _ in range(KILLS):
            time.sleep(moments.uniform(0.005, 0.25))
            broker.kill()
            broker.start()
        load.stop()
        assert load.failures == []
        assert sum(map(len, load.acknowledged)) > KILLS
        for partition in range(PARTITIONS):
            stored = consume_all(broker.bootstrap, partition)
            acknowledged = load.acknowledged[partition]
            assert stored == list(range(len(stored))), "lost, doubled or disordered"
            assert sorted(acknowledged) == acknowledged
            assert len(acknowledged) <= len(stored)
    finally:
        broker.stop()
