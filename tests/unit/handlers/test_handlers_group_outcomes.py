"""What clients of groups are told when the coordinator's log does not take a change."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.engine.timers import Timers
from moldau.handlers.group_outcomes import commit_error, coordinator_error, stored
from moldau.model.errors import ApiError, Error
from tests.support.virtual_time import ManualTime


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
    assert coordinator_error(ApiError(error)) is told


def test_who_commits_too_much_at_once_is_told_so() -> None:
    assert commit_error(ApiError(Error.MESSAGE_TOO_LARGE)) is Error.INVALID_COMMIT_OFFSET_SIZE
    assert commit_error(ApiError(Error.NOT_LEADER_OR_FOLLOWER)) is Error.NOT_COORDINATOR


def test_a_change_that_its_replicas_do_not_store_in_time_is_given_up() -> None:
    async def scenario() -> None:
        time = ManualTime()
        on: Any = SimpleNamespace(
            timers=Timers(time.clock, time.call_later),
            config=SimpleNamespace(offsets_commit_timeout_ms=5_000),
        )
        loop = asyncio.get_running_loop()
        slow: asyncio.Future[object] = loop.create_future()
        task = loop.create_task(stored(slow, on))
        await asyncio.sleep(0)
        time.pass_ms(4_999)
        assert not slow.done()
        time.pass_ms(1)
        with pytest.raises(ApiError) as refusal:
            await task
        assert refusal.value.error is Error.REQUEST_TIMED_OUT
        quick: asyncio.Future[object] = loop.create_future()
        task = loop.create_task(stored(quick, on))
        await asyncio.sleep(0)
        quick.set_result("done")
        assert await task == "done"
        time.pass_ms(5_000)

    asyncio.run(scenario())
