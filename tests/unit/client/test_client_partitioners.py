"""Who goes where: keys as Java hashes them, the rest in turns."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from moldau.client.producer.partitioners import (
    LegacyPartitioner,
    RoundRobinPartitioner,
    StickyChoice,
    TopicView,
    ignores_keys,
    load_partitioner,
    partition_for_key,
)

THREE = TopicView("t", 3, (0, 1, 2))


@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)],
)
def test_keys_hash_as_in_java(key: bytes, hashed: int) -> None:
    assert partition_for_key(key, 1000) == (hashed & 0x7FFFFFFF) % 1000


def test_records_without_keys_stay_until_a_batch_is_full() -> None:
    sticky = StickyChoice(1000, Random(1).randrange)
    first = sticky.current(THREE)
    sticky.batch_closed(400, THREE)
    assert sticky.current(THREE) == first
    sticky.batch_closed(600, THREE)
    assert sticky.current(THREE) != first


def test_partitions_without_a_leader_are_left_out() -> None:
    sticky = StickyChoice(1, Random(1).randrange)
    view = TopicView("t", 3, (0, 2))
    seen = set()
    for _ in range(20):
        seen.add(sticky.current(view))
        sticky.batch_closed(1, view)
    assert seen == {0, 2}
    assert StickyChoice(1, Random(1).randrange).current(TopicView("t", 1, ())) == 0


def test_partitions_with_long_queues_are_chosen_less_often() -> None:
    sticky = StickyChoice(1, Random(1).randrange)
    counts: Counter[int] = Counter()
    for _ in range(1000):
        sticky.next(THREE, [0, 9, 0])
        counts[sticky.partition] += 1
    assert counts[1] < 100 < counts[0]
    assert counts[2] > 400


def test_round_robin_takes_turns_whatever_the_key() -> None:
    turns = RoundRobinPartitioner()
    assert [turns.partition(THREE, b"k", None) for _ in range(4)] == [0, 1, 2, 0]


def test_the_old_rule_takes_the_remainder_of_number_keys() -> None:
    assert LegacyPartitioner().partition(THREE, (7).to_bytes(8, "big"), None) == 1
    assert 0 <= LegacyPartitioner().partition(THREE, b"text", None) < 3


def test_partitioners_are_given_by_name_class_object_or_function() -> None:
    assert load_partitioner(None, {}) is None
    assert (
        load_partitioner("org.apache.kafka.clients.producer.UniformStickyPartitioner", {}) is None
    )
    assert ignores_keys("org.apache.kafka.clients.producer.UniformStickyPartitioner")
    for given in (
        "RoundRobinPartitioner",
        "org.apache.kafka.clients.producer.RoundRobinPartitioner",
        "moldau.client.producer.partitioners.RoundRobinPartitioner",
        RoundRobinPartitioner,
        RoundRobinPartitioner(),
    ):
        chosen = load_partitioner(given, {})
        assert chosen is not None
        assert chosen(THREE, None, None) == 0
    function = load_partitioner(lambda topic, key, value: 2, {})
    assert function is not None
    assert function(THREE, None, None) == 2
    with pytest.raises(ValueError, match="no_such_module"):
        load_partitioner("no_such_module.Partitioner", {})
