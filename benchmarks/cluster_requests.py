"""What the measures of a cluster ask and read, encoded by hand like everything in `requests.py`.

Old, plain versions that Apache Kafka 3.9 and Moldau both serve: nothing in them is optional, so
an answer is read with fixed layouts.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchmarks.control import Control, Cursor
from benchmarks.requests import (
    CREATE_TOPICS,
    METADATA,
    PRODUCE,
    framed,
    string,
)

DELETE_TOPICS = 20
ALL_ACKS = -1
LOAD_PRODUCE_VERSION = 11
"""The newest of Apache Kafka 3.9; laid out like the one the single broker is asked with."""
PROBE_PRODUCE_VERSION = 7
ASK_MS = 60_000


class PartitionState(NamedTuple):
    leader: int
    isr: tuple[int, ...]


class Cluster(NamedTuple):
    """What one broker says of the cluster and of one topic."""

    brokers: Mapping[int, int]
    """Port by id."""
    controller: int
    partitions: Mapping[int, PartitionState]
    """Empty while the topic is not known."""


def create_placed_topic(topic: str, placement: Sequence[Sequence[int]]) -> bytes:
    """Each partition's replicas, the first of which is to lead."""
    rows = b"".join(
        struct.pack(f">ii{len(replicas)}i", number, len(replicas), *replicas)
        for number, replicas in enumerate(placement)
    )
    row = string(topic) + struct.pack(">ihi", -1, -1, len(placement)) + rows + struct.pack(">i", 0)
    body = struct.pack(">i", 1) + row + struct.pack(">i?", ASK_MS, False)
    return framed(CREATE_TOPICS, 4, body, flexible=False)


def delete_topic(topic: str) -> bytes:
    body = struct.pack(">i", 1) + string(topic) + struct.pack(">i", ASK_MS)
    return framed(DELETE_TOPICS, 1, body, flexible=False)


def error_of_one_topic(answer: bytes) -> int:
    """Both of them answer with a throttle time and one named error."""
    cursor = Cursor(answer, 8)
    cursor.take(">i")
    cursor.skip_string()
    return cursor.take(">h")[0]


def metadata(topic: str) -> bytes:
    body = struct.pack(">i", 1) + string(topic) + struct.pack(">?", False)
    return framed(METADATA, 4, body, flexible=False)


def cluster_of(answer: bytes) -> Cluster:
    cursor = Cursor(answer, 8)
    brokers = {}
    for _ in range(cursor.take(">i")[0]):
        (number,) = cursor.take(">i")
        cursor.skip_string()
        (brokers[number],) = cursor.take(">i")
        cursor.skip_string()
    cursor.skip_string()
    controller, _topics, error = cursor.take(">iih")
    cursor.skip_string()
    _internal, count = cursor.take(">?i")
    partitions = {}
    for _ in range(count):
        _error, number, leader, replicas = cursor.take(">hiii")
        cursor.take(f">{replicas}i")
        (in_sync,) = cursor.take(">i")
        partitions[number] = PartitionState(leader, cursor.take(f">{in_sync}i"))
    return Cluster(brokers, controller, {} if error else partitions)


def ask_cluster(port: int, topic: str) -> Cluster:
    with Control(port) as control:
        return cluster_of(control.ask(metadata(topic)))


def probe(topic: str, partitions: Sequence[int], records: bytes) -> bytes:
    """One batch to each of the partitions, acknowledged by all in-sync replicas."""
    rows = b"".join(struct.pack(">ii", number, len(records)) + records for number in partitions)
    topics = struct.pack(">i", 1) + string(topic) + struct.pack(">i", len(partitions)) + rows
    body = struct.pack(">hhi", -1, ALL_ACKS, ASK_MS) + topics
    return framed(PRODUCE, PROBE_PRODUCE_VERSION, body, flexible=False)


def acknowledged(answer: bytes) -> list[int]:
    """The partitions of a probe that were written."""
    cursor = Cursor(answer, 4)
    cursor.take(">i")
    cursor.skip_string()
    (count,) = cursor.take(">i")
    rows = (cursor.take(">ihqqq") for _ in range(count))
    return [number for number, error, *_ in rows if not error]
