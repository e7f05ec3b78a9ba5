"""A member of a group, with librdkafka, whose coordinator moves just when it asks for offsets."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Consumer, Producer

from moldau.model.errors import Error
from moldau.testing.local_broker import LocalBroker
from moldau.wire.messages.group_offsets import OffsetFetchResponse
from tests.support.lost_offsets import has_lost_offsets

SECONDS_MAX = 60


def moved(answer: OffsetFetchResponse) -> None:
    for group in answer.groups:
        group.error_code = Error.NOT_COORDINATOR
        group.topics = []


def test_a_consumer_that_lost_its_offsets_gets_its_records_when_it_subscribes_again(
    tmp_path: Path,
) -> None:
    with LocalBroker(tmp_path) as broker:
        broker.create_topic("t", 1)
        settings = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        producer = Producer(settings)
        producer.produce("t", b"here", partition=0)
        assert producer.flush(SECONDS_MAX) == 0
        consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        lost, value = 0, None
        with broker.faults.rewrite("OffsetFetch", moved, count=2) as told:
            deadline = time.monotonic() + SECONDS_MAX
            while value is None:
                assert time.monotonic() < deadline, "nothing is fetched"
                message = consumer.poll(0.1)
                if message is None:
                    continue
                fault = message.error()
                if fault is None:
                    value = message.value()
                else:
                    assert has_lost_offsets(fault), fault
                    lost += 1
                    consumer.unsubscribe()
                    consumer.subscribe(["t"])
        consumer.close()
        assert (value, lost, told.hits) == (b"here", 2, 2)
