"""The compacting process, started by `compaction_process` with `python -m`.

It does rounds of compaction step by step as it is asked to on its standard input, and answers on
its standard output. It ends when its input ends, that is with the broker, in whatever way that
went; in the middle of a step at the next read or write. It yields the processor to everybody else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any

from moldau.storage.compaction.compaction_pace import Pace
from moldau.storage.compaction.compaction_pipe import GREETING, PROGRESS, Hangup, Pipe
from moldau.storage.compaction.compaction_round import Limits, Refused, Round
from moldau.storage.compaction.compaction_work import Compaction
from moldau.storage.storage_faults import StorageFault

NICENESS = 10
PROGRESS_MS = 200
"""How often the broker is told that the work goes on."""


class _MonotonicClock:
    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class Child:
    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._parent = os.getppid()
        self._compaction: Compaction | None = None
        self._pace: Pace | None = None
        self._clock = _MonotonicClock()
        self._told_ms = 0

    def serve(self) -> None:
        """Until the broker hangs up."""
        with contextlib.suppress(Hangup):
            self._pipe.send(GREETING)
            while True:
                command, *arguments = self._pipe.receive(self._check_parent)
                self._pipe.send(self._answer(command, arguments))

    def _answer(self, command: str, arguments: list[Any]) -> tuple[Any, ...]:
        try:
            if command == "map":
                self._begin(*arguments)
            else:
                assert self._compaction is not None
                self._compaction.write(*arguments)
        except Refused as refusal:
            return "refused", str(refusal)
        except StorageFault as fault:
            return "failed", fault.doing, fault.path, fault.errno, fault.cause
        except OSError as error:
            assert self._compaction is not None
            directory = self._compaction.what.directory
            return "failed", "cannot compact", directory, error.errno, os.strerror(error.errno or 0)
        assert self._compaction is not None
        return "done", self._compaction.offset_end, self._compaction.counts.pack()

    def _begin(self, what: list[Any], limits: list[Any], bytes_per_second: float) -> None:
        if self._compaction is not None:
            self._compaction.close()
        self._pace = Pace(self._clock, bytes_per_second)
        asked = Round.unpack(what)
        self._compaction = Compaction(asked, Limits(*limits), self._took, keeps_claim=True)
        self._compaction.map_keys()

    def _took(self, size_bytes: int) -> None:
        """For everything read or written: keep to the pace, say that the work goes on, and look
        whether we are wanted."""
        assert self._pace is not None
        delay_ms = self._pace.delay_ms(size_bytes)
        while True:
            self._check_parent()
            self._tell_of_progress()
            # Nothing comes during a step: input means that the broker is gone or wants no more.
            if self._pipe.has_input(min(delay_ms, PROGRESS_MS)):
                raise Hangup
            delay_ms -= PROGRESS_MS
            if delay_ms <= 0:
                return

    def _tell_of_progress(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._told_ms >= PROGRESS_MS:
            self._told_ms = now_ms
            self._pipe.send(PROGRESS)

    def _check_parent(self) -> None:
        """A process forked from the broker may have kept our input open."""
        if os.getppid() != self._parent:
            raise Hangup


def main() -> None:
    # The broker's end is ours; signals for its terminal or its whole service are not for us.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    answers = os.dup(1)
    # Whatever is printed must not end up between the messages.
    os.dup2(2, 1)
    Child(Pipe(0, answers)).serve()


if __name__ == "__main__":
    main()
