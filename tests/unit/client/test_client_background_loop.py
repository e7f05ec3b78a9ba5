"""The background loop: one for all, results and faults come back, Ctrl-C cancels."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

import pytest

from moldau.client.shared.background_loop import background_loop, run


async def _answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


def test_every_caller_shares_one_running_loop() -> None:
    async def which() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert run(which()) is run(which()) is background_loop()


def test_results_and_faults_come_back_to_the_caller() -> None:
    async def fail() -> None:
        raise ValueError("no")

    assert run(_answer(3)) == 3
    with pytest.raises(ValueError, match="no"):
        run(fail())


def test_blocking_the_loop_itself_is_refused() -> None:
    async def inside() -> None:
        run(_answer(1))

    with pytest.raises(RuntimeError, match=r"moldau\.aio"):
        run(inside())


def test_many_threads_may_call_at_once() -> None:
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(run(_answer(n)))) for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(20))


PROGRAM = """
import asyncio, os, signal, sys, threading
from moldau.client.shared.background_loop import run, background_loop
def functions_of_main_thread():
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back
async def wait():
    try:
        while "result" not in functions_of_main_thread():
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)
    finally:
        os.write(1, b"cancelled ")
asyncio.run_coroutine_threadsafe(asyncio.sleep(60), background_loop())
try:
    run(wait())
except KeyboardInterrupt:
    os.write(1, b"interrupted ")
"""


def test_ctrl_c_cancels_the_call_and_the_process_ends_quietly() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert sorted(done.stdout.split()) == ["cancelled", "interrupted"]
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_gets_a_loop_of_its_own() -> None:
    program = (
        "import os, asyncio\n"
        "from moldau.client.shared.background_loop import run\n"
        "async def one(): return 1\n"
        "run(one())\n"
        "pid = os.fork()\n"
        "if pid == 0: os._exit(run(one()) + 6)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=20)
    assert done.stdout.strip() == b"7"
