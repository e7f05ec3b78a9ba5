"""Fetch: how long it waits, and what ends the waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from tests.support.fetching import (
    BEFORE_FOLLOWERS_SERVE,
    BY_NAME,
    append,
    append_marker,
    fetch,
    only_row,
    part,
    request,
    rows,
    transactional,
    values,
)
from tests.support.services import NODE_ID, Node, batch, play, turns


def test_a_fetch_with_enough_to_read_is_answered_without_a_turn_of_the_loop(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a"))
        with pytest.raises(StopIteration) as finished:
            node.begin(request(part(), max_wait_ms=500), BY_NAME).send(None)
        assert values(only_row(finished.value.value)) == [b"a"]

    play(scenario, tmp_path)


def test_a_fetch_at_the_end_waits_for_the_next_record(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", 2)
        waiting = node.park(request(part(0), part(1), max_wait_ms=500), BY_NAME)
        await turns()
        assert not waiting.done()
        append(node, batch(b"a"), partition=1)
        assert [values(row) for row in rows(await waiting)] == [[], [b"a"]]

    play(scenario, tmp_path)


def test_a_fetch_that_nothing_comes_for_is_answered_when_its_time_is_up(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        waiting = node.park(request(part(), max_wait_ms=500), BY_NAME)
        await turns()
        node.time.pass_ms(499)
        await turns()
        assert not waiting.done()
        node.time.pass_ms(1)
        assert only_row(await waiting).records == b""
        assert node.waiting.parked_count == 0

    play(scenario, tmp_path)


def test_a_fetch_waits_until_there_are_min_bytes(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a" * 400))
        waiting = node.park(request(part(), max_wait_ms=500, min_bytes=1000), BY_NAME)
        await turns()
        append(node, batch(b"b" * 100))
        await turns()
        assert not waiting.done()
        append(node, batch(b"c" * 400))
        assert len(values(only_row(await waiting))) == 3

    play(scenario, tmp_path)


def test_too_few_bytes_are_sent_when_time_is_up(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        waiting = node.park(request(part(), max_wait_ms=500, min_bytes=1000), BY_NAME)
        await turns()
        append(node, batch(b"b"))
        node.time.pass_ms(500)
        assert values(only_row(await waiting)) == [b"b"]

    play(scenario, tmp_path)


def test_an_error_is_answered_without_waiting(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        row = await fetch(node, part(), topic="nowhere", max_wait_ms=500)
        assert row.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION

    play(scenario, tmp_path)


def test_a_parked_fetch_learns_that_its_topic_was_deleted(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        waiting = node.park(request(part(), max_wait_ms=500), BY_NAME)
        await turns()
        await node.controller.delete_topics(["t"])
        assert only_row(await waiting).error_code == Error.UNKNOWN_TOPIC_OR_PARTITION

    play(scenario, tmp_path)


def test_a_parked_fetch_learns_that_another_broker_leads(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", PartitionImage(NODE_ID, 3, (NODE_ID, 2), (NODE_ID,)))
        waiting = node.park(request(part(), max_wait_ms=500), BEFORE_FOLLOWERS_SERVE)
        newer = node.park(request(part(current_leader_epoch=3), max_wait_ms=500), BY_NAME)
        await turns()
        node.place("t", PartitionImage(2, 4, (NODE_ID, 2), (2,)))
        assert only_row(await waiting).error_code == Error.NOT_LEADER_OR_FOLLOWER
        assert only_row(await newer).error_code == Error.FENCED_LEADER_EPOCH

    play(scenario, tmp_path)


def test_a_parked_read_committed_fetch_wakes_when_the_transaction_ends(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, transactional(b"a", 7))
        waiting = node.park(request(part(), max_wait_ms=500, isolation_level=1), BY_NAME)
        await turns()
        append(node, transactional(b"b", 7, 1))
        await turns()
        assert not waiting.done()
        append_marker(node, 7, committed=True)
        assert values(only_row(await waiting))[:2] == [b"a", b"b"]

    play(scenario, tmp_path)
