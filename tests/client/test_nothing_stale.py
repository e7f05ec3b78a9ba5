"""`moldau.Consumer` under random rebalances, seeks, pauses, and code of its user that fails.

A model says which record must come next after every operation: each one is delivered once per
position, and never an old one. MOLDAU_SEED replays a run; MOLDAU_TEST_BOOTSTRAP names another
broker, and the long form runs against Apache Kafka too.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import seeds
from tests.support.apache_kafka import ApacheKafka
from tests.support.consumer_model import Subject, fill_topic

STRATEGIES = ["range", "cooperative-sticky", None]
"""None: partitions that the consumer assigns itself."""


def play(
    bootstrap: str,
    fresh_name: Callable[[str], str],
    strategy: str | None,
    is_over: Callable[[Counter[str]], bool],
) -> Counter[str]:
    dice = random.Random(seeds.one())
    topic = fresh_name("stale")
    visible = fill_topic(bootstrap, topic)
    subject = Subject(bootstrap, topic, visible, dice, strategy, fresh_name("g"))
    try:
        subject.start()
        while not is_over(subject.told):
            subject.step()
        subject.finish()
    finally:
        subject.close()
    subject.told["records"] = subject.model.delivered
    print(dict(subject.told))
    return subject.told


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_record_comes_once_per_position_and_none_is_old(
    bootstrap: str, fresh_name: Callable[[str], str], strategy: str | None
) -> None:
    play(bootstrap, fresh_name, strategy, lambda told: told.total() >= 50)


def is_long(told: Counter[str]) -> bool:
    turns = max(told["rebalances"], told["assignments"])
    return turns >= 100 and told["refused"] >= 100 and told["seek"] >= 100 and told["pause"] >= 100


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_is_old_after_a_hundred_rebalances_seeks_pauses_and_failures(
    bootstrap: str, fresh_name: Callable[[str], str], strategy: str | None
) -> None:
    play(bootstrap, fresh_name, strategy, is_long)


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("apache")
    kafka = ApacheKafka(directory, {"group.initial.rebalance.delay.ms": "0"})
    try:
        yield kafka.start().bootstrap
    finally:
        kafka.stop()


@pytest.mark.long
@pytest.mark.compat
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_is_old_with_apache_kafka_either(
    apache: str, fresh_name: Callable[[str], str], strategy: str | None
) -> None:
    play(apache, fresh_name, strategy, is_long)
