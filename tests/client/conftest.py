"""A broker for the tests of the client library: Moldau, or whatever MOLDAU_TEST_BOOTSTRAP names.

The same tests hold against Apache Kafka: point the variable at one of its brokers. Names come
from `fresh_name`, so a broker that has seen earlier runs does no harm.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.support.broker_process import BrokerProcess

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
