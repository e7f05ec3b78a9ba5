"""Jobs run again and again, one run at a time, whatever a single run does."""

from __future__ import annotations

import asyncio
import logging

import pytest

from moldau.broker.background_jobs import Background
from tests.support.echo_server import run, until


def test_a_job_runs_again_and_again() -> None:
    async def scenario() -> None:
        runs: list[str] = []
        background = Background(asyncio.get_running_loop())
        background.every("count", 1, lambda: runs.append("ran"))
        await until(lambda: len(runs) >= 3)
        await background.stop()
        count = len(runs)
        await asyncio.sleep(0.01)
        assert len(runs) == count

    run(scenario)


def test_a_fault_in_one_run_does_not_stop_the_next(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        runs: list[str] = []

        async def job() -> None:
            runs.append("ran")
            raise OSError("no space left")

        background = Background(asyncio.get_running_loop())
        background.every("clean", 1, job)
        await until(lambda: len(runs) >= 2)
        await background.stop()

    with caplog.at_level(logging.ERROR):
        run(scenario)
    assert "Uncaught exception in scheduled task 'clean'" in caplog.text


def test_a_job_is_not_started_while_it_runs_and_a_stop_waits_for_it() -> None:
    async def scenario() -> None:
        gate = asyncio.get_running_loop().create_future()
        runs: list[str] = []

        async def job() -> None:
            runs.append("began")
            await gate
            runs.append("ended")

        background = Background(asyncio.get_running_loop())
        background.every("slow", 1, job)
        await until(lambda: runs == ["began"])
        await asyncio.sleep(0.01)
        assert runs == ["began"]
        asyncio.get_running_loop().call_soon(gate.set_result, None)
        await background.stop()
        assert runs == ["began", "ended"]

    run(scenario)


def test_naming_a_job_anew_changes_its_interval() -> None:
    async def scenario() -> None:
        runs: list[str] = []
        background = Background(asyncio.get_running_loop())
        background.every("clean", 3_600_000, lambda: runs.append("old"))
        background.every("clean", 1, lambda: runs.append("new"))
        await until(lambda: len(runs) >= 2)
        await background.stop()
        assert set(runs) == {"new"}

    run(scenario)


def test_an_interval_that_changes_is_asked_for_again_after_each_run() -> None:
    async def scenario() -> None:
        runs: list[str] = []
        background = Background(asyncio.get_running_loop())
        asked = iter([1, 1, 3_600_000])
        background.every("clean", lambda: next(asked), lambda: runs.append("ran"))
        await until(lambda: len(runs) == 2)
        assert list(asked) == []
        await background.stop()

    run(scenario)
