"""What a fetcher asks and how it reads the answers, as transcripts of leader and follower logs."""

from __future__ import annotations

import pytest

from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.replication.following.fetch_plan import (
    FetchSettings,
    Followed,
    Following,
    Position,
    Range,
    Restart,
    Step,
    out_of_range,
    truncation_point,
)
from moldau.storage.log_state.leader_epoch_history import EpochHistory, EpochStart
from moldau.wire.messages.fetch import (
    EpochEndOffset,
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
)

ID = b"t".ljust(16, b"-")
SETTINGS = FetchSettings(1, 7, 500, 1, 10_000, 1_000, backoff_ms=1_000)


def followed(partition: int = 0, offset_end: int = 10, epoch: int = 3) -> Followed:
    place = TopicPartition("t", partition)
    return Followed(place, ID, epoch, Position(offset_end, epoch, 0))


def ask(following: Following, now: int = 0) -> FetchRequest:
    request = following.request(now, SETTINGS)
    assert request is not None
    return request


def asked(request: FetchRequest) -> list[tuple[int, int]]:
    return [(row.partition, row.fetch_offset) for t in request.topics for row in t.partitions]


def answer(*rows: FetchablePartitionResponse, session_id: int = 5) -> FetchResponse:
    topic = FetchableTopicResponse(topic_id=ID, partitions=list(rows))
    return FetchResponse(session_id=session_id, responses=[topic])


def row(partition: int = 0, error: Error = Error.NONE) -> FetchablePartitionResponse:
    return FetchablePartitionResponse(partition_index=partition, error_code=error)


def test_the_first_request_names_every_partition_and_later_ones_only_what_moved() -> None:
    following = Following()
    first, second = followed(0), followed(1)
    following.follow(first)
    following.follow(second)
    request = ask(following)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert asked(request) == [(0, 10), (1, 10)]
    following.answered(answer(row(0)), 0, SETTINGS)
    first.position = Position(12, 3, 0)
    request = ask(following)
    assert (request.session_id, request.session_epoch) == (5, 1)
    assert asked(request) == [(0, 12)]


def test_a_fetch_waits_at_the_leader_until_the_pause_of_a_refused_partition_ends() -> None:
    following = Following()
    refused = followed(0)
    following.follow(refused)
    following.follow(followed(1))
    assert ask(following).max_wait_ms == SETTINGS.wait_max_ms
    following.answered(answer(row(0, Error.NOT_LEADER_OR_FOLLOWER)), 0, SETTINGS)
    assert 0 < refused.ready_ms < SETTINGS.wait_max_ms
    assert ask(following).max_wait_ms == refused.ready_ms
    assert ask(following, refused.ready_ms).max_wait_ms == SETTINGS.wait_max_ms


def test_a_partition_that_is_no_longer_followed_is_forgotten_by_the_leaders_session() -> None:
    following = Following()
    following.follow(followed(0))
    following.follow(followed(1))
    ask(following)
    following.answered(answer(), 0, SETTINGS)
    following.unfollow(TopicPartition("t", 1))
    request = ask(following)
    forgotten = [(each.topic_id, each.partitions) for each in request.forgotten_topics_data]
    assert forgotten == [(ID, [1])]


def test_a_lost_session_begins_anew_with_everything() -> None:
    following = Following()
    following.follow(followed())
    ask(following)
    following.answered(answer(), 0, SETTINGS)
    lost = FetchResponse(error_code=Error.FETCH_SESSION_ID_NOT_FOUND)
    assert following.answered(lost, 0, SETTINGS) == []
    request = ask(following)
    assert (request.session_id, request.session_epoch) == (5, 0)
    assert asked(request) == [(0, 10)]


def test_a_leader_without_room_for_a_session_is_asked_in_full_every_time() -> None:
    following = Following()
    following.follow(followed())
    for _ in range(2):
        request = ask(following)
        assert request.session_epoch == 0
        assert asked(request) == [(0, 10)]
        following.answered(answer(row(), session_id=0), 0, SETTINGS)


def test_an_answer_for_a_role_that_has_changed_meanwhile_means_nothing() -> None:
    following = Following()
    following.follow(followed(epoch=3))
    ask(following)
    following.follow(followed(epoch=4))
    assert following.answered(answer(row()), 0, SETTINGS) == []


@pytest.mark.parametrize(
    ("error", "step"),
    [
        (Error.NONE, Step.APPEND),
        (Error.OFFSET_OUT_OF_RANGE, Step.LOOK_FOR_RANGE),
        (Error.FENCED_LEADER_EPOCH, Step.FENCED),
        (Error.UNKNOWN_LEADER_EPOCH, Step.PAUSED),
        (Error.NOT_LEADER_OR_FOLLOWER, Step.PAUSED),
        (Error.UNKNOWN_TOPIC_ID, Step.PAUSED),
        (Error.KAFKA_STORAGE_ERROR, Step.PAUSED),
    ],
)
def test_every_error_has_its_step(error: Error, step: Step) -> None:
    following = Following()
    following.follow(followed())
    ask(following)
    (answered,) = following.answered(answer(row(error=error)), 0, SETTINGS)
    assert answered.step is step


