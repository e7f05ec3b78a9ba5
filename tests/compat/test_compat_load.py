"""The benchmark's load speaks the protocol on its own; here it is pointed at the broker briefly.

It checks itself while it runs: answers without errors, and log end offsets equal to what it sent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from benchmarks import groups, requests, transactions
from benchmarks.control import Control, wait_for_first_ack
from benchmarks.load import Limits, Where, run_fetch, run_produce

BRIEFLY = Limits(warm_up_seconds=0.05, warm_up_bytes=1000, seconds=0.2, bytes=8_000_000)
NewName = Callable[[str], str]


@pytest.fixture
def port(bootstrap: str) -> int:
    return int(bootstrap.rpartition(":")[2])


def where(port: int, topic: str) -> Where:
    return Where(port, os.getpid(), topic, {"port": port})


def test_the_first_record_is_acknowledged_in_a_topic_nobody_created(port: int) -> None:
    wait_for_first_ack(port)

    with Control(port) as control:
        assert (control.end_offset("first", 0) or 0) >= 1


def test_small_batches_are_counted_on_both_sides(port: int, new_name: NewName) -> None:
    one = requests.batch(100, 1, int(time.time() * 1000))

    outcome = run_produce(where(port, new_name("load")), one, 2, 5, BRIEFLY)

    assert outcome.answers > 0
    assert outcome.bytes == outcome.answers * len(one.encoded)


def test_large_batches_are_fetched_back_in_whole_answers(port: int, new_name: NewName) -> None:
    topic = new_name("load")
    large = requests.batch(1000, 129, int(time.time() * 1000))
    run_produce(where(port, topic), large, 2, 5, BRIEFLY)

    outcome = run_fetch(where(port, topic), large, 2, BRIEFLY)

    assert outcome.answers > 0
    assert outcome.bytes % len(large.encoded) == 0


def test_transactions_are_committed_and_leave_nothing_open(port: int, new_name: NewName) -> None:
    values = transactions.measure(port, new_name("load"), 1000, 10, slices=1, slice_seconds=0.25)

    assert values["transactional"] > 0


def test_members_of_several_groups_heartbeat_without_a_rebalance(port: int) -> None:
    values = groups.measure(port, os.getpid(), groups=3, members_each=4, seconds=1.0)

    assert 0 < values["heartbeat_p50"] <= values["heartbeat_p99"]
