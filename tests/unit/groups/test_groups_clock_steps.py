"""Somebody sets the wall clock while a group is at work: sessions go by the monotonic clock, what
is stored and what is counted from a stored time by the wall clock, as in Kafka."""

from __future__ import annotations

import asyncio

import pytest

from moldau.engine.engine import Engine
from moldau.engine.timers import Timers
from moldau.groups import group_commands, group_facts
from moldau.groups.group_machine import GroupMachine
from moldau.groups.group_settings import GroupSettings
from moldau.model.errors import ApiError, Error
from tests.support.group_coordinator import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Coordinator,
    subscription,
)
from tests.support.manual_journal import ManualJournal
from tests.support.virtual_time import ManualTime

HOUR_MS = 3_600_000
RETENTION_MS = 24 * HOUR_MS


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
def test_no_session_ends_when_the_wall_clock_is_set(step_ms: int) -> None:
    coordinator = Coordinator()
    (member_id,) = coordinator.stable()
    for step in (step_ms, -step_ms, step_ms):
        coordinator.wall_step_ms += step
        coordinator.pass_ms(SESSION_MS - 1)
        assert coordinator.heartbeat(member_id, 1) is None
    assert not coordinator.happened(group_facts.MemberRemoved)


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
def test_a_silent_member_goes_when_its_session_is_over_whatever_the_wall_clock_says(
    step_ms: int,
) -> None:
    coordinator = Coordinator()
    coordinator.stable()
    coordinator.wall_step_ms = step_ms
    coordinator.pass_ms(SESSION_MS - 1)
    assert not coordinator.happened(group_facts.MemberRemoved)
    coordinator.pass_ms(1)
    assert len(coordinator.happened(group_facts.MemberRemoved)) == 1


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
def test_what_a_timer_stores_bears_the_time_at_which_it_runs(step_ms: int) -> None:
    coordinator = Coordinator()
    coordinator.stable()
    coordinator.wall_step_ms = step_ms
    coordinator.pass_ms(SESSION_MS)
    emptied = coordinator.happened(group_facts.GroupStored)[-1]
    assert emptied.state_timestamp_ms == coordinator.wall_ms


def test_the_retention_of_offsets_goes_by_the_wall_clock() -> None:
    coordinator = Coordinator(offsets_retention_ms=RETENTION_MS)
    coordinator.commit(5)
    coordinator.wall_step_ms = -HOUR_MS
    coordinator.pass_ms(RETENTION_MS)
    coordinator.ask(group_commands.ExpireOffsets())
    assert coordinator.committed().offset == 5
    coordinator.wall_step_ms = 0
    coordinator.ask(group_commands.ExpireOffsets())
    assert coordinator.committed().offset == -1


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
def test_the_engines_timers_do_not_follow_the_wall_clock(step_ms: int) -> None:
    async def scenario() -> None:
        time = ManualTime()
        timers = Timers(time.clock, time.call_later)
        machine = GroupMachine(GroupSettings(initial_rebalance_delay_ms=0))
        journal = ManualJournal(commits_at_once=True)
        engine = Engine("groups", machine, journal, clock=time.clock, timers=timers)
        protocols = (group_facts.Protocol("range", subscription("orders")),)
        join = engine.submit(
            group_commands.JoinGroup(
                GROUP, "", "m", None, "c", "/h", SESSION_MS, REBALANCE_MS, "consumer", protocols,
                member_id_required=False,
            )
        )  # fmt: skip
        time.pass_ms(1)
        assert join.result().generation == 1
        await engine.submit(group_commands.SyncGroup(GROUP, 1, "m", assignments={"m": b""}))
        for step in (step_ms, -step_ms):
            time.clock.wall_step_ms += step
            time.pass_ms(SESSION_MS - 1)
            await engine.submit(group_commands.Heartbeat(GROUP, 1, "m"))
        time.clock.wall_step_ms += step_ms
        time.pass_ms(SESSION_MS)
        with pytest.raises(ApiError) as caught:
            await engine.submit(group_commands.Heartbeat(GROUP, 1, "m"))
        assert caught.value.error is Error.UNKNOWN_MEMBER_ID

    asyncio.run(scenario())
