"""The size of an answer to a Fetch is known before it is made."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from moldau.handlers.topic_data.fetch import _by_topic
from moldau.handlers.topic_data.fetch_sizes import fetch_response_bytes
from moldau.model.errors import Error
from moldau.model.file_regions import FileRegion
from moldau.model.names import NO_TOPIC_ID
from moldau.replication.fetch_sessions import Answers, FetchedPartition, PartitionRead
from moldau.wire.messages.fetch import FetchResponse, LeaderIdAndEpoch
from moldau.wire.request_framing import encode_response

FETCH = 1
HEADERS = {False: 4, True: 5}
"""Correlation id, and from the first flexible version on its tagged fields."""


class NoFile(NamedTuple):
    def fileno(self) -> int:
        raise AssertionError


def region(size_bytes: int) -> FileRegion:
    return FileRegion(NoFile(), 0, size_bytes)


def partition(topic: str, number: int, version: int) -> FetchedPartition:
    by_id = version >= 13
    topic_id = topic.encode().ljust(16, b"-") if by_id else NO_TOPIC_ID
    return FetchedPartition("" if by_id else topic, topic_id, number, 0, 1_000_000)


def answers(version: int) -> Answers:
    reads = [
        PartitionRead(0, 5, 5, 0, region(200), 200, None),
        PartitionRead(0, 5, 5, 0, region(70_000), 70_000, [(7, 3), (8, 4)]),
        PartitionRead(Error.NOT_LEADER_OR_FOLLOWER),
        PartitionRead(0, 5, 5, 0, None, 0, []),
        PartitionRead(0, 5, 5, 0, None, 0, None, (3, 4)),
    ]
    rows = [(partition("orders", n, version), read) for n, read in enumerate(reads)]
    return [*rows, (partition("straße", 0, version), reads[0])]


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize("is_empty", [False, True])
def test_it_is_what_the_encoder_makes(version: int, is_empty: bool) -> None:
    rows = [] if is_empty else answers(version)
    if version < 12:
        rows = [row for row in rows if row[1].diverging_epoch is None]
    topics = asyncio.run(_by_topic(rows))
    for topic in topics:
        for row in topic.partitions:
            if version >= 16 and row.error_code:
                row.current_leader = LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
    chunks = encode_response(FETCH, version, 1, FetchResponse(responses=topics))
    size = sum(c.size_bytes if isinstance(c, FileRegion) else len(c) for c in chunks)
    assert fetch_response_bytes(rows, version) == size - HEADERS[version >= 12]
