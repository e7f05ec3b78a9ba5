"""Full and incremental fetch sessions: what is answered, refused and evicted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from moldau.model.errors import ApiError, Error
from moldau.model.file_regions import FileRegion
from moldau.model.names import NO_TOPIC_ID
from moldau.replication import fetch_sessions
from moldau.replication.fetch_sessions import (
    EPOCH_MAX,
    EVICTION_AFTER_MS,
    FetchContext,
    FetchedPartition,
    FetchKey,
    FetchSessions,
    PartitionRead,
)

ID = bytes(15) + b"\1"


class File:
    def fileno(self) -> int:
        return 0


def sessions(slots: int = 10, new_id: Callable[[], int] | None = None) -> FetchSessions:
    ids = count(1)
    return FetchSessions(slots, new_id or (lambda: next(ids)))


def wanted(*partitions: int, topic: str = "t", offset: int = 0) -> dict[FetchKey, FetchedPartition]:
    return {
        (topic, index): FetchedPartition(topic, NO_TOPIC_ID, index, offset, 1000)
        for index in partitions
    }


def begin(
    cache: FetchSessions,
    session_id: int = 0,
    epoch: int = 0,
    asked: dict[FetchKey, FetchedPartition] | None = None,
    forgotten: list[FetchKey] | None = None,
    uses_topic_ids: bool = False,
    is_follower: bool = False,
    now: int = 0,
) -> FetchContext:
    return cache.begin(
        session_id,
        epoch,
        asked or {},
        forgotten or [],
        uses_topic_ids=uses_topic_ids,
        is_follower=is_follower,
        now=now,
    )


def nothing(high_watermark: int = 5) -> PartitionRead:
    return PartitionRead(0, high_watermark, high_watermark, 0)


def data(high_watermark: int = 5) -> PartitionRead:
    region = FileRegion(File(), 0, 100)
    return PartitionRead(0, high_watermark, high_watermark, 0, region, 100)


def answer(context: FetchContext, *reads: PartitionRead, now: int = 0) -> tuple[int, list[int]]:
    """Session id and the partitions in the answer."""
    session_id, answers = context.answer(list(zip(context.partitions, reads, strict=True)), now)
    return session_id, [partition.partition for partition, _ in answers]


def open_session(cache: FetchSessions, *partitions: int, now: int = 0) -> int:
    context = begin(cache, asked=wanted(*partitions), now=now)
    session_id, told = answer(context, *[nothing()] * len(partitions), now=now)
    assert told == list(partitions)
    return session_id


def refusal(
    cache: FetchSessions, session_id: int, epoch: int, uses_topic_ids: bool = False
) -> Error:
    with pytest.raises(ApiError) as caught:
        begin(cache, session_id, epoch, uses_topic_ids=uses_topic_ids)
    return caught.value.error


def test_a_fetch_without_a_session_is_answered_in_full_and_remembered_nowhere() -> None:
    cache = sessions()
    assert answer(begin(cache, epoch=-1, asked=wanted(0, 1)), nothing(), data()) == (0, [0, 1])
    assert len(cache) == 0


def test_a_first_fetch_is_answered_in_full_and_opens_a_session() -> None:
    cache = sessions()
    assert open_session(cache, 0, 1) == 1
    assert len(cache) == 1


def test_an_incremental_answer_carries_only_what_is_new() -> None:
    cache = sessions()
    session_id = open_session(cache, 0, 1, 2)
    second = begin(cache, session_id, 1)
    assert answer(second, nothing(), nothing(6), data()) == (session_id, [1, 2])
    assert answer(begin(cache, session_id, 2), nothing(), nothing(6), nothing())[1] == []


def test_a_moved_log_start_is_news() -> None:
    cache = sessions()
    session_id = open_session(cache, 0)
    moved = nothing()._replace(log_start_offset=3)
    assert answer(begin(cache, session_id, 1), moved)[1] == [0]
    assert answer(begin(cache, session_id, 2), moved)[1] == []


def test_an_error_is_told_every_time_and_so_is_its_end() -> None:
    cache = sessions()
    session_id = open_session(cache, 0)
    error = PartitionRead(Error.UNKNOWN_TOPIC_OR_PARTITION)
    assert answer(begin(cache, session_id, 1), error)[1] == [0]
    assert answer(begin(cache, session_id, 2), error)[1] == [0]
    assert answer(begin(cache, session_id, 3), nothing())[1] == [0]
    assert answer(begin(cache, session_id, 4), nothing())[1] == []


def test_a_divergence_is_always_told() -> None:
    cache = sessions()
    session_id = open_session(cache, 0)
    diverging = nothing()._replace(diverging_epoch=(1, 2))
    assert answer(begin(cache, session_id, 1), diverging)[1] == [0]
    assert answer(begin(cache, session_id, 2), diverging)[1] == [0]
    told_after = answer(begin(cache, session_id, 3), nothing())[1]
    assert told_after == [0], "a follower that truncates has not taken the high watermark"
    assert answer(begin(cache, session_id, 4), nothing())[1] == []


def test_a_follower_that_begins_anew_is_told_the_high_watermark_again() -> None:
    cache = sessions()
    asked = wanted(0)
    session_id = answer(begin(cache, asked=asked), nothing())[0]
    assert answer(begin(cache, session_id, 1), nothing())[1] == []
    again = {("t", 0): FetchedPartition("t", NO_TOPIC_ID, 0, 0, 1000, current_leader_epoch=3)}
    assert answer(begin(cache, session_id, 2, again), nothing())[1] == [0]


def test_what_got_data_goes_to_the_end_of_the_line() -> None:
    cache = sessions()
    session_id = open_session(cache, 0, 1, 2)
    answer(begin(cache, session_id, 1), data(), nothing(), nothing())
    order = [partition.partition for partition in begin(cache, session_id, 2).partitions]
    assert order == [1, 2, 0]


def test_a_session_takes_on_new_offsets_and_partitions_and_forgets_others() -> None:
    cache = sessions()
    session_id = open_session(cache, 0, 1)
    asked = wanted(0, 7, offset=40)
    context = begin(cache, session_id, 1, asked=asked, forgotten=[("t", 1)])
    offsets = {partition.partition: partition.fetch_offset for partition in context.partitions}
    assert offsets == {0: 40, 7: 40}


def test_a_session_that_forgets_its_last_partition_is_closed() -> None:
    cache = sessions()
    session_id = open_session(cache, 0)
    context = begin(cache, session_id, 1, forgotten=[("t", 0)])
    assert answer(context) == (0, [])
    assert refusal(cache, session_id, 2) == Error.FETCH_SESSION_ID_NOT_FOUND


def test_the_final_epoch_closes_a_session() -> None:
    cache = sessions()
    session_id = open_session(cache, 0)
    begin(cache, session_id, -1)
    assert len(cache) == 0


def test_a_full_fetch_with_a_session_id_replaces_that_session() -> None:
    cache = sessions()
    session_id = open_session(cache, 0)
    new_id, _ = answer(begin(cache, session_id, 0, asked=wanted(0)), nothing())
    assert new_id != session_id
    assert len(cache) == 1


def test_an_unknown_session_is_refused() -> None:
    assert refusal(sessions(), 77, 1) == Error.FETCH_SESSION_ID_NOT_FOUND
    assert refusal(sessions(), 0, -2) == Error.FETCH_SESSION_ID_NOT_FOUND


def test_a_wrong_epoch_is_refused_and_leaves_the_session_as_it_was() -> None:
    cache = sessions()
    session_id = open_session(cache, 0)
    assert refusal(cache, session_id, 5) == Error.INVALID_FETCH_SESSION_EPOCH
    answer(begin(cache, session_id, 1), nothing())


def test_a_session_cannot_change_between_topic_names_and_ids() -> None:
    cache = sessions()
    session_id = open_session(cache, 0)
    error = refusal(cache, session_id, 1, uses_topic_ids=True)
    assert error == Error.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_session_by_topic_ids_is_continued_by_topic_ids() -> None:
    cache = sessions()
    asked: dict[FetchKey, FetchedPartition] = {(ID, 3): FetchedPartition("", ID, 3, 0, 1000)}
    session_id, _ = answer(begin(cache, asked=asked, uses_topic_ids=True), nothing())
    forget: list[FetchKey] = [(ID, 3)]
    begin(cache, session_id, 1, forgotten=forget, uses_topic_ids=True)
    assert len(cache) == 0


def test_an_answer_that_comes_after_the_session_went_on_is_refused() -> None:
    cache = sessions()
    session_id = open_session(cache, 0)
    slow = begin(cache, session_id, 1)
    begin(cache, session_id, 2)
    with pytest.raises(ApiError) as caught:
        answer(slow, nothing())
    assert caught.value.error == Error.INVALID_FETCH_SESSION_EPOCH


def test_epochs_start_again_at_one_after_the_largest() -> None:
    cache = sessions()
    session_id = open_session(cache, 0)
    cache._sessions[session_id].epoch = EPOCH_MAX
    begin(cache, session_id, EPOCH_MAX)
    begin(cache, session_id, 1)


def test_session_ids_are_never_zero_and_never_given_twice() -> None:
    ids = iter([0, 4, 4, 5])
    cache = sessions(new_id=lambda: next(ids))
    assert [open_session(cache, 0), open_session(cache, 0)] == [4, 5]


def test_a_full_cache_gives_no_session_to_one_of_the_same_size() -> None:
    cache = sessions(slots=1)
    first = open_session(cache, 0)
    assert answer(begin(cache, asked=wanted(0)), nothing())[0] == 0
    begin(cache, first, 1)


def test_no_slots_mean_no_sessions() -> None:
    cache = sessions(slots=0)
    assert answer(begin(cache, asked=wanted(0)), nothing()) == (0, [0])


def test_an_idle_session_gives_way() -> None:
    cache = sessions(slots=1)
    open_session(cache, 0, 1, 2)
    later = EVICTION_AFTER_MS + 1
    context = begin(cache, asked=wanted(0), now=later)
    assert answer(context, nothing(), now=later)[0] != 0


def test_the_session_idle_for_longest_gives_way_first() -> None:
    cache = sessions(slots=2)
    first = open_session(cache, 0)
    second = open_session(cache, 0)
    begin(cache, first, 1, now=100)
    later = EVICTION_AFTER_MS + 50
    answer(begin(cache, asked=wanted(0), now=later), nothing(), now=later)
    assert refusal(cache, second, 1) == Error.FETCH_SESSION_ID_NOT_FOUND


def test_a_larger_session_pushes_out_a_smaller_one_that_is_not_young() -> None:
    cache = sessions(slots=1)
    session_id = open_session(cache, 0)
    later = EVICTION_AFTER_MS + 1
    begin(cache, session_id, 1, now=later)
    context = begin(cache, asked=wanted(0, 1), now=later)
    assert answer(context, nothing(), nothing(), now=later)[0] != 0


def test_a_larger_session_does_not_push_out_a_young_one() -> None:
    cache = sessions(slots=1)
    open_session(cache, 0)
    assert answer(begin(cache, asked=wanted(0, 1)), nothing(), nothing())[0] == 0


def test_a_follower_pushes_out_a_consumer_however_young_and_large() -> None:
    cache = sessions(slots=1)
    open_session(cache, 0, 1, 2)
    context = begin(cache, asked=wanted(0), is_follower=True)
    assert answer(context, nothing())[0] != 0


def test_a_consumer_does_not_push_out_a_follower() -> None:
    cache = sessions(slots=1)
    context = begin(cache, asked=wanted(0), is_follower=True)
    session_id, _ = answer(context, nothing())
    later = EVICTION_AFTER_MS + 1
    begin(cache, session_id, 1, now=later)
    context = begin(cache, asked=wanted(0, 1, 2), now=later)
    assert answer(context, nothing(), nothing(), nothing(), now=later)[0] == 0


def test_sessions_remember_so_many_partitions_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 10)
    cache = sessions()
    first, _ = begin(cache, asked=wanted(*range(6))).answer([], 0)
    assert first
    # The next one is answered in full, every time.
    assert begin(cache, asked=wanted(*range(5))).answer([], 0) == (0, [])
    # One that asks again for what it has goes on; one that wants ever more has to start over.
    begin(cache, first, 1, wanted(*range(6))).answer([], 0)
    with pytest.raises(ApiError) as refused:
        begin(cache, first, 2, wanted(*range(6, 12)))
    assert refused.value.error is Error.FETCH_SESSION_ID_NOT_FOUND
    # What the ended session held is free again.
    assert begin(cache, asked=wanted(*range(10))).answer([], 0)[0]
