"""Errors are found wherever a response may have them."""

from __future__ import annotations

from moldau.model.errors import Error
from moldau.wire.error_codes import error_codes
from moldau.wire.messages.fetch import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchResponse,
)
from moldau.wire.messages.groups import HeartbeatResponse


def test_an_error_of_the_whole_answer_is_found() -> None:
    assert error_codes(HeartbeatResponse(error_code=Error.UNKNOWN_MEMBER_ID)) == [25]
    assert error_codes(HeartbeatResponse()) == []


def test_errors_of_rows_are_found_each_as_often_as_it_occurs() -> None:
    def row(error: Error) -> FetchablePartitionResponse:
        return FetchablePartitionResponse(error_code=error)

    bad = Error.NOT_LEADER_OR_FOLLOWER
    topics = [
        FetchableTopicResponse(topic="a", partitions=[row(bad), row(Error.NONE)]),
        FetchableTopicResponse(topic="b", partitions=[row(bad)]),
    ]
    assert error_codes(FetchResponse(responses=topics)) == [6, 6]
    assert error_codes(FetchResponse(error_code=Error.FENCED_LEADER_EPOCH)) == [74]
