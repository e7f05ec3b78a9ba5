"""librdkafka for the clients of a history, each thread's in a process of its own.

A foreign library may crash or never return from a call: librdkafka's send_offsets_to_transaction
looks at no timeout while a coordinator is away (librdkafka issues 5456 and 5511, open), and one
crash took a whole run of tests with it. Here such a process is killed, and what it was doing counts
as what a client does that dies: nobody knows whether it happened. The next session starts another.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.support.histories.libraries import (
    CALL_SECONDS_MAX,
    ForeignClientGone,
    Reading,
    Told,
    Writing,
)
from tests.support.histories.librdkafka_calls import LENGTH, READ_SECONDS_MAX, send
from tests.support.histories.model import Place, Read
from tests.support.reach import Reach

ROOT = Path(__file__).parents[3]
# Longer than most calls may take by their own limits; `flush` has a longer one.
ANSWER_SECONDS_MAX = CALL_SECONDS_MAX * 2 + 15
FLUSH_SECONDS_MAX = CALL_SECONDS_MAX * 8 + 30


class ForeignProcess:
    """One process of librdkafka, asked one call at a time."""

    def __init__(self, reach: Reach) -> None:
        settings = json.dumps(reach.librdkafka)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.histories.librdkafka_calls", settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        self._tellers: dict[int, Told] = {}
        self._numbers = itertools.count()

    @property
    def is_gone(self) -> bool:
        return self._process.poll() is not None

    def call(self, name: str, *arguments: Any, seconds_max: float = ANSWER_SECONDS_MAX) -> Any:
        assert self._process.stdin is not None
        if self.is_gone:
            raise self._gone(name)
        try:
            send(self._process.stdin, (name, arguments))
        except BrokenPipeError:
            raise self._gone(name) from None
        result, refusal, told = self._answer(name, time.monotonic() + seconds_max)
        for number, offset, fault in told:
            self._tellers.pop(number)(offset, fault)
        if refusal is not None:
            raise TimeoutError(refusal) if refusal.startswith("Timeout") else Refused(refusal)
        return result

    def append(self, place: Place, key: str | None, value: str, told: Told) -> None:
        number = next(self._numbers)
        self._tellers[number] = told
        self.call("append", number, place, key, value)

    def _answer(self, name: str, deadline: float) -> Any:
        (size,) = LENGTH.unpack(self._read(LENGTH.size, name, deadline))
        return pickle.loads(self._read(size, name, deadline))

    def _read(self, size: int, name: str, deadline: float) -> bytes:
        assert self._process.stdout is not None
        pipe, found = self._process.stdout.fileno(), b""
        waiting = select.poll()
        waiting.register(pipe, select.POLLIN)
        while len(found) < size:
            if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
                self.kill()
                raise ForeignClientGone(f"librdkafka does not return from {name}")
            piece = os.read(pipe, size - len(found))
            if not piece:
                raise self._gone(name)
            found += piece
        return found

    def _gone(self, name: str) -> ForeignClientGone:
        return ForeignClientGone(f"librdkafka ended with {self._process.wait()} in {name}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass


class Refused(ForeignClientGone):
    """What the library itself has answered, as text; its process lives on."""


class Librdkafka:
    name = "librdkafka"

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._own = threading.local()
        self._all: list[ForeignProcess] = []

    def writing(self, transactional_id: str | None) -> Writing:
        return _Writing(self._process(), transactional_id)

    def reading(self, places: Iterable[Place]) -> Reading:
        process = self._process()
        process.call("assign", list(places))
        return _Reading(process)

    def member(self, group: str, topic: str) -> Reading:
        process = self._process()
        process.call("subscribe", group, topic)
        return _Reading(process)

    def committed(self, group: str, places: list[Place]) -> dict[Place, int]:
        found: dict[Place, int] = self._process().call("committed", group, places, seconds_max=30)
        return found

    def read_whole(self, places: list[Place]) -> Any:
        return self._process().call("read_whole", places, seconds_max=READ_SECONDS_MAX + 30)

    def close(self) -> None:
        for process in self._all:
            process.kill()

    def _process(self) -> ForeignProcess:
        process: ForeignProcess | None = getattr(self._own, "process", None)
        if process is None or process.is_gone:
            process = self._own.process = ForeignProcess(self._reach)
            self._all.append(process)
        return process


class _Writing:
    def __init__(self, process: ForeignProcess, transactional_id: str | None) -> None:
        self._process = process
        process.call("open_producer", transactional_id)

    def begin(self) -> None:
        self._process.call("begin")

    def append(self, place: Place, key: str | None, value: str, told: Told) -> None:
        self._process.append(place, key, value, told)

    def consume(self, ends: Mapping[Place, int], reading: Any) -> None:
        self._process.call("send_offsets", dict(ends), seconds_max=CALL_SECONDS_MAX + 10)

    def commit(self) -> None:
        self._process.call("commit")

    def abort(self) -> None:
        self._process.call("abort")

    def flush(self) -> None:
        self._process.call("flush", seconds_max=FLUSH_SECONDS_MAX)

    def close(self) -> None:
        self._process.call("close_producer", seconds_max=CALL_SECONDS_MAX)


class _Reading:
    def __init__(self, process: ForeignProcess) -> None:
        self._process = process

    def poll(self, seconds: float) -> list[Read]:
        reads: list[Read] = self._process.call("poll", seconds, seconds_max=CALL_SECONDS_MAX * 2)
        return reads

    def close(self) -> None:
        self._process.call("close_consumer", seconds_max=CALL_SECONDS_MAX * 2)
