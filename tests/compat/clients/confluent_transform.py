"""One instance of a consume-transform-produce loop with confluent-kafka, until its input ends.

A process of its own, so that a test can kill it: `python -m tests.compat.clients.
confluent_transform JSON`; tests/compat/exactly_once.py tells the fields.

Every partition starts at a number, never at a word like "earliest". librdkafka 2.16.0 has the
broker look a word up, and an answer that comes after the partition was revoked makes it ask once
more 500 ms later and read from there, assigned or not. At the next assignment those records are
handed out and then read again: they come twice in one generation, from any broker.
"""

from __future__ import annotations

import json
import select
import sys
import time
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

CALL_SECONDS_MAX = 60
POLL_SECONDS_MAX = 0.1


class Transform:
    def __init__(self, wanted: dict[str, Any]) -> None:
        self.wanted = wanted
        self.transactions = 0
        self.polled: list[confluent_kafka.Message] = []
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": wanted["bootstrap"],
                "group.id": wanted["group"],
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "session.timeout.ms": wanted["session_timeout_ms"],
                "heartbeat.interval.ms": wanted["heartbeat_ms"],
            }
        )
        self.producer = self.made_producer()
        self.firsts: dict[int, int] = {}
        self.consumer.subscribe(
            [wanted["source"]], on_assign=self.assigned, on_revoke=self.gone, on_lost=self.gone
        )

    def assigned(self, _: object, partitions: list[TopicPartition]) -> None:
        self.firsts = {row.partition: self.first(row) for row in partitions}
        self.consumer.assign(self.starts(partitions))

    def gone(self, *_: object) -> None:
        """What was polled of a partition that is then taken away belongs to its next owner."""
        self.polled.clear()

    def first(self, partition: TopicPartition) -> int:
        return self.consumer.get_watermark_offsets(partition, CALL_SECONDS_MAX)[0]

    def starts(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """What is committed, or else the first record."""
        rows = self.consumer.committed(partitions, CALL_SECONDS_MAX) if partitions else []
        for row in rows:
            if row.error is not None:
                raise KafkaException(row.error)
            if row.offset < 0:
                row.offset = self.firsts[row.partition]
        return rows

    def made_producer(self) -> confluent_kafka.Producer:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.wanted["bootstrap"],
                "transactional.id": self.wanted["transactional_id"],
            }
        )
        producer.init_transactions(CALL_SECONDS_MAX)
        return producer

    def once(self) -> None:
        self.poll()
        if not self.polled:
            return
        self.transactions += 1
        every = self.wanted["abort_every"]
        try:
            self.transact(aborts=every > 0 and self.transactions % every == 0)
        except KafkaException as refused:
            if refused.args[0].fatal():
                raise
            # A test that fails shows it.
            print(f"{self.wanted['transactional_id']} aborts: {refused}", file=sys.stderr)
            self.producer.abort_transaction(CALL_SECONDS_MAX)
            self.rewind()

    def poll(self) -> None:
        """Up to a transaction's worth of records; rebalances happen in here alone."""
        self.polled = []
        deadline = time.monotonic() + POLL_SECONDS_MAX
        while len(self.polled) < self.wanted["records_max"]:
            message = self.consumer.poll(max(0.0, deadline - time.monotonic()))
            if message is None:
                return
            error = message.error()
            if error is None:
                self.polled.append(message)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise KafkaException(error)

    def transact(self, *, aborts: bool) -> None:
        self.producer.begin_transaction()
        positions: dict[int, int] = {}
        for message in self.polled:
            self.producer.produce(
                self.wanted["target"],
                message.value(),
                key=message.key(),
                partition=message.partition(),
            )
            positions[message.partition()] = message.offset() + 1
        rows = [TopicPartition(self.wanted["source"], *row) for row in positions.items()]
        metadata = self.consumer.consumer_group_metadata()
        self.producer.send_offsets_to_transaction(rows, metadata, CALL_SECONDS_MAX)
        if aborts:
            self.producer.abort_transaction(CALL_SECONDS_MAX)
            self.rewind()
        else:
            self.producer.commit_transaction(CALL_SECONDS_MAX)

    def rewind(self) -> None:
        """Back to what is committed, for the partitions that it still has."""
        for row in self.starts(self.consumer.assignment()):
            self.consumer.seek(row)


def input_has_ended() -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(readable) and not sys.stdin.read(1)


def main() -> None:
    transform = Transform(json.loads(sys.argv[1]))
    while not input_has_ended():
        transform.once()
    transform.consumer.close()


if __name__ == "__main__":
    main()
