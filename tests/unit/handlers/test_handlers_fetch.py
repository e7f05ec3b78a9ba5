"""Fetch: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from tests.support.fetching import (
    BY_ID,
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
from tests.support.services import NODE_ID, Node, batch, play


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_by_name_reads_the_records(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a", b"b"), batch(b"c"))
        row = only_row(await node.call(request(part()), version))
        assert (row.error_code, row.high_watermark, row.last_stable_offset) == (0, 3, 3)
        assert values(row) == [b"a", b"b", b"c"]
        assert row.aborted_transactions is None

    play(scenario, tmp_path)


@pytest.mark.parametrize("version", range(13, 19))
def test_every_version_by_id_reads_the_records(version: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic_id = await node.create_topic("t")
        append(node, batch(b"a"))
        asked = request(part())
        asked.topics[0].topic_id = topic_id
        response = await node.call(asked, version)
        assert response.responses[0].topic_id == topic_id
        assert values(only_row(response)) == [b"a"]
        asked.topics[0].topic_id = b"x" * 16
        assert only_row(await node.call(asked, version)).error_code == Error.UNKNOWN_TOPIC_ID

    play(scenario, tmp_path)


def test_an_offset_within_a_batch_is_answered_with_the_whole_batch(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a", b"b", b"c"), batch(b"d"))
        assert values(await fetch(node, part(offset=1))) == [b"a", b"b", b"c", b"d"]

    play(scenario, tmp_path)


@pytest.mark.parametrize("offset", [-1, 2, 99])
def test_an_offset_outside_the_log_is_out_of_range(offset: int, tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a"))
        row = await fetch(node, part(offset=offset))
        assert (row.error_code, row.high_watermark) == (Error.OFFSET_OUT_OF_RANGE, -1)
        assert row.records == b""

    play(scenario, tmp_path)


def test_the_end_of_the_log_is_an_empty_answer(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a"))
        row = await fetch(node, part(offset=1))
        assert (row.error_code, row.high_watermark, row.log_start_offset) == (0, 1, 0)
        assert row.records == b""

    play(scenario, tmp_path)


def test_one_partitions_error_leaves_the_others_alone(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a"))
        response = await node.call(request(part(0), part(9)), BY_NAME)
        good, bad = rows(response)
        assert values(good) == [b"a"]
        assert bad.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION

    play(scenario, tmp_path)


def test_the_first_batch_is_sent_even_if_it_is_larger_than_all_limits(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", 2)
        append(node, batch(b"a" * 1000), batch(b"b"))
        append(node, batch(b"c" * 1000), partition=1)
        row = await fetch(node, part(max_bytes=10))
        assert values(row) == [b"a" * 1000]
        first, second = rows(await node.call(request(part(0), part(1), max_bytes=10), BY_NAME))
        assert values(first) == [b"a" * 1000]
        assert (second.error_code, second.records) == (0, b"")

    play(scenario, tmp_path)


def test_the_limit_of_the_answer_is_shared_by_its_partitions(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", 2)
        for index in (0, 1):
            append(node, *[batch(b"a" * 1000)] * 5, partition=index)
        first, second = rows(await node.call(request(part(0), part(1), max_bytes=7000), BY_NAME))
        assert (len(values(first)), len(values(second))) == (5, 1)

    play(scenario, tmp_path)


def test_the_brokers_own_limit_holds_whatever_the_client_asks(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, *[batch(b"a" * 1000)] * 5)
        assert len(values(await fetch(node, part()))) == 1

    play(scenario, tmp_path, fetch_max_bytes="1500")


def test_other_leader_epochs_are_refused(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic_id = node.place("t", PartitionImage(NODE_ID, 3, (NODE_ID,), (NODE_ID,)))
        assert (await fetch(node, part(current_leader_epoch=3))).error_code == 0
        older = await fetch(node, part(current_leader_epoch=2))
        assert older.error_code == Error.FENCED_LEADER_EPOCH
        newer = await fetch(node, part(current_leader_epoch=4))
        assert newer.error_code == Error.UNKNOWN_LEADER_EPOCH
        asked = request(part(current_leader_epoch=2))
        asked.topics[0].topic_id = topic_id
        response = await node.call(asked, BY_ID)
        hint = only_row(response).current_leader
        assert hint is not None
        assert (hint.leader_id, hint.leader_epoch) == (NODE_ID, 3)
        assert [node.host for node in response.node_endpoints] == ["here.example"]

    play(scenario, tmp_path)


def test_a_reader_whose_log_parted_from_ours_is_told_where(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", PartitionImage(NODE_ID, 3, (NODE_ID,), (NODE_ID,)))
        append(node, batch(b"a"), batch(b"b"))
        node.place("t", PartitionImage(NODE_ID, 5, (NODE_ID,), (NODE_ID,)))
        append(node, batch(b"c"))
        same = await fetch(node, part(offset=2, last_fetched_epoch=3))
        assert (values(same), same.diverging_epoch) == ([b"c"], None)
        parted = await fetch(node, part(offset=3, last_fetched_epoch=3))
        assert parted.diverging_epoch is not None
        assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (3, 2)
        assert parted.records == b""
        unknown = await fetch(node, part(offset=3, last_fetched_epoch=9))
        assert unknown.error_code == Error.OFFSET_OUT_OF_RANGE

    play(scenario, tmp_path)


def test_read_committed_stops_at_an_open_transaction(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, batch(b"a"), transactional(b"b", 7), batch(b"c"))
        row = await fetch(node, part(), isolation_level=1)
        assert (values(row), row.high_watermark, row.last_stable_offset) == ([b"a"], 3, 1)
        assert row.aborted_transactions == []
        row = await fetch(node, part(), isolation_level=0)
        assert values(row) == [b"a", b"b", b"c"]

    play(scenario, tmp_path)


def test_read_committed_lists_aborted_transactions_in_order_of_their_offsets(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        append(node, transactional(b"a", 8), transactional(b"b", 7))
        append_marker(node, 7, committed=False)
        append_marker(node, 8, committed=False)
        row = await fetch(node, part(), isolation_level=1)
        aborted = [(each.producer_id, each.first_offset) for each in row.aborted_transactions or ()]
        assert aborted == [(8, 0), (7, 1)]
        assert row.last_stable_offset == 4

    play(scenario, tmp_path)


# Waiting
