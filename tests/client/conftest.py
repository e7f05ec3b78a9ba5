"""A broker for the tests of the client library: Moldau, or whatever MOLDAU_TEST_BOOTSTRAP names.

The same tests hold against Apache Kafka: point the variable at one of its brokers. Names come
from `fresh_name`, so a broker that has seen earlier runs does no harm.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from moldau import Consumer, TopicPartition
from moldau.testing.broker_process import BrokerProcess
from tests.support.reading import COUNT
from tests.support.topics import create_topic, fill

Names = Callable[[str], str]
Make = Callable[..., Consumer]

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = os.environ.get("MOLDAU_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    directory = tmp_path_factory.mktemp("client-broker")
    with BrokerProcess(directory, overrides=SETTINGS) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def is_moldau() -> bool:
    return "MOLDAU_TEST_BOOTSTRAP" not in os.environ


@pytest.fixture(scope="session")
def fresh_name() -> Callable[[str], str]:
    """Names that no earlier test or run has used: `fresh_name("orders")`."""
    run = os.urandom(4).hex()
    numbers = count()
    return lambda stem: f"{stem}-{run}-{next(numbers)}"


@pytest.fixture(scope="module")
def two(bootstrap: str, fresh_name: Names) -> list[TopicPartition]:
    """Two partitions with 300 records each, "0" to "299", in many small batches."""
    topic = create_topic(bootstrap, fresh_name("two"), 2)
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    for tp in both:
        fill(bootstrap, tp, [str(n) for n in range(COUNT)], batch_size=200)
    return both


@pytest.fixture
def make(bootstrap: str) -> Iterator[Make]:
    made: list[Consumer] = []

    def consumer(**settings: Any) -> Consumer:
        settings.setdefault("auto_offset_reset", "earliest")
        made.append(Consumer(bootstrap_servers=bootstrap, **settings))
        return made[-1]

    yield consumer
    for each in made:
        each.close()
