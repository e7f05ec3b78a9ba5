"""Fetch sessions: only what has changed is said, and any failure starts over."""

from __future__ import annotations

from moldau.client.consumer.fetch_session import FetchSession, Want
from moldau.model.errors import Error
from moldau.model.names import NO_TOPIC_ID, TopicPartition
from moldau.wire.messages.fetch import FetchRequest

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
ID = b"i" * 16


def want(offset: int, topic_id: bytes = ID) -> Want:
    return Want(topic_id, offset, 3, 1000)


def filled(
    session: FetchSession, wanted: dict[TopicPartition, Want]
) -> tuple[tuple[int, int], list[tuple[str, int, int]], list[tuple[str, int]], int | None]:
    """((session id, epoch), what is fetched, what is forgotten, newest version)."""
    request = FetchRequest()
    version_max = session.fill(request, wanted)
    fetched = [
        (topic.topic, row.partition, row.fetch_offset)
        for topic in request.topics
        for row in topic.partitions
    ]
    forgotten = [(t.topic, p) for t in request.forgotten_topics_data for p in t.partitions]
    return (request.session_id, request.session_epoch), fetched, forgotten, version_max


def opened() -> FetchSession:
    session = FetchSession()
    filled(session, {T0: want(1), T1: want(2)})
    assert session.answered(0, 77)
    return session


def test_the_first_fetch_names_everything_and_opens_a_session() -> None:
    told = filled(FetchSession(), {T0: want(1), T1: want(2)})
    assert told == ((0, 0), [("t", 0, 1), ("t", 1, 2)], [], None)


def test_later_fetches_name_what_moved_or_was_dropped() -> None:
    session = opened()
    assert filled(session, {T0: want(5), T1: want(2)}) == ((77, 1), [("t", 0, 5)], [], None)
    session.answered(0, 77)
    assert filled(session, {T0: want(5)}) == ((77, 2), [], [("t", 1)], None)


def test_a_topic_that_was_made_anew_is_forgotten_by_its_old_id() -> None:
    session = opened()
    new = b"n" * 16
    request = FetchRequest()
    session.fill(request, {T0: want(0, new), T1: want(0, new)})
    assert [topic.topic_id for topic in request.topics] == [new]
    assert [topic.topic_id for topic in request.forgotten_topics_data] == [ID]
    assert session.name_of(new, "") == "t"


def test_a_broken_session_is_opened_anew() -> None:
    for code in (Error.FETCH_SESSION_ID_NOT_FOUND, Error.INVALID_FETCH_SESSION_EPOCH):
        session = opened()
        assert not session.answered(code, 0)
        assert filled(session, {T0: want(5)})[0] == (0, 0)


def test_after_a_lost_answer_the_session_is_closed_and_opened_anew() -> None:
    session = opened()
    session.failed()
    assert filled(session, {T0: want(5)})[:2] == ((77, 0), [("t", 0, 5)])


def test_a_broker_without_room_for_sessions_gets_full_fetches() -> None:
    session = FetchSession()
    filled(session, {T0: want(1)})
    assert session.answered(0, 0)
    assert filled(session, {T0: want(1)})[:2] == ((0, 0), [("t", 0, 1)])


def test_epochs_wrap_around_to_one() -> None:
    session = opened()
    session.epoch = 2**31 - 1
    session.answered(0, 77)
    assert session.epoch == 1


def test_topics_without_ids_are_named_and_start_a_new_session() -> None:
    session = opened()
    told = filled(session, {T0: want(1, NO_TOPIC_ID)})
    assert told == ((77, 0), [("t", 0, 1)], [], 12)
    assert session.name_of(NO_TOPIC_ID, "t") == "t"
