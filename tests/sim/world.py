"""Time that jumps: a world of event loops, one for each process, on one clock without waiting.

Whatever a loop is to do at once is done in the order it was asked for; when nothing is left, the
clock moves to the next timer of anybody. A process can be stopped (its callbacks gather until it
goes on, as with SIGSTOP) or ended (they are never run, as with kill -9). Chance comes from the
seed alone, each use with a stream of its own, so that a run can be repeated to the letter.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from heapq import heappop, heappush
from typing import Any

EPOCH_MS = 1_600_000_000_000
STEPS_PER_INSTANT_MAX = 200_000
"""More callbacks than this at one time mean that somebody turns in circles."""


class SimulationFault(Exception):
    """The simulated program did what no program may do."""


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_us = 0
        self.grain_us = 1
        """What happens to the world happens at multiples of this: with a coarse grain much comes
        at once, as to a busy process that looks at its sockets now and then."""
        self.trace: list[str] = []
        self.after_step: Callable[[SimLoop], None] = lambda loop: None
        self.faults: list[str] = []
        self._soon: deque[tuple[asyncio.Handle, SimLoop | None]] = deque()
        self._later: list[tuple[int, int, asyncio.Handle, SimLoop | None]] = []
        self._count = 0
        self._outside = new_loop(self, "world")

    def chance(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}")

    def note(self, text: str) -> None:
        self.trace.append(f"{self.now_us / 1_000_000:10.6f} {text}")

    def fail(self, text: str) -> None:
        self.note(f"FAULT {text}")
        self.faults.append(text)

    # What is to be done

    def add(self, handle: asyncio.Handle, loop: SimLoop | None, at_us: int | None = None) -> None:
        if at_us is None or at_us <= self.now_us:
            self._soon.append((handle, loop))
        else:
            self._count += 1
            heappush(self._later, (at_us, self._count, handle, loop))

    def after(self, delay_us: int, callback: Callable[..., None], *of: Any) -> asyncio.Handle:
        """Something that happens to the world, not in one of its processes."""
        handle = asyncio.Handle(callback, of, self._outside)
        at_us = self.now_us + max(1, delay_us)
        self.add(handle, None, -(-at_us // self.grain_us) * self.grain_us)
        return handle

    def run_until(self, is_so: Callable[[], bool], within_ms: int) -> bool:
        """Let time pass until it is so; False if it is not so within that time."""
        end_us = self.now_us + within_ms * 1000
        while not self.faults:
            self._run_instant()
            if self.faults or is_so():
                break
            while self._later and self._later[0][2].cancelled():
                heappop(self._later)
            if not self._later or self._later[0][0] > end_us:
                self.now_us = end_us
                return False
            self.now_us = self._later[0][0]
            while self._later and self._later[0][0] == self.now_us:
                _, _, handle, loop = heappop(self._later)
                self._soon.append((handle, loop))
        return not self.faults

    def _run_instant(self) -> None:
        soon = self._soon
        turns = 0
        while soon:
            handle, loop = soon.popleft()
            if handle.cancelled():
                continue
            if loop is None:
                events._set_running_loop(self._outside)
                handle._run()
                events._set_running_loop(None)
                continue
            if loop.is_ended:
                continue
            if loop.is_stopped:
                loop.backlog.append(handle)
                continue
            events._set_running_loop(loop)
            handle._run()
            events._set_running_loop(None)
            self.after_step(loop)
            turns += 1
            if turns > STEPS_PER_INSTANT_MAX:
                self.fail(f"{loop.name} turns in circles at {handle}")
            if self.faults:
                return


class SimClock:
    def __init__(self, world: World) -> None:
        self._world = world

    def wall_ms(self) -> int:
        return EPOCH_MS + self._world.now_us // 1000

    def monotonic_ms(self) -> int:
        return self._world.now_us // 1000


def new_loop(world: World, name: str) -> SimLoop:
    # Of all that a loop can do, the program uses what is there.
    return SimLoop(world, name)  # type: ignore[abstract]


class SimLoop(asyncio.AbstractEventLoop):
    """The loop of one process; `connect` is how it reaches the network."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.backlog: list[asyncio.Handle] = []
        self.is_stopped = False
        self.is_ended = False
        self.ended_us = 0
        self.tasks: list[asyncio.Task[Any]] = []
        self.connect: Callable[..., Coroutine[Any, Any, tuple[Any, Any]]] | None = None
        self.readers: dict[int, Any] = {}

    # What happens to the process

    def stop_process(self) -> None:
        self.is_stopped = True

    def go_on(self) -> None:
        self.is_stopped = False
        backlog, self.backlog = self.backlog, []
        for handle in backlog:
            self.world.add(handle, self)

    def end(self) -> None:
        self.is_ended = True
        self.ended_us = self.world.now_us
        self.backlog = []

    def bury(self) -> None:
        """Once nothing matters any more: no coroutine may complain of its unfinished life."""
        self.is_ended = True
        events._set_running_loop(self)
        try:
            for task in self.tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    coroutine = task.get_coro()
                    try:
                        assert coroutine is not None
                        coroutine.close()
                    except (RuntimeError, asyncio.CancelledError, OSError):
                        pass
        finally:
            events._set_running_loop(None)

    # What the process asks of its loop

    def time(self) -> float:
        return self.world.now_us / 1_000_000

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self.world.add(handle, self)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        at_us = int(when * 1_000_000)
        # Never before its time: who looks at the clock then must not find it too early.
        self.world.add(handle, self, at_us if at_us / 1_000_000 >= when else at_us + 1)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Asked for by TimerHandle.cancel; the world drops it when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self.tasks.append(task)
        if len(self.tasks) % 256 == 0:
            self.tasks = [each for each in self.tasks if not each.done()]
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """A future, as every loop gives it; it is done already."""
        future: asyncio.Future[Any] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as fault:
            future.set_exception(fault)
        return future

    def set_default_executor(self, executor: Any) -> None:
        """Threads are never used: their work is done at once."""

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int
    ) -> tuple[Any, Any]:
        assert self.connect is not None
        return await self.connect(self, protocol_factory, host, port)

    def add_reader(  # type: ignore[override]
        self, fd: int, callback: Callable[..., Any], *args: Any
    ) -> None:
        self.readers[fd].watch_reads(callback)

    def remove_reader(self, fd: Any) -> bool:
        self.readers[fd].watch_reads(None)
        return True

    def add_writer(  # type: ignore[override]
        self, fd: int, callback: Callable[..., Any], *args: Any
    ) -> None:
        self.readers[fd].watch_writes(callback)

    def remove_writer(self, fd: Any) -> bool:
        self.readers[fd].watch_writes(None)
        return True

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.is_ended:
            return
        fault = context.get("exception")
        self.world.fail(f"{self.name}: {context.get('message')}: {fault!r}{place_of(fault)}")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)


def place_of(fault: BaseException | None) -> str:
    frames = []
    trace = fault.__traceback__ if fault is not None else None
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f" at {' > '.join(frames[-6:])}" if frames else ""
