"""Fetch: what is read, how long it waits, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.model.cluster import PartitionImage
from moldau.model.errors import Error
from moldau.records.batch import read_header, whole_headers
from moldau.records.codec import ControlType, EndMarker, decode_batch, encode_marker
from moldau.storage.producer_state import Origin
from moldau.wire.messages.fetch import (
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from tests.support.services import NODE_ID, Node, batch, play, turns

TWO_REPLICAS = PartitionImage(NODE_ID, 3, (NODE_ID, 2), (NODE_ID, 2))
BY_NAME, BY_ID = 12, 18
BEFORE_FOLLOWERS_SERVE = 10


def part(
    partition: int = 0, offset: int = 0, max_bytes: int = 1 << 20, **fields: Any
) -> FetchPartition:
    return FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, **fields
    )


def request(
    *partitions: FetchPartition,
    topic: str = "t",
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    **fields: Any,
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=list(partitions))] if partitions else [],
        **fields,
    )


def rows(response: FetchResponse) -> list[FetchablePartitionResponse]:
    assert response.error_code == 0
    return [row for topic in response.responses for row in topic.partitions]


def only_row(response: FetchResponse) -> FetchablePartitionResponse:
    (row,) = rows(response)
    return row


def values(row: FetchablePartitionResponse) -> list[bytes | None]:
    records = row.records or b""
    assert isinstance(records, bytes | memoryview)
    return [
        record.value
        for position, _ in whole_headers(records)
        for record in decode_batch(records, position)
    ]


def append(node: Node, *batches: bytes, topic: str = "t", partition: int = 0) -> None:
    replica = node.replicas.find(topic, partition)
    for records in batches:
        replica.append(memoryview(bytearray(records)), -1, node.clock.wall_ms())


def append_marker(node: Node, producer_id: int, *, committed: bool) -> None:
    replica = node.replicas.find("t", 0)
    marker = EndMarker(ControlType.COMMIT if committed else ControlType.ABORT, 0)
    records = bytearray(
        encode_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp=1_000_000)
    )
    replica.log.append_as_leader(
        records, read_header(records), replica.partition.leader_epoch, Origin.COORDINATOR
    )
    replica.bytes_appended += len(records)
    replica.partition.appended(replica.log.offset_end)
    node.waiting.changed(replica)


def transactional(value: bytes, producer_id: int, sequence: int = 0) -> bytes:
    return batch(
        value,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )


async def fetch(
    node: Node, *partitions: FetchPartition, **fields: Any
) -> FetchablePartitionResponse:
    return only_row(await node.call(request(*partitions, **fields), BY_NAME))


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


def test_consumers_read_only_what_every_in_sync_replica_has(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", TWO_REPLICAS)
        append(node, batch(b"a"))
        waiting = node.park(request(part(), max_wait_ms=500), BY_NAME)
        await turns()
        assert not waiting.done()
        node.replicas.find("t", 0).follower_fetched(2, 1, 0)
        assert values(only_row(await waiting)) == [b"a"]

    play(scenario, tmp_path)


# Followers


def test_a_follower_reads_to_the_end_and_its_fetch_moves_the_high_watermark(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        node.place("t", TWO_REPLICAS)
        append(node, batch(b"a"))
        row = await fetch(node, part(current_leader_epoch=3), replica_id=2)
        assert (values(row), row.high_watermark) == ([b"a"], 0)
        row = await fetch(node, part(offset=1, current_leader_epoch=3), replica_id=2)
        assert (values(row), row.high_watermark) == ([], 1)

    play(scenario, tmp_path)


def test_a_followers_fetch_waits_for_records_that_are_not_committed_yet(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        topic_id = node.place("t", TWO_REPLICAS)
        asked = request(part(), max_wait_ms=500, replica_state=ReplicaState(replica_id=2))
        asked.topics[0].topic_id = topic_id
        waiting = node.park(asked, BY_ID)
        await turns()
        append(node, batch(b"a"))
        assert values(only_row(await waiting)) == [b"a"]

    play(scenario, tmp_path)


def test_a_broker_that_is_no_replica_may_not_fetch_as_one(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        knowing = await fetch(node, part(current_leader_epoch=0), replica_id=9)
        assert knowing.error_code == Error.UNKNOWN_LEADER_EPOCH
        guessing = await fetch(node, part(), replica_id=9)
        assert guessing.error_code == Error.NOT_LEADER_OR_FOLLOWER

    play(scenario, tmp_path)


# Sessions


def test_a_session_answers_only_partitions_with_something_new(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", 3)
        opened = await node.call(request(part(0), part(1), part(2), session_epoch=0), BY_NAME)
        assert opened.session_id > 0
        assert len(rows(opened)) == 3
        append(node, batch(b"a"), partition=1)
        again = request(session_id=opened.session_id, session_epoch=1)
        answer = await node.call(again, BY_NAME)
        assert (answer.session_id, only_row(answer).partition_index) == (opened.session_id, 1)
        again = request(part(1, 1), session_id=opened.session_id, session_epoch=2)
        assert rows(await node.call(again, BY_NAME)) == []

    play(scenario, tmp_path)


def test_session_errors_stand_at_the_top_of_the_answer(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        opened = await node.call(request(part(), session_epoch=0), BY_NAME)
        session_id = opened.session_id
        for version, asked, error in (
            (BY_NAME, request(session_id=77, session_epoch=1), Error.FETCH_SESSION_ID_NOT_FOUND),
            (
                BY_NAME,
                request(session_id=session_id, session_epoch=5),
                Error.INVALID_FETCH_SESSION_EPOCH,
            ),
            (
                BY_ID,
                request(session_id=session_id, session_epoch=1),
                Error.FETCH_SESSION_TOPIC_ID_ERROR,
            ),
        ):
            answer = await node.call(asked, version)
            assert (answer.error_code, answer.session_id, answer.responses) == (error, 0, [])

    play(scenario, tmp_path)


def test_a_forgotten_partition_is_not_read_any_more(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t", 2)
        opened = await node.call(request(part(0), part(1), session_epoch=0), BY_NAME)
        append(node, batch(b"a"), partition=0)
        append(node, batch(b"b"), partition=1)
        asked = request(
            session_id=opened.session_id,
            session_epoch=1,
            forgotten_topics_data=[ForgottenTopic(topic="t", partitions=[0])],
        )
        assert only_row(await node.call(asked, BY_NAME)).partition_index == 1

    play(scenario, tmp_path)


def test_an_id_that_becomes_known_later_is_served_in_the_same_session(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        asked = request(part(), session_epoch=0)
        asked.topics[0].topic_id = topic_id = b"later".ljust(16, b"-")
        opened = await node.call(asked, BY_ID)
        assert only_row(opened).error_code == Error.UNKNOWN_TOPIC_ID
        assert node.place("later", TWO_REPLICAS) == topic_id
        again = request(session_id=opened.session_id, session_epoch=1)
        assert only_row(await node.call(again, BY_ID)).error_code == 0

    play(scenario, tmp_path)


def test_a_parked_fetch_that_its_client_gave_up_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.create_topic("t")
        waiting = node.park(request(part(), max_wait_ms=500), BY_NAME)
        await turns()
        assert node.waiting.parked_count == 1
        waiting.cancel()
        await turns()
        assert node.waiting.parked_count == 0
        assert node.replicas.find("t", 0).parked == {}

    play(scenario, tmp_path)
