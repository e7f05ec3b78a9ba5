"""The latest value per key, whatever the order in which partitions are read."""

from __future__ import annotations

from random import Random

from moldau.pipelines.tables.latest_per_key import LatestByKey, RecordPlace
from tests.support import seeds


def taken(*records: tuple[str, int, int, int, str | None]) -> LatestByKey:
    latest = LatestByKey()
    for key, partition, offset, timestamp, value in records:
        place = RecordPlace(timestamp, offset, partition)
        latest.take(key, place, is_deletion=value is None, value=value)
    return latest


def test_in_a_partition_the_offset_counts_and_between_partitions_the_time() -> None:
    assert taken(("a", 0, 5, 20, "old"), ("a", 0, 6, 10, "new")).rows == {"a": "new"}
    assert taken(("a", 0, 5, 10, "old"), ("a", 1, 0, 20, "new")).rows == {"a": "new"}
    assert taken(("a", 1, 0, 20, "new"), ("a", 0, 5, 10, "old")).rows == {"a": "new"}


def test_a_deletion_that_is_read_first_is_remembered_until_all_was_read() -> None:
    latest = taken(("a", 1, 0, 20, None), ("a", 0, 5, 10, "old"))
    assert latest.rows == {}
    assert latest.has_deletions
    latest.settle()
    assert not latest.has_deletions
    assert len(latest) == 0


def test_any_order_of_partitions_gives_the_same_values() -> None:
    for seed in seeds.several(50):
        random = Random(seed)
        logs: list[list[tuple[str, int, int, int, str | None]]] = [[], [], []]
        for number in range(60):
            partition = random.randrange(3)
            value = None if random.random() < 0.2 else str(number)
            key, offset = random.choice("abcd"), len(logs[partition])
            logs[partition].append((key, partition, offset, random.randrange(20), value))
        expected = {}
        for key in "abcd":
            lasts = [
                max((row for row in log if row[0] == key), key=lambda row: row[2], default=None)
                for log in logs
            ]
            present = [row for row in lasts if row is not None]
            if present:
                value = max(present, key=lambda row: (row[3], row[2], row[1]))[4]
                if value is not None:
                    expected[key] = value
        places = [0, 0, 0]
        order = []
        while open_ones := [p for p in range(3) if places[p] < len(logs[p])]:
            partition = random.choice(open_ones)
            order.append(logs[partition][places[partition]])
            places[partition] += 1
        assert taken(*order).rows == expected