def test_a_refused_partition_is_asked_for_again_soon_at_first_and_later_after_the_backoff() -> None:
    following = Following()
    following.follow(followed())
    pauses = []
    now = 0
    for _ in range(7):
        ask(following, now)
        following.answered(answer(row(error=Error.NOT_LEADER_OR_FOLLOWER)), now, SETTINGS)
        assert following.request(now, SETTINGS) is None
        pause = following.ready_in_ms(now)
        assert pause is not None
        pauses.append(pause)
        now += pause
    assert pauses == [50, 100, 200, 400, 800, 1000, 1000]


def test_a_fenced_partition_waits_for_its_next_role() -> None:
    following = Following()
    following.follow(followed())
    ask(following)
    following.answered(answer(row(error=Error.FENCED_LEADER_EPOCH)), 0, SETTINGS)
    assert following.request(10**9, SETTINGS) is None
    assert following.ready_in_ms(0) is None
    following.follow(followed(epoch=4))
    assert asked(ask(following)) == [(0, 10)]


def test_a_divergence_asks_for_truncation() -> None:
    following = Following()
    following.follow(followed())
    ask(following)
    diverging = row()
    diverging.diverging_epoch = EpochEndOffset(epoch=2, end_offset=8)
    (answered,) = following.answered(answer(diverging), 0, SETTINGS)
    assert answered.step is Step.TRUNCATE


# Truncation: two logs as (epoch, start) and their ends, played until the follower is a prefix.


class Log:
    def __init__(self, offset_end: int, *starts: tuple[int, int]) -> None:
        self.offset_end = offset_end
        self.epochs = EpochHistory(EpochStart(*start) for start in starts)

    def truncate(self, offset: int) -> None:
        self.offset_end = min(offset, self.offset_end)
        self.epochs.truncate_from_end(self.offset_end)


def converge(leader: Log, follower: Log) -> list[int]:
    """Where the follower truncates, round by round, until the leader has its last record."""
    cuts: list[int] = []
    while True:
        epoch, end = leader.epochs.end_of(follower.epochs.latest, leader.offset_end)
        if epoch == follower.epochs.latest and end >= follower.offset_end:
            return cuts
        assert len(cuts) < 10, "it does not converge"
        here = follower.epochs.end_of(epoch, follower.offset_end)
        cut = truncation_point((epoch, end), here, follower.offset_end, high_watermark=0)
        follower.truncate(cut)
        cuts.append(cut)
        if follower.epochs.latest < 0:
            return cuts


def test_kip_101_no_loss_a_follower_level_with_its_leader_truncates_nothing() -> None:
    assert converge(Log(2, (0, 0)), Log(2, (0, 0))) == []


def test_kip_101_divergence_the_old_leaders_own_records_go() -> None:
    # B led in epoch 0 and wrote offset 1; A lost it in a crash and wrote another as epoch 1.
    assert converge(Log(2, (0, 0), (1, 1)), Log(2, (0, 0))) == [1]


def test_kip_279_fast_failovers_are_cut_epoch_by_epoch() -> None:
    # The leader has 0, 2 and 4; the follower 0, 1 and 3, which the leader never saw.
    leader = Log(30, (0, 0), (2, 10), (4, 20))
    follower = Log(25, (0, 0), (1, 10), (3, 20))
    assert converge(leader, follower) == [20, 10]
    assert (follower.offset_end, follower.epochs.latest) == (10, 0)


def test_an_epoch_that_the_follower_does_not_know_is_cut_at_its_own_last_one_before() -> None:
    leader = Log(30, (0, 0), (2, 5), (4, 20))
    follower = Log(25, (0, 0), (3, 12))
    assert converge(leader, follower) == [12, 5]


def test_an_epoch_without_records_costs_nothing() -> None:
    follower = Log(10, (4, 0), (5, 10))
    assert converge(Log(12, (4, 0), (6, 10)), follower) == [10]
    assert (follower.offset_end, follower.epochs.latest) == (10, 4)


def test_a_log_that_shares_no_epoch_is_dropped_to_where_the_leader_begins() -> None:
    follower = Log(8, (1, 0))
    assert converge(Log(9, (3, 0)), follower) == [0]


def test_a_leader_that_has_less_than_its_follower_wins() -> None:
    assert out_of_range(20, Range(0, 12)) == Restart(truncate_to=12)


def test_a_leader_that_deleted_all_that_the_follower_has_is_followed_from_its_start() -> None:
    assert out_of_range(20, Range(30, 40)) == Restart(start_at=30)


def test_a_follower_that_is_within_range_again_just_goes_on() -> None:
    assert out_of_range(20, Range(5, 40)) == Restart()
