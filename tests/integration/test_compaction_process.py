"""Compaction in a process of its own: what it leaves, and every way in which it may end early."""

from __future__ import annotations

import errno
import logging
import os
import queue
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.storage.compaction import compaction_process
from moldau.storage.compaction.compaction_job import InThread
from moldau.storage.compaction.compaction_process import InProcess
from moldau.storage.directories.storage_threads import Done, OneThread
from moldau.storage.rewriting import rewrite_claim
from moldau.storage.rewriting.rewrite_claim import claim
from moldau.storage.storage_faults import StorageFault
from tests.support.compaction import CompactionBench, small_cleaner
from tests.support.eventually import eventually

NEWEST = [(9, "k0", "3-0"), (10, "k1", "3-1"), (11, "k2", "3-2")]
SLOW = small_cleaner(bytes_per_second=1.0)


class HandLoop:
    """The loop's side of a thread: what the thread has done is taken note of when a test says."""

    def __init__(self) -> None:
        self._calls: queue.Queue[tuple[Done, StorageFault | None]] = queue.Queue()

    def call(self, done: Done, outcome: StorageFault | None) -> None:
        self._calls.put((done, outcome))

    def run_until(self, check: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not check():
            assert time.monotonic() < deadline, "it did not come true in time"
            try:
                done, outcome = self._calls.get(timeout=0.02)
            except queue.Empty:
                continue
            done(outcome)


@pytest.fixture
def place() -> Iterator[InProcess]:
    place = InProcess(round_bytes_min=0)
    yield place
    place.rest()


@pytest.fixture
def bench(tmp_path: Path, place: InProcess) -> CompactionBench:
    return CompactionBench(tmp_path, place=place)


def fill(bench: CompactionBench) -> None:
    for i in range(4):
        bench.put(*((f"k{j}", f"{i}-{j}") for j in range(3)))
        bench.roll()


def in_thread(bench: CompactionBench) -> HandLoop:
    loop = HandLoop()
    bench.let_go()
    bench.open(OneThread(loop.call, "cleaner"))
    return loop


def is_gone(pid: int) -> bool:
    """Or a zombie that nobody has taken note of."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return True
    return fields[0] == "Z"


def test_a_process_leaves_the_same_files_as_a_thread(tmp_path: Path, place: InProcess) -> None:
    contents = []
    for name, where in (("process", place), ("thread", None)):
        bench = CompactionBench(tmp_path / name)
        if where is not None:
            bench.place = where
        fill(bench)
        fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
        bench.put(("a", "aborted"), base_sequence=0, **fields)
        bench.end_transaction(7, commit=False)
        bench.put(("k0", None), producer_id=3, producer_epoch=2, base_sequence=5)
        bench.compact()
        assert bench.log.cleaned_end == bench.log.offset_end
        paths = [path for path in bench.directory.iterdir() if path.name[0] == "0"]
        contents.append({path.name: path.read_bytes() for path in paths})
    assert contents[0] == contents[1]


def test_small_rounds_need_no_process(tmp_path: Path) -> None:
    place = InProcess()
    bench = CompactionBench(tmp_path, place=place)
    fill(bench)
    bench.cleaner.look()
    assert bench.records() == NEWEST
    assert place.pid is None


def test_the_process_ends_when_nothing_is_left_to_do(
    bench: CompactionBench, place: InProcess
) -> None:
    loop = in_thread(bench)
    fill(bench)
    bench.cleaner.look()
    eventually(lambda: place.pid is not None)
    loop.run_until(lambda: bench.log.cleaned_end == 12 and place.pid is None)
    bench.cleaner.stop()
    assert bench.records() == NEWEST


def test_the_process_is_nice_and_ctrl_c_is_not_for_it(
    bench: CompactionBench, place: InProcess
) -> None:
    loop = in_thread(bench)
    bench.cleaning = SLOW
    fill(bench)
    bench.cleaner.look()
    eventually(lambda: place.pid is not None)
    pid = place.pid
    assert pid is not None
    assert os.getpgid(pid) != os.getpgid(0)
    eventually(lambda: os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)
    os.kill(pid, signal.SIGKILL)
    loop.run_until(lambda: not bench.cleaner.is_busy)
    bench.cleaner.stop()


def test_a_process_that_is_killed_is_said_once_and_tried_again(
    bench: CompactionBench, place: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    loop = in_thread(bench)
    bench.cleaning = SLOW
    fill(bench)
    names = bench.names()
    with caplog.at_level(logging.WARNING):
        bench.cleaner.look()
        eventually(lambda: place.pid is not None)
        assert place.pid is not None
        os.kill(place.pid, signal.SIGKILL)
        loop.run_until(lambda: not bench.cleaner.is_busy)
    assert [record.getMessage() for record in caplog.records] == [
        f"Cleaner 0: cleaning of log compacted-0 failed: cannot compact {bench.directory}: "
        "its process was ended by SIGKILL"
    ]
    assert bench.names() == names
    bench.cleaning = small_cleaner()
    bench.cleaner.look()
    loop.run_until(lambda: bench.log.cleaned_end == 12)
    bench.cleaner.stop()
    assert bench.records() == NEWEST


def test_a_process_that_is_killed_between_two_steps_loses_nothing(
    bench: CompactionBench, place: InProcess
) -> None:
    loop = in_thread(bench)
    fill(bench)
    bench.cleaner.look()
    eventually(lambda: place.pid is not None)
    assert place.pid is not None
    os.kill(place.pid, signal.SIGKILL)
    loop.run_until(lambda: not bench.cleaner.is_busy)
    assert len(bench.records()) in (3, 12)
    bench.cleaner.look()
    loop.run_until(lambda: bench.log.cleaned_end == 12)
    bench.cleaner.stop()
    assert bench.records() == NEWEST


def test_a_log_that_fails_again_and_again_is_tried_ever_more_seldom(
    bench: CompactionBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    bench.place = InThread()
    bench.let_go()
    bench.open()
    fill(bench)
    monkeypatch.setattr(os, "fsync", refuse)
    tried = []
    for minute in range(60):
        caplog.clear()
        bench.cleaner.look()
        tried += [minute] * len(caplog.records)
        bench.clock.now_ms += 60_000
    assert tried == [0, 1, 2, 5, 12, 27, 42, 57]
    monkeypatch.undo()
    bench.clock.now_ms += 900_000
    bench.cleaner.look()
    assert bench.records() == NEWEST


def test_a_process_that_stands_still_is_ended_and_the_log_is_tried_again(
    bench: CompactionBench,
    place: InProcess,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(compaction_process, "SILENCE_SECONDS_MAX", 1.0)
    loop = in_thread(bench)
    bench.cleaning = SLOW
    fill(bench)
    names = bench.names()
    with caplog.at_level(logging.WARNING):
        bench.cleaner.look()
        eventually(lambda: place.pid is not None)
        pid = place.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        loop.run_until(lambda: not bench.cleaner.is_busy)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            f"Cleaner 0: cleaning of log compacted-0 failed: cannot compact {bench.directory}: "
            "its process made no progress for 1 s and was ended",
        )
    ]
    assert is_gone(pid)
    assert bench.names() == names
    bench.cleaning = small_cleaner()
    bench.cleaner.look()
    loop.run_until(lambda: bench.log.cleaned_end == 12)
    bench.cleaner.stop()
    assert bench.records() == NEWEST


def test_a_round_that_is_too_large_for_the_pipe_ends_too_if_nobody_takes_it(
    bench: CompactionBench, place: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process stops between two rounds; what it is asked for next does not fit in the pipe."""
    monkeypatch.setattr(compaction_process, "SILENCE_SECONDS_MAX", 1.0)
    loop = in_thread(bench)
    fill(bench)
    for producer_id in range(5_000):
        bench.put(("k0", "x"), producer_id=producer_id, producer_epoch=0, base_sequence=0)
    bench.roll()
    spawn = compaction_process._spawn

    def spawn_stopped() -> subprocess.Popen[bytes]:
        process = spawn()
        assert process.stdout is not None
        # Its greeting is there, so it waits for its first round.
        assert select.select([process.stdout], [], [], 30)[0]
        process.send_signal(signal.SIGSTOP)
        return process

    monkeypatch.setattr(compaction_process, "_spawn", spawn_stopped)
    bench.cleaner.look()
    loop.run_until(lambda: not bench.cleaner.is_busy)
    assert place.pid is None
    monkeypatch.setattr(compaction_process, "_spawn", spawn)
    bench.cleaner.look()
    loop.run_until(lambda: bench.log.cleaned_end == bench.log.offset_end)
    bench.cleaner.stop()


def test_a_round_may_take_much_longer_than_a_process_may_stand_still(
    bench: CompactionBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At such a pace each of three waits is longer than that."""
    monkeypatch.setattr(compaction_process, "SILENCE_SECONDS_MAX", 2.0)
    loop = in_thread(bench)
    bench.put(("k0", "x" * 700))
    bench.roll()
    bench.cleaning = small_cleaner(bytes_per_second=300.0)
    bench.cleaner.look()
    loop.run_until(lambda: not bench.cleaner.is_busy)
    bench.cleaner.stop()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert bench.log.cleaned_end == 1


@pytest.mark.parametrize("what", ["stop", "truncate"])
def test_a_round_that_is_not_wanted_any_more_ends_its_process(
    bench: CompactionBench, place: InProcess, what: str
) -> None:
    loop = in_thread(bench)
    bench.cleaning = SLOW
    fill(bench)
    bench.cleaner.look()
    eventually(lambda: place.pid is not None)
    pid = place.pid
    assert pid is not None
    began = time.monotonic()
    if what == "stop":
        bench.cleaner.stop()
    else:
        bench.log.truncate_to(7)
        bench.cleaning = small_cleaner()
        loop.run_until(lambda: bench.log.cleaned_end == 6)
        bench.cleaner.stop()
    assert time.monotonic() - began < 10
    assert is_gone(pid)
    assert not bench.names(".cleaned")
    assert len(bench.records()) == (12 if what == "stop" else 3)


def test_the_process_ends_with_a_broker_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.compacting_parent", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not is_gone(pid)
        parent.kill()
    eventually(lambda: is_gone(pid), seconds_max=10)
    bench = CompactionBench(tmp_path)
    assert not bench.names(".cleaned")
    assert len(bench.records()) == 6
    bench.compact()
    assert [(key, value) for _, key, value in bench.records()] == [("a", "2"), ("b", "x" * 200)]


def test_where_no_process_can_be_started_the_thread_compacts(
    bench: CompactionBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fill(bench)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with caplog.at_level(logging.ERROR):
        bench.cleaner.look()
        bench.cleaner.look()
    assert [record.getMessage() for record in caplog.records] == [
        "Cleaner 0: cleaning of log compacted-0 failed: cannot start "
        "moldau.storage.compaction.compaction_child "
        "with /nowhere/python: No such file or directory; compaction goes on in a thread"
    ]
    assert bench.records() == NEWEST


@pytest.mark.parametrize("program", ["/bin/true", "/bin/echo"])
def test_another_program_under_the_interpreters_name_is_not_trusted(
    bench: CompactionBench,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    program: str,
) -> None:
    fill(bench)
    monkeypatch.setattr(sys, "executable", program)
    bench.cleaner.look()
    bench.cleaner.look()
    assert "compaction goes on in a thread" in caplog.text
    assert bench.records() == NEWEST


def test_a_newer_moldau_on_disk_is_not_mixed_with_the_running_one(
    bench: CompactionBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fill(bench)
    monkeypatch.setattr(compaction_process, "GREETING", ("moldau-cleaner", "0.0.1"))
    bench.cleaner.look()
    bench.cleaner.look()
    assert "another version of Moldau is installed now" in caplog.text
    assert bench.records() == NEWEST


def test_two_processes_never_compact_one_log(
    bench: CompactionBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(rewrite_claim, "WAIT_SECONDS_MAX", 0.0)
    bench.place = InThread()
    bench.let_go()
    bench.open()
    fill(bench)
    other = claim(str(bench.directory))
    bench.cleaner.look()
    assert f"cannot compact {bench.directory}: another process is at it" in caplog.text
    assert len(bench.records()) == 12
    os.close(other)
    bench.cleaner.look()
    assert bench.records() == NEWEST


def test_a_damaged_log_is_refused_in_the_same_words(
    bench: CompactionBench, caplog: pytest.LogCaptureFixture
) -> None:
    fill(bench)
    path = bench.directory / "00000000000000000003.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    bench.cleaner.look()
    assert f"is not compacted from now on: {path} is damaged at byte 0" in caplog.text


def test_files_that_another_round_left_go_before_the_next(bench: CompactionBench) -> None:
    fill(bench)
    stray = bench.directory / "00000000000000000000.timeindex.cleaned"
    stray.write_bytes(b"x")
    beyond = bench.directory / "00000000000000000077.log.cleaned"
    beyond.write_bytes(b"x")
    bench.cleaner.look()
    assert bench.records() == NEWEST
    assert not bench.names(".cleaned")
