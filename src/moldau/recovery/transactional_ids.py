"""Names of transactional producers, so that whoever takes a partition over has its predecessor's.

Only the same name fences: a producer that got another one would leave a zombie undisturbed.
"""

from __future__ import annotations

from moldau.model.names import TopicPartition


def partition_id(group: str, partition: TopicPartition, prefix: str = "") -> str:
    """The transactional id of the one who reads a partition for a group.

    >>> partition_id("clearing", TopicPartition("trades", 3))
    'clearing.trades.3'
    """
    return f"{prefix}{group}.{partition.topic}.{partition.partition}"


def numbered_id(name: str, number: int) -> str:
    """The transactional id of a worker that has a number instead of a partition.

    >>> numbered_id("CLEAR", 0)
    'CLEAR-TID-0'
    """
    if number < 0:
        raise ValueError(f"the number of a worker must not be negative, is {number}")
    return f"{name}-TID-{number}"
