"""What those who ask a coordinator are told when its log does not take a change."""

from __future__ import annotations

import pytest

from moldau.coordinators.coordinator_errors import (
    of_coordinator,
    of_partition,
    told_of_commit,
    told_to_client,
)
from moldau.model.errors import Error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Error.NOT_ENOUGH_REPLICAS, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.REQUEST_TIMED_OUT, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.COORDINATOR_NOT_AVAILABLE),
        (Error.NOT_LEADER_OR_FOLLOWER, Error.NOT_COORDINATOR),
        (Error.KAFKA_STORAGE_ERROR, Error.NOT_COORDINATOR),
        (Error.MESSAGE_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
        (Error.ILLEGAL_GENERATION, Error.ILLEGAL_GENERATION),
    ],
)
def test_faults_of_the_log_are_told_as_faults_of_the_coordinator(error: Error, told: Error) -> None:
    assert told_to_client(error) is told


def test_who_commits_too_much_at_once_is_told_so() -> None:
    assert told_of_commit(Error.MESSAGE_TOO_LARGE) is Error.INVALID_COMMIT_OFFSET_SIZE
    assert told_of_commit(Error.NOT_LEADER_OR_FOLLOWER) is Error.NOT_COORDINATOR


def test_a_coordinator_hears_of_what_is_too_large_as_it_is() -> None:
    assert of_coordinator(Error.MESSAGE_TOO_LARGE) is Error.MESSAGE_TOO_LARGE
    assert of_coordinator(Error.NOT_ENOUGH_REPLICAS) is Error.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_LEADER_OR_FOLLOWER),
        (Error.COORDINATOR_LOAD_IN_PROGRESS, Error.NOT_LEADER_OR_FOLLOWER),
        (Error.NOT_COORDINATOR, Error.NOT_LEADER_OR_FOLLOWER),
        (Error.REQUEST_TIMED_OUT, Error.REQUEST_TIMED_OUT),
        (Error.INVALID_PRODUCER_EPOCH, Error.INVALID_PRODUCER_EPOCH),
    ],
)
def test_who_asks_for_a_marker_is_told_of_a_partition(error: Error, told: Error) -> None:
    assert of_partition(error) is told
