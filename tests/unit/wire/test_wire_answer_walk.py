"""Errors are found wherever a response may have them, and rows are counted wherever they are."""

from __future__ import annotations

import random
from typing import Any

import pytest

from moldau.model.errors import Error
from moldau.wire.answer_walk import error_codes, errors_unless_long
from moldau.wire.apis import APIS, Api, response_class
from moldau.wire.messages.fetch import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchResponse,
)
from moldau.wire.messages.groups import HeartbeatResponse
from moldau.wire.schema import Struct
from tests.support.random_messages import RandomMessages


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


def plainly(struct: Struct) -> tuple[int, list[int]]:
    """Rows and errors of a struct, by looking at its fields one by one."""
    rows, errors = 0, []
    for field in type(struct).__fields__:
        value: Any = getattr(struct, field.name)
        if field.name == "error_code" and value:
            errors.append(int(value))
        elif field.is_array and value:
            rows += len(value)
            for each in value if field.struct is not None else ():
                below = plainly(each)
                rows, errors = rows + below[0], errors + below[1]
    return rows, errors


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_walks_find_what_looking_at_each_field_finds(api: Api) -> None:
    messages = RandomMessages(random.Random(api.key))
    for _ in range(10):
        answer = messages.message(response_class(api.key), api.version_max)
        rows, errors = plainly(answer)
        assert sorted(error_codes(answer)) == sorted(errors)
        assert errors_unless_long(answer, rows) == error_codes(answer)
        assert not rows or errors_unless_long(answer, rows - 1) is None
