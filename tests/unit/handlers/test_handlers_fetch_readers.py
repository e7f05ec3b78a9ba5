"""Fetch: followers and consumers read differently far, and sessions tell only what is new."""

from __future__ import annotations

from pathlib import Path

from moldau.model.errors import Error
from moldau.wire.messages.fetch import (
    ForgottenTopic,
    ReplicaState,
)
from tests.support.fetching import (
    BY_ID,
    BY_NAME,
    TWO_REPLICAS,
    append,
    fetch,
    only_row,
    part,
    request,
    rows,
    values,
)
from tests.support.services import Node, batch, play, turns


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
