"""Every record is transformed exactly once, though instances abort or are killed at random.

MOLDAU_EOS_RUNS says how often the full demonstration is run with each client.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

from tests.compat.clients.catalogue import Clients
from tests.compat.clients.port import Record
from tests.compat.exactly_once import Demo, committed_values, run
from tests.compat.records import START_MS
from tests.compat.stored import last_stable_offset
from tests.support import seeds

PARTITIONS, INSTANCES, RECORDS = 6, 3, 50_000
KILLS = 6
RUNS = int(os.environ.get("MOLDAU_EOS_RUNS", "1"))

NewDemo = Callable[..., Demo]


@pytest.fixture
def new_demo(clients: Clients, bootstrap: str, new_name: Callable[[str], str]) -> NewDemo:
    """A source with so many records in it, and an empty target."""

    def make(count: int, **sizes: int) -> Demo:
        client = clients["confluent-kafka"]
        demo = Demo(
            bootstrap, new_name("source"), new_name("target"), new_name("eos"), PARTITIONS, **sizes
        )
        for topic in (demo.source, demo.target):
            client.create_topic(topic, partitions=PARTITIONS, configs={})
        records = [
            Record(None, value, (), START_MS, number % PARTITIONS)
            for number, value in enumerate(values(count))
        ]
        client.produce(demo.source, records)
        return demo

    return make


def values(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def assert_exactly_once(demo: Demo, count: int) -> None:
    found = Counter(committed_values(demo))
    missing = set(values(count)) - set(found)
    twice = [value for value, times in found.items() if times > 1]
    assert not missing, f"{len(missing)} records are missing: {sorted(missing)[:5]}"
    assert not twice, f"{len(twice)} records came twice: {sorted(twice)[:5]}"
    assert found.total() == count


def kill_at_random(client: str, new_demo: NewDemo, count: int, kills: int, per: int) -> None:
    chance = seeds.chance()
    demo = new_demo(count, records_max=per)
    # Between a tenth and nine tenths of the way, so that there is something left to lose.
    moments = [chance.randrange(count // 10, count * 9 // 10) for _ in range(kills)]

    run(client, demo, count, INSTANCES, moments, chance)

    assert_exactly_once(demo, count)
    for partition in range(PARTITIONS):
        assert last_stable_offset(demo.bootstrap, demo.target, partition) > count // PARTITIONS


@pytest.mark.parametrize(
    "client",
    [
        "confluent-kafka",
        pytest.param("franz-go", marks=pytest.mark.compat),
        pytest.param("java", marks=pytest.mark.compat),
    ],
)
def test_a_loop_that_aborts_now_and_then_writes_every_record_once(
    client: str, new_demo: NewDemo
) -> None:
    demo = new_demo(1000, records_max=50, abort_every=3)

    run(client, demo, 1000, 1, [], seeds.chance())

    assert_exactly_once(demo, 1000)


@pytest.mark.compat
@pytest.mark.parametrize("client", ["confluent-kafka", "java"])
def test_two_killed_instances_lose_and_repeat_nothing(client: str, new_demo: NewDemo) -> None:
    kill_at_random(client, new_demo, 5000, 2, 20)


@pytest.mark.compat
@pytest.mark.parametrize("number", range(RUNS))
@pytest.mark.parametrize("client", ["confluent-kafka", "java"])
def test_the_demonstration_6_3_50000_survives_random_kills(
    client: str, number: int, new_demo: NewDemo
) -> None:
    kill_at_random(client, new_demo, RECORDS, KILLS, 200)
