"""Where a consumer stands in each partition, and the ways to choose partitions."""

from __future__ import annotations

import re

import pytest

from moldau.client.consumer.consumer_records import OffsetAndMetadata
from moldau.client.consumer.subscription_state import (
    EARLIEST,
    LATEST,
    Mode,
    Positions,
    reset_timestamp,
)
from moldau.client.shared.client_errors import IllegalStateError
from moldau.model.names import TopicPartition

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def assigned(*partitions: TopicPartition) -> Positions:
    positions = Positions()
    positions.assign(partitions)
    return positions


def test_reset_policies_are_timestamps() -> None:
    assert reset_timestamp("none", 5) is None
    assert reset_timestamp("earliest", 5) == EARLIEST
    assert reset_timestamp("latest", 5) == LATEST
    day_ms = 24 * 3600 * 1000
    assert reset_timestamp("by_duration:P1D", day_ms) == 0
    assert reset_timestamp("by_duration:PT1H1M1.5S", 4_000_000) == 4_000_000 - 3_661_500


def test_a_partition_starts_without_a_position() -> None:
    positions = assigned(T0)
    assert [state.tp for state in positions.without_position()] == [T0]
    assert positions.committable() == {}
    positions.of(T0).seek(5, 2)
    assert positions.without_position() == []
    assert positions.committable() == {T0: OffsetAndMetadata(5, "", 2)}


def test_a_reset_forgets_the_position_until_it_is_looked_up() -> None:
    positions = assigned(T0)
    state = positions.of(T0)
    state.seek(5)
    state.reset(EARLIEST)
    assert state.position is None
    assert positions.to_reset() == [state]
    assert positions.without_position() == []
    state.seek(0)
    assert positions.to_reset() == []


def test_every_seek_makes_earlier_fetches_stale() -> None:
    positions = assigned(T0)
    state = positions.of(T0)
    state.seek(5)
    asked_in = state.round
    assert positions.is_current(state, asked_in)
    state.refetch()
    assert not positions.is_current(state, asked_in)
    assert state.fetch_offset == 5


def test_partitions_that_stay_keep_their_position() -> None:
    positions = Positions()
    positions.subscribe(["t"])
    positions.assign_from_group([T0, T1])
    kept, gone = positions.of(T0), positions.of(T1)
    kept.seek(5)
    gone.seek(6)
    asked_in = gone.round
    positions.assign_from_group([T0])
    assert positions.of(T0) is kept
    assert kept.position == 5
    assert not positions.is_current(gone, asked_in)
    positions.assign_from_group([T0, T1])
    assert positions.of(T1).position is None


def test_partitions_that_are_not_assigned_have_no_state() -> None:
    with pytest.raises(IllegalStateError, match="No current assignment for partition t-1"):
        assigned(T0).of(T1)


def test_one_way_to_choose_at_a_time() -> None:
    positions = assigned(T0)
    with pytest.raises(IllegalStateError, match="mutually exclusive"):
        positions.subscribe(["t"])
    positions.unsubscribe()
    assert positions.mode is Mode.NONE
    positions.subscribe_pattern(re.compile("t.*"))
    with pytest.raises(IllegalStateError):
        positions.assign([T0])


def test_a_pattern_takes_whole_names_and_tells_of_changes() -> None:
    positions = Positions()
    positions.subscribe_pattern(re.compile("a|b.+"))
    assert positions.match(["a", "aa", "b", "bb"])
    assert positions.topics == {"a", "bb"}
    assert not positions.match(["bb", "a"])
    assert positions.match(["bb"])


def test_no_number_of_an_assignment_or_seek_is_ever_given_again() -> None:
    positions = Positions()
    positions.subscribe(["t"])
    seen: list[int] = []
    for _ in range(3):
        positions.assign_from_group([T0])
        state = positions.of(T0)
        seen.append(state.round)
        for change in (lambda s: s.seek(5), lambda s: s.reset(EARLIEST), lambda s: s.refetch()):
            change(state)
            seen.append(state.round)
        positions.assign_from_group([])
        seen.append(state.round)
    assert len(set(seen)) == len(seen)


def test_epochs_of_a_topic_with_the_same_name_check_nothing() -> None:
    state = assigned(T0).of(T0)
    state.topic_id = b"a" * 16
    state.seek(5, 2)
    state.meet_leader(b"a" * 16)
    assert state.is_validating
    state.believe(3)
    state.meet_leader(b"b" * 16)
    assert not state.is_validating
    assert (state.position, state.epoch, state.leader_epoch) == (5, -1, -1)
