"""Tells who held the event loop: callbacks that kept everybody else waiting, with their stacks.

Off unless the environment names a folder (`MOLDAU_LOOP_WATCH`); then a thread looks at the loop's
thread a few dozen times a second, and a callback that held the loop for more than 50 ms (or the
`MOLDAU_LOOP_WATCH_MS` of a test) becomes one line of JSON in a file of this process. What is off
costs nothing.

Time in which a thread of the process was ready to run and the machine was busy with others is not
held against the loop, nor is time in which the whole process stood still. Waiting for the disk is,
and so is waiting for a thread of this process that works and has the interpreter.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import json
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from moldau.net.thread_clock import Reading, ThreadClocks

VARIABLE = "MOLDAU_LOOP_WATCH"
LIMIT_VARIABLE = "MOLDAU_LOOP_WATCH_MS"
HELD_MS_MAX = 50
LOOK_SECONDS = 0.015
SUSPECT_AFTER_NS = 15_000_000
"""A callback that has run for so long has its stack looked at."""
TOLD_AFTER_NS = 5_000_000_000
"""One that has not ended by then is told of: the process may be killed before it does."""
STACKS_MAX = 30
FRAMES_MAX = 60
READINGS_MAX = 2_000
WAITING_MAX = 1_000

_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_now_ns = time.perf_counter_ns


class _Ended(NamedTuple):
    """A callback that ran for long by the clock on the wall."""

    begun_ns: int
    ended_ns: int
    reading: Reading
    collecting_ns: int
    name: str


class LoopWatch:
    """`holds` counts what was told of, `longest_ms` is the longest of them."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        folder: Path,
        phase: Callable[[], str],
        held_ms_max: int = HELD_MS_MAX,
    ) -> None:
        self.holds = 0
        self.longest_ms = 0.0
        self._loop = loop
        self._folder = folder
        self._phase = phase
        self._held_ns_max = held_ms_max * 1_000_000
        self._begun_ns = 0
        """When the callback that runs now began; 0 between two of them."""
        self._collecting_ns = 0
        self._collection_begun_ns = 0
        self._ended: deque[_Ended] = deque(maxlen=WAITING_MAX)
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()
        self._original_run: Callable[[asyncio.Handle], None] | None = None

    def start(self) -> None:
        """Called on the loop's thread."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._clocks = ThreadClocks(threading.get_native_id())
        self._loop_thread = threading.get_ident()
        self._original_run = run = asyncio.Handle._run
        asyncio.Handle._run = self._watched(run)  # type: ignore[method-assign, assignment]
        gc.callbacks.append(self._collecting)
        self._thread = threading.Thread(target=self._look_on, name="loop-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is None or self._original_run is None:
            return
        asyncio.Handle._run = self._original_run  # type: ignore[method-assign, assignment]
        gc.callbacks.remove(self._collecting)
        self._is_over.set()
        self._thread.join()
        self._thread = None
        self._clocks.close()

    # On the loop's thread

    def _watched(self, run: Callable[[asyncio.Handle], None]) -> Callable[[asyncio.Handle], None]:
        loop, held_ns_max, now_ns = self._loop, self._held_ns_max, _now_ns

        def watched_run(handle: asyncio.Handle) -> None:
            if handle._loop is not loop:  # type: ignore[attr-defined]
                return run(handle)
            collecting_ns = self._collecting_ns
            self._begun_ns = begun_ns = now_ns()
            try:
                run(handle)
            finally:
                self._begun_ns = 0
                if now_ns() - begun_ns >= held_ns_max:
                    self._note(handle, begun_ns, self._collecting_ns - collecting_ns)

        return watched_run

    def _note(self, handle: asyncio.Handle, begun_ns: int, collecting_ns: int) -> None:
        ended_ns = _now_ns()
        callback: Any = getattr(handle, "_callback", None)
        callback = getattr(callback, "__self__", callback)  # a task's step tells nothing of it
        self._ended.append(
            _Ended(begun_ns, ended_ns, self._clocks.read(), collecting_ns, repr(callback)[:200])
        )

    def _collecting(self, phase: str, _: Mapping[str, int]) -> None:
        """Whichever thread collects garbage, everybody waits."""
        if phase == "start":
            self._collection_begun_ns = _now_ns()
        else:
            self._collecting_ns += _now_ns() - self._collection_begun_ns

    # On the thread that looks

    def _look_on(self) -> None:
        with (self._folder / f"{os.getpid()}.jsonl").open("a") as file:
            notes = _Notes(self, file)
            while not self._is_over.wait(LOOK_SECONDS):
                notes.look()
            notes.look()
            notes.close()


class _Notes:
    """What the looking thread has seen."""

    def __init__(self, watch: LoopWatch, file: TextIO) -> None:
        self._watch = watch
        self._file = file
        self._readings = deque([watch._clocks.read_all()], READINGS_MAX)
        self._stood_still_ns = 0
        self._process_ns = time.process_time_ns()
        self._suspect_ns = 0
        """When the callback that the stacks are of began."""
        self._stacks: list[dict[str, Any]] = []
        self._next_age_ns = 0
        self._phase = ""
        self._is_told = False
        self._snapshot = _Snapshot()

    def close(self) -> None:
        self._snapshot.close()

    def look(self) -> None:
        watch = self._watch
        self._read_clocks()
        while watch._ended:
            self._judge(watch._ended.popleft())
        begun_ns = watch._begun_ns
        if begun_ns and _now_ns() - begun_ns >= SUSPECT_AFTER_NS:
            self._suspect(begun_ns)

    def _read_clocks(self) -> None:
        """This thread was late, and the process has not worked meanwhile: it was not let."""
        before, now = self._readings[-1], self._watch._clocks.read_all()
        process_ns = time.process_time_ns()
        late_ns = now.at_ns - before.at_ns - int(LOOK_SECONDS * 1e9)
        self._stood_still_ns += max(0, late_ns - (process_ns - self._process_ns))
        self._process_ns = process_ns
        self._readings.append(now._replace(stood_still_ns=self._stood_still_ns))

    def _suspect(self, begun_ns: int) -> None:
        if begun_ns != self._suspect_ns:
            self._suspect_ns, self._stacks, self._next_age_ns = begun_ns, [], 0
            self._phase, self._is_told = self._watch._phase(), False
        age_ns = _now_ns() - begun_ns
        if age_ns >= self._next_age_ns and len(self._stacks) < STACKS_MAX:
            stack = self._snapshot.stack_of(self._watch._loop_thread)
            # It may have ended since: then the stack is another one's.
            if self._watch._begun_ns == begun_ns:
                self._stacks.append({"ms": round(age_ns / 1e6), "stack": stack})
                self._next_age_ns = age_ns * 5 // 4
        held_ns = age_ns - (self._stood_still_ns - self._before(begun_ns).stood_still_ns)
        if held_ns >= TOLD_AFTER_NS and not self._is_told:
            self._is_told = True
            self._write(begun_ns, {"held_ms": round(held_ns / 1e6, 1), "has_ended": False})

    def _before(self, begun_ns: int) -> Reading:
        return next(
            (reading for reading in reversed(self._readings) if reading.at_ns <= begun_ns),
            self._readings[0],
        )

    def _judge(self, ended: _Ended) -> None:
        before, now = self._before(ended.begun_ns), self._readings[-1]
        wall_ns = ended.ended_ns - ended.begun_ns
        ran_ns = min(wall_ns, ended.reading.ran_ns - before.ran_ns)
        kept_off_ns = ended.reading.kept_off_ns - before.kept_off_ns
        kept_off_ns += now.others_kept_off_ns - before.others_kept_off_ns
        kept_off_ns = max(kept_off_ns, now.stood_still_ns - before.stood_still_ns)
        held_ns = max(ran_ns, wall_ns - kept_off_ns)
        if held_ns < self._watch._held_ns_max:
            return
        held_ms = round(held_ns / 1e6, 1)
        self._watch.holds += 1
        self._watch.longest_ms = max(self._watch.longest_ms, held_ms)
        if ended.begun_ns != self._suspect_ns:
            self._suspect_ns, self._stacks, self._phase = 0, [], self._watch._phase()
        figures = {
            "held_ms": held_ms,
            "wall_ms": round(wall_ns / 1e6, 1),
            "cpu_ms": round(ran_ns / 1e6, 1),
            "kept_off_ms": round(kept_off_ns / 1e6, 1),
            "collecting_ms": round(min(held_ns, ended.collecting_ns) / 1e6, 1),
            "has_ended": True,
            "callback": ended.name,
        }
        self._write(ended.begun_ns, figures)

    def _write(self, begun_ns: int, figures: dict[str, Any]) -> None:
        head = {"begun_ns": begun_ns, "phase": self._phase, "folder": os.getcwd()}
        self._file.write(json.dumps({**head, **figures, "stacks": self._stacks}) + "\n")
        self._file.flush()


class _Snapshot:
    """Stacks of running threads, taken in one call into C that never lets the others go on.

    To follow `frame.f_back` from here does: the frames may end between two steps, and Python 3.11
    then follows a pointer into what is no frame any more (a segmentation fault, seen)."""

    def __init__(self) -> None:
        self._memory = os.memfd_create("stacks")

    def close(self) -> None:
        os.close(self._memory)

    def stack_of(self, thread: int) -> list[str]:
        """The innermost line first; what is below the callback is the loop's own."""
        os.lseek(self._memory, 0, os.SEEK_SET)
        faulthandler.dump_traceback(self._memory, all_threads=True)
        size_bytes = os.lseek(self._memory, 0, os.SEEK_CUR)
        lines = iter(os.pread(self._memory, size_bytes, 0).decode("ascii", "replace").splitlines())
        head = f"Thread 0x{thread:016x} "
        texts: list[str] = []
        for line in lines:
            if line.startswith(head):
                break
        for line in lines:
            found = _FRAME.fullmatch(line)
            if found is None or len(texts) == FRAMES_MAX:
                break
            path, number, name = found.groups()
            if name == "watched_run" and path == __file__:
                break
            texts.append(f"{path}:{number} {name}")
        return texts


def watch_loop(
    loop: asyncio.AbstractEventLoop,
    phase: Callable[[], str],
    environment: Mapping[str, str] = os.environ,
) -> LoopWatch | None:
    """A watch that has begun, if the environment asks for one. `phase` says what is going on."""
    folder = environment.get(VARIABLE)
    if not folder:
        return None
    held_ms_max = int(environment.get(LIMIT_VARIABLE) or HELD_MS_MAX)
    watch = LoopWatch(loop, Path(folder), phase, held_ms_max)
    watch.start()
    return watch
