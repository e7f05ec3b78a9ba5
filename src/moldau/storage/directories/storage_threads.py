"""Where the log store has its slow work done: fsync, checkpoints, removing files.

Works are done one after another in the order they were given (a checkpoint must not overtake the
next one), and the outcome comes back on the loop's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition, Thread
from typing import Protocol

from moldau.storage.storage_faults import StorageFault

Work = Callable[[], StorageFault | None]
"""Blocks, touches only files and values of its own, and returns a fault instead of raising it."""
Done = Callable[[StorageFault | None], None]


class Threads(Protocol):
    def run(self, work: Work, done: Done) -> None:
        """Do `work` elsewhere, then call `done` with its outcome on the loop's thread."""

    def stop(self) -> None:
        """Wait until everything given so far is done."""


class OneThread:
    """A single thread, started with the first work."""

    def __init__(
        self,
        call_on_loop: Callable[[Done, StorageFault | None], object],
        name: str = "kafka-log-flusher",
    ) -> None:
        """`call_on_loop(done, outcome)` is the loop's `call_soon_threadsafe`."""
        self._name = name
        self._call_on_loop = call_on_loop
        self._works: deque[tuple[Work, Done]] = deque()
        self._changed = Condition()
        self._thread: Thread | None = None
        self._is_stopping = False

    def run(self, work: Work, done: Done) -> None:
        with self._changed:
            assert not self._is_stopping, "no work is taken after stop"
            self._works.append((work, done))
            self._changed.notify()
            if self._thread is None:
                self._begin()

    def stop(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        joined = None
        while self._thread is not joined and self._thread is not None:
            joined = self._thread
            joined.join()

    def _begin(self) -> None:
        thread = Thread(target=self._serve, name=self._name, daemon=True)
        thread.start()
        # Not before: whoever stops may join it at once.
        self._thread = thread

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._works or self._is_stopping)
                if not self._works:
                    return
                work, done = self._works.popleft()
            self._do(work, done)

    def _do(self, work: Work, done: Done) -> None:
        outcome: StorageFault | None = StorageFault(
            "cannot finish a work of", self._name, reason="an unforeseen error, told beside this"
        )
        is_over = False
        try:
            outcome = work()
            is_over = True
        finally:
            if not is_over:
                # A bug: it ends this thread, with its trace, and costs this work alone.
                with self._changed:
                    self._begin()
            self._call_on_loop(done, outcome)


def run_each(works: Sequence[Callable[[], None]], threads: int) -> None:
    """Do all works in at most `threads` threads and wait. Raises what the first one raised; those
    that had not begun by then are not done."""
    if threads <= 1 or len(works) <= 1:
        for work in works:
            work()
        return
    with ThreadPoolExecutor(threads, "log-recovery") as pool:
        try:
            for done in [pool.submit(work) for work in works]:
                done.result()
        finally:
            pool.shutdown(cancel_futures=True)
