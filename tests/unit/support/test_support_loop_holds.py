"""The gathering of what watched brokers wrote, and the list of what is explained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.net.loop_watch import VARIABLE
from tests.support.loop_holds import (
    EXPLAINED,
    Explanation,
    Hold,
    failing,
    summary,
    told_in,
    unexplained,
)


def row(begun_ns: int, phase: str, function: str, held_ms: float = 80.0) -> str:
    stack = [
        f"/lib/python/os.py:1 {function}",
        f"/x/moldau/storage/log/partition_log.py:2 {function}",
    ]
    return json.dumps(
        {
            "begun_ns": begun_ns,
            "held_ms": held_ms,
            "phase": phase,
            "folder": "/tmp/test_a",
            "stacks": [{"ms": 20, "stack": stack}],
        }
    )


def test_only_what_no_row_explains_is_left(tmp_path: Path) -> None:
    lines = [row(1, "Starting", "load"), row(2, "Running", "flush"), row(3, "Running", "append")]
    (tmp_path / "7.jsonl").write_text("\n".join(lines) + '\n{"begun_ns": 4, "he')
    EXPLAINED.append(Explanation("for this test", function="storage/log/partition_log.py append"))
    try:
        (left,) = unexplained(told_in(tmp_path))
    finally:
        EXPLAINED.pop()
    assert left.place == "storage/log/partition_log.py:2 flush"
    assert "1 × storage/log/partition_log.py:2 flush: at most 80 ms" in summary([left])[0]


def test_a_hold_that_was_told_of_before_it_ended_counts_once(tmp_path: Path) -> None:
    (tmp_path / "7.jsonl").write_text(
        row(1, "Running", "flush", 5000.0) + "\n" + row(1, "Running", "flush", 7000.0)
    )
    (told,) = told_in(tmp_path)
    assert told.held_ms == 7000.0


def test_every_explanation_has_a_reason_and_says_what_it_is_for() -> None:
    for explanation in EXPLAINED:
        assert explanation.reason
        assert (
            explanation.phases
            or explanation.function
            or explanation.collects
            or explanation.imports
        )


def hold(cpu_ms: float, collecting_ms: float = 0.0, looks: int = 5, line: str = "") -> Hold:
    stack = ["/x/moldau/groups/offsets.py:7 commit", *([line] if line else [])]
    return Hold(400.0, cpu_ms, collecting_ms, "Running", "/tmp/a", "?", [stack] * looks)


def test_a_run_fails_by_what_a_callback_did_itself() -> None:
    assert failing([hold(210.0)]) == [hold(210.0)]


def test_waiting_collecting_loading_and_standing_still_fail_no_run() -> None:
    importing = "<frozen importlib._bootstrap>:1178 _find_and_load"
    waited = hold(cpu_ms=20.0)
    collected = hold(cpu_ms=230.0, collecting_ms=100.0)
    loaded = hold(cpu_ms=300.0, line=importing)
    stood_still = hold(cpu_ms=390.0, looks=1)
    assert failing([waited, collected, loaded, stood_still]) == []
    assert loaded not in unexplained([loaded])
    assert unexplained([waited]) == [waited]


HOLDING_TEST = """
import asyncio, os
from pathlib import Path
from moldau.net.loop_watch import VARIABLE, LoopWatch

def test_a_loop_is_held():
    async def hold():
        loop = asyncio.get_running_loop()
        watch = LoopWatch(loop, Path(os.environ[VARIABLE]), lambda: "Running")
        watch.start()
        def compute():
            import time
            until = time.thread_time() + {seconds}
            while time.thread_time() < until:
                sum(range(100))
        loop.call_soon(compute)
        await asyncio.sleep(0.1)
        watch.stop()
    asyncio.run(hold())
"""


@pytest.mark.parametrize("seconds, outcome", [(0.6, 1), (0.01, 0)])
def test_a_test_run_fails_if_a_loop_was_held(tmp_path: Path, seconds: float, outcome: int) -> None:
    (tmp_path / "test_holding.py").write_text(HOLDING_TEST.format(seconds=seconds))
    environment = {key: value for key, value in os.environ.items() if key != VARIABLE}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest"]
    command += ["-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    root = Path(__file__).parents[3]
    ended = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert ended.returncode == outcome, ended.stdout
    assert "1 passed" in ended.stdout
    assert ("by their own work" in ended.stdout) == bool(outcome)
