"""One SparkSession and one broker for the whole suite: a session takes longer than its tests.

MOLDAU_TEST_BOOTSTRAP names another broker, for instance one of Apache Kafka.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from moldau.testing.broker_process import BrokerProcess

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Queries of a few rows never earn back what the optimizing compiler costs."""


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from moldau.pipelines import session

    made = session(
        "tests",
        "local[2]",
        spark_sql_shuffle_partitions=2,
        **{"spark.driver.extraJavaOptions": JVM},
    )
    yield made
    made.stop()


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = os.environ.get("MOLDAU_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    directory = tmp_path_factory.mktemp("pipelines-broker")
    with BrokerProcess(directory, overrides=SETTINGS) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def fresh_name() -> Callable[[str], str]:
    """Names that no earlier test or run has used: `fresh_name("orders")`."""
    run = os.urandom(4).hex()
    numbers = count()
    return lambda stem: f"{stem}-{run}-{next(numbers)}"
