"""Lines that Kafka prints in the order of a hash map come out in that order here.

What is expected was printed by java.util.HashMap.
"""

from __future__ import annotations

from moldau.cli.files.java_hash_order import hash_order, partition_hash, string_hash
from moldau.model.names import TopicPartition


def test_strings_and_partitions_hash_as_in_java() -> None:
    assert string_hash("Größe-𝄞") == 240260294
    assert string_hash("hello") == 99162322
    assert partition_hash(TopicPartition("hello", 1)) == 31 * 32 + 99162322


def test_settings_come_in_the_order_of_javas_map() -> None:
    names = ["cleanup.policy", "compression.type", "segment.bytes", "min.insync.replicas"]
    assert hash_order([*names, "retention.ms"]) == [
        "compression.type",
        "cleanup.policy",
        "min.insync.replicas",
        "segment.bytes",
        "retention.ms",
    ]


def test_a_map_that_has_grown_has_another_order() -> None:
    def numbers(count: int) -> list[int]:
        ordered = hash_order(f"topic-{number * 7}" for number in range(count))
        return [int(name.removeprefix("topic-")) for name in ordered]

    assert numbers(12) == [35, 7, 14, 49, 28, 70, 0, 63, 42, 21, 77, 56]
    assert numbers(13) == [7, 70, 0, 84, 63, 42, 21, 77, 56, 35, 14, 49, 28]
