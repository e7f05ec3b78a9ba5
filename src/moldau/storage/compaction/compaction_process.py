"""Rounds of compaction in a process of its own, so that they never hold the broker's interpreter.

A thread of the broker asks and waits; `compaction_child` does the work. The process is started
when a round is worth it and ended when nothing is left to do. Whatever becomes of it, the log is
as it was: it only writes `.cleaned` files. Where no process can be started, rounds are done in the
thread.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
import time
from typing import Any

from moldau.storage.compaction.compaction_job import InThread, Job
from moldau.storage.compaction.compaction_pace import Pace
from moldau.storage.compaction.compaction_pipe import GREETING, PROGRESS, TICK_MS, Hangup, Pipe
from moldau.storage.compaction.compaction_plan import SourceSegment
from moldau.storage.compaction.compaction_round import Counts, Limits, Refused
from moldau.storage.compaction.compaction_work import CompactionSteps
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.log.LogCleaner")

CHILD_MODULE = "moldau.storage.compaction.compaction_child"
ROUND_BYTES_MIN = 1024 * 1024
"""A smaller round takes a thread a few milliseconds, less than a process needs to start."""
START_SECONDS_MAX = 30.0
START_AGAIN_SECONDS = 600.0
END_SECONDS_MAX = 5.0
SILENCE_SECONDS_MAX = 120.0
"""A process at work says several times a second that it goes on, however long its round takes and
however slow its pace is. Between two such signs lies at most one read or write of a buffer, or an
fsync of 64 MB: where that takes two minutes, the kernel itself calls the waiting task hung."""


class _Stalled(Exception):
    """The process has made no progress for too long."""


class _Patience:
    """Asked at every tick of waiting for the process. Counts ticks and not time: while the broker
    itself stands still, so does this."""

    def __init__(self, job: Job, seconds_max: float) -> None:
        self._job = job
        self._seconds_max = seconds_max
        self._silent_ticks = 0

    def tick(self) -> None:
        self._job.check()
        self._silent_ticks += 1
        if self._silent_ticks * TICK_MS > self._seconds_max * 1000:
            raise _Stalled

    def heard(self) -> None:
        self._silent_ticks = 0


class InProcess:
    """Where large rounds are done by a process, small ones by the thread."""

    def __init__(self, round_bytes_min: int = ROUND_BYTES_MIN) -> None:
        self._round_bytes_min = round_bytes_min
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Pipe | None = None
        self._start_after = 0.0

    @property
    def pid(self) -> int | None:
        """None before it is ready for work."""
        return self._process.pid if self._process is not None and self._pipe is not None else None

    def steps_of(self, job: Job, limits: Limits, pace: Pace) -> CompactionSteps:
        size_bytes = sum(segment.size_bytes for segment in job.what.segments)
        is_large = size_bytes >= self._round_bytes_min
        if is_large and time.monotonic() >= self._start_after and _can_start():
            return _AskedSteps(self, job, limits, pace)
        return InThread().steps_of(job, limits, pace)

    def rest(self) -> None:
        self._end()

    def ask(self, job: Job, message: tuple[Any, ...], *, may_start: bool) -> Any:
        """The process's answer. If the round is broken off meanwhile, the process ends with it."""
        is_answered = False
        try:
            if self._pipe is None and may_start:
                self._start(job)
            if self._pipe is None:
                raise Hangup
            answer = self._answer(self._pipe, job, message)
            is_answered = True
        except _Stalled:
            assert self._process is not None
            self._process.kill()
            raise _late(job, f"made no progress for {SILENCE_SECONDS_MAX:g} s") from None
        except Hangup:
            reason = f"its process {_in_words(self._end())}"
            raise StorageFault("cannot compact", job.log.directory, reason=reason) from None
        finally:
            if not is_answered:
                self._end()
        return answer

    def _answer(self, pipe: Pipe, job: Job, message: tuple[Any, ...]) -> Any:
        patience = _Patience(job, SILENCE_SECONDS_MAX)
        pipe.send(message, patience.tick)
        while (answer := pipe.receive(patience.tick)) == PROGRESS:
            patience.heard()
        return answer

    def _start(self, job: Job) -> None:
        try:
            process = _spawn()
        except OSError as error:
            raise self._not_started(os.strerror(error.errno or 0)) from error
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        pipe = Pipe(process.stdout.fileno(), process.stdin.fileno())
        try:
            greeting = pipe.receive(_Patience(job, START_SECONDS_MAX).tick)
        except (Hangup, _Stalled) as silence:
            status = self._end()
            if status == -signal.SIGKILL and isinstance(silence, _Stalled):
                raise _late(job, f"did not start within {START_SECONDS_MAX:g} s") from None
            if status == -signal.SIGKILL:
                # Somebody's choice, or the kernel's for want of memory: a thread would fare worse.
                reason = f"its process {_in_words(status)}"
                raise StorageFault("cannot compact", job.log.directory, reason=reason) from None
            raise self._not_started(f"it {_in_words(status)}") from None
        if greeting != GREETING:
            raise self._not_started("another version of Moldau is installed now")
        self._pipe = pipe

    def _not_started(self, reason: str) -> StorageFault:
        self._start_after = time.monotonic() + START_AGAIN_SECONDS
        reason = f"{reason}; compaction goes on in a thread"
        return StorageFault(f"cannot start {CHILD_MODULE} with", sys.executable, reason=reason)

    def _end(self) -> int | None:
        """Hang up and wait; its status, None if that is not known."""
        process, self._process, self._pipe = self._process, None, None
        if process is None:
            return None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        for _ in range(2):
            try:
                return process.wait(END_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
        # It waits for the disk. The next round does not begin before it is gone.
        log.warning("Process %d, which has compacted a log, does not end.", process.pid)
        return None


class _AskedSteps:
    """The steps of a round, done by the process."""

    def __init__(self, runner: InProcess, job: Job, limits: Limits, pace: Pace) -> None:
        self._runner = runner
        self._job = job
        self._limits = limits
        self._pace = pace
        self.counts = Counts()
        self.offset_end = job.what.first_dirty
        self.groups: list[list[SourceSegment]] = []

    def map_keys(self) -> None:
        what = self._job.what
        order = ("map", what.pack(), tuple(self._limits), self._pace.bytes_per_second)
        self._ask(order, may_start=True)
        self.groups = what.groups(self.offset_end)

    def write(self, number: int) -> None:
        self._ask(("write", number), may_start=False)

    def close(self) -> None:
        """The process lets go of its memory when it is given the next round, or ends."""

    def _ask(self, order: tuple[Any, ...], *, may_start: bool) -> None:
        outcome, *more = self._runner.ask(self._job, order, may_start=may_start)
        if outcome == "refused":
            raise Refused(*more)
        if outcome == "failed":
            raise StorageFault(*more)
        self.offset_end, counts = more
        self.counts = Counts(*counts)


def _late(job: Job, what: str) -> StorageFault:
    reason = f"its process {what} and was ended"
    return StorageFault("cannot compact", job.log.directory, errno.ETIMEDOUT, reason)


def _can_start() -> bool:
    """Not inside of a program that has been frozen into one file: that would be started again."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def _spawn() -> subprocess.Popen[bytes]:
    """Without the customs of the site, which cost it time to start, but with all that this
    interpreter can import; in a group of its own, so that Ctrl-C is not for it."""
    paths = os.pathsep.join(map(os.path.abspath, sys.path))
    return subprocess.Popen(
        [sys.executable, "-S", "-P", "-m", CHILD_MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        env={**os.environ, "PYTHONPATH": paths},
        cwd="/",
        process_group=0,
    )


def _in_words(status: int | None) -> str:
    if status is None:
        return "is gone"
    if status >= 0:
        return f"ended with status {status}"
    return f"was ended by {signal.Signals(-status).name}"
