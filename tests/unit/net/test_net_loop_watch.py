"""The watch on the event loop tells of callbacks that held it, and of nothing else."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moldau.net.loop_watch import LoopWatch, watch_loop

STOPPED = """
import asyncio, sys, time
from pathlib import Path
from moldau.net.loop_watch import LoopWatch

def work():
    print("begun", flush=True)
    sys.stdin.readline()  # stopped here, then let go on and given its line at once

async def main():
    watch = LoopWatch(asyncio.get_running_loop(), Path(sys.argv[1]), lambda: "Running")
    watch.start()
    await asyncio.sleep(0.1)
    asyncio.get_running_loop().call_soon(work)
    await asyncio.sleep(0.1)
    watch.stop()

asyncio.run(main())
"""


def watched(folder: Path, *callbacks: Callable[[], object]) -> LoopWatch:
    """A loop that runs these, one after the other."""

    async def main() -> LoopWatch:
        loop = asyncio.get_running_loop()
        watch = LoopWatch(loop, folder, lambda: "Running")
        watch.start()
        await asyncio.sleep(0.05)
        for callback in callbacks:
            loop.call_soon(callback)
        await asyncio.sleep(0.05)
        watch.stop()
        return watch

    return asyncio.run(main())


def told_in(folder: Path) -> list[dict[str, Any]]:
    lines = [line for path in folder.iterdir() for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def told_of(function: str, folder: Path) -> list[dict[str, Any]]:
    """What has this function in its stacks; not what was told before it had ended."""
    return [told for told in told_in(folder) if told["has_ended"] and is_in(function, told)]


def is_in(function: str, told: dict[str, Any]) -> bool:
    lines = (line for sample in told["stacks"] for line in sample["stack"])
    return any(line.split()[-1] == function for line in lines)


def wait_for_the_disk() -> None:
    time.sleep(1.0)


def compute() -> None:
    begun = time.thread_time()
    while time.thread_time() - begun < 0.3:
        sum(range(1000))


def collect_garbage() -> None:
    rows: list[Any] = [[] for _ in range(300_000)]
    for row in rows:
        row.append(rows)
    begun = time.thread_time()
    while time.thread_time() - begun < 0.3:
        gc.collect()


def test_a_callback_that_waits_or_works_for_long_is_told_with_its_stack(tmp_path: Path) -> None:
    watch = watched(tmp_path, wait_for_the_disk, compute)
    (waited,) = told_of("wait_for_the_disk", tmp_path)
    (worked,) = told_of("compute", tmp_path)
    assert waited["phase"] == worked["phase"] == "Running"
    assert waited["held_ms"] >= 50
    assert waited["cpu_ms"] < 100 < worked["cpu_ms"]
    assert watch.holds >= 2
    assert watch.longest_ms >= 100


def test_the_time_of_a_garbage_collection_is_told_apart(tmp_path: Path) -> None:
    watched(tmp_path, collect_garbage)
    (told,) = told_of("collect_garbage", tmp_path)
    assert told["collecting_ms"] > 50


def test_short_callbacks_and_the_work_of_other_loops_are_not_told(tmp_path: Path) -> None:
    def elsewhere() -> None:
        other = asyncio.new_event_loop()
        other.call_soon(wait_for_the_disk)
        other.call_soon(other.stop)
        other.run_forever()
        other.close()

    thread = threading.Thread(target=elsewhere)
    watched(tmp_path, thread.start, lambda: None)
    thread.join()
    assert told_of("wait_for_the_disk", tmp_path) == []


def test_a_process_that_was_stopped_has_not_held_its_loop(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    with process, process.stdin, process.stdout:
        process.stdout.readline()
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(1.0)
        process.stdin.write(b"\n")
        process.stdin.flush()
        os.kill(process.pid, signal.SIGCONT)
    assert [told for told in told_in(tmp_path) if told["held_ms"] > 500] == []


def test_nothing_is_watched_unless_the_environment_asks(tmp_path: Path) -> None:
    run = asyncio.Handle._run
    loop = asyncio.new_event_loop()
    assert watch_loop(loop, lambda: "Running", {}) is None
    assert asyncio.Handle._run is run
    watch = watch_loop(loop, lambda: "Running", {"MOLDAU_LOOP_WATCH": str(tmp_path / "new")})
    assert watch is not None
    assert asyncio.Handle._run is not run
    watch.stop()
    assert asyncio.Handle._run is run
    loop.close()
