"""Clients that append and read in transactions or alone, and write down what they were told.

Each runs in a thread until it is told to stop. After an error it begins anew with another session
of the same transactional id, as a program that was restarted would.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from tests.support.histories.libraries import FAULTS, Library, Reading, Told, Writing
from tests.support.histories.model import (
    Append,
    Consumed,
    Look,
    Operation,
    Outcome,
    Place,
    Read,
)

now = time.monotonic


class Notes:
    """Everything that all clients write down; lists grow from many threads."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.looks: list[Look] = []
        self.faults: Counter[str] = Counter()
        """What clients were told that was no success, for whoever wonders."""
        self.is_over = threading.Event()


class Client(threading.Thread):
    """One thread and its sessions; `identity` is its transactional id."""

    def __init__(self, notes: Notes, library: Library, name: str, draw: random.Random) -> None:
        super().__init__(name=f"{library.name} {name}", daemon=True)
        self.notes = notes
        self.library = library
        self.draw = random.Random(draw.random())
        self.identity = self.name.replace(" ", "-")
        self.process = self.name
        self.failure: BaseException | None = None
        self._sessions = itertools.count()
        self._numbers = itertools.count()

    def run(self) -> None:
        try:
            while not self.notes.is_over.is_set():
                self.process = f"{self.name}.{next(self._sessions)}"
                try:
                    self.session()
                except FAULTS as fault:
                    self.notes.faults[f"{self.name}: {fault}"] += 1
                    self.notes.is_over.wait(0.2)
        except BaseException as failure:  # the test shows it
            self.failure = failure

    def session(self) -> None:
        raise NotImplementedError

    def value(self) -> str:
        return f"{self.process}:{next(self._numbers)}"


class PlainWriter(Client):
    """Idempotent, acknowledged by all in-sync replicas, outside transactions."""

    def __init__(
        self,
        notes: Notes,
        library: Library,
        draw: random.Random,
        places: Sequence[Place],
        keys: int = 0,
        pause_s: float = 0.01,
    ) -> None:
        super().__init__(notes, library, f"plain-{places[0][0]}", draw)
        self._places, self._keys, self._pause_s = places, keys, pause_s

    def session(self) -> None:
        writing = self.library.writing(None)
        try:
            while not self.notes.is_over.wait(self._pause_s):
                key = f"k{self.draw.randrange(self._keys)}" if self._keys else None
                append = Append(self.draw.choice(self._places), self.value(), key=key)
                operation = Operation(self.process, Outcome.UNKNOWN, now(), now(), appends=[append])
                self.notes.operations.append(operation)
                told = _teller(self.notes, operation, 0, is_end=True)
                writing.append(append.place, key, append.value, told)
            writing.flush()
        finally:
            writing.close()


def _teller(notes: Notes, operation: Operation, number: int, is_end: bool) -> Told:
    def told(offset: int | None, fault: str) -> None:
        if offset is None:
            notes.faults[f"{operation.process}: {fault}"] += 1
            return
        where = None if offset < 0 else offset
        operation.appends[number] = operation.appends[number]._replace(offset=where)
        if is_end:
            operation.outcome, operation.completed = Outcome.OK, now()

    return told


class Transactions(Client):
    """What all clients share that write in transactions."""

    def one(self, writing: Writing, operation: Operation, body: Callable[[], bool]) -> bool:
        """One transaction; whether the session can go on. `body` says whether to commit."""
        self.notes.operations.append(operation)
        try:
            writing.begin()
            if body():
                operation.ending = now()
                operation.outcome = Outcome.UNKNOWN
                writing.commit()
                operation.outcome = Outcome.OK
            else:
                writing.abort()
        except FAULTS as fault:
            self.notes.faults[f"{self.name}: {fault}"] += 1
            # Whether a commit that was asked for has happened, nobody knows; the next session of
            # this transactional id ends it in any case.
            return False
        finally:
            operation.completed = now()
        return True

    def begun(self) -> Operation:
        return Operation(self.process, Outcome.FAIL, now(), now(), self.identity)

    def append(self, writing: Writing, operation: Operation, append: Append) -> None:
        operation.appends.append(append)
        told = _teller(self.notes, operation, len(operation.appends) - 1, is_end=False)
        writing.append(append.place, append.key, append.value, told)


class ListAppender(Transactions):
    """Reads some partitions and appends to some, in one transaction; aborts now and then."""

    def __init__(
        self,
        notes: Notes,
        library: Library,
        name: str,
        draw: random.Random,
        places: Sequence[Place],
        keys: int = 0,
    ) -> None:
        super().__init__(notes, library, name, draw)
        self._places, self._keys = places, keys

    def session(self) -> None:
        writing = self.library.writing(self.identity)
        reading = None
        try:
            reading = self.library.reading(self._places)
            while not self.notes.is_over.is_set() and self._step(writing, reading):
                pass
        finally:
            writing.close()
            if reading is not None:
                with contextlib.suppress(*FAULTS):
                    reading.close()

    def _step(self, writing: Writing, reading: Reading) -> bool:
        operation = self.begun()
        is_walking_out = self.draw.random() < 0.03

        def body() -> bool:
            operation.reads += reading.poll(0.02)
            for _ in range(self.draw.randint(1, 4)):
                key = f"k{self.draw.randrange(self._keys)}" if self._keys else None
                append = Append(self.draw.choice(self._places), self.value(), key=key)
                self.append(writing, operation, append)
            operation.reads += reading.poll(0.0)
            return self.draw.random() < 0.85

        if is_walking_out:
            # Leaves it open: the next session of the id must fence and abort it.
            self.notes.operations.append(operation)
            writing.begin()
            try:
                body()
            finally:
                # What it has read was read before this, not before it began.
                operation.completed = now()
            return False
        return self.one(writing, operation, body)


class Processor(Transactions):
    """Reads one topic in a group, writes one record for each to another, commits both at once."""

    def __init__(
        self,
        notes: Notes,
        library: Library,
        name: str,
        draw: random.Random,
        group: str,
        topic: str,
        outputs: Sequence[Place],
    ) -> None:
        super().__init__(notes, library, name, draw)
        self._group, self._topic, self._outputs = group, topic, outputs

    def session(self) -> None:
        writing = self.library.writing(self.identity)
        reading = None
        try:
            reading = self.library.member(self._group, self._topic)
            while not self.notes.is_over.is_set():
                reads = reading.poll(0.2)
                if reads and not self._process(writing, reading, reads):
                    return
        finally:
            writing.close()
            if reading is not None:
                with contextlib.suppress(*FAULTS):
                    reading.close()

    def _process(self, writing: Writing, reading: Reading, reads: list[Read]) -> bool:
        operation = self.begun()
        operation.reads += [_as_given(read) for read in reads]

        def body() -> bool:
            for read in reads:
                for offset, value in read.records:
                    source = read.place, offset
                    made = f"{value}>{self.value()}"
                    place = self.draw.choice(self._outputs)
                    self.append(writing, operation, Append(place, made, source=source))
            ends = {read.place: read.end for read in reads}
            operation.consumed += [Consumed(self._group, *each) for each in ends.items()]
            writing.consume(ends, reading)
            return self.draw.random() < 0.95

        is_done = self.one(writing, operation, body)
        return is_done and operation.outcome is Outcome.OK


def _as_given(read: Read) -> Read:
    """A member of a group may be moved between two polls: only what it was given counts."""
    return read._replace(start=read.records[0][0])


class Reader(Client):
    """Follows partitions from their beginning and reads committed records."""

    def __init__(
        self, notes: Notes, library: Library, draw: random.Random, places: Sequence[Place]
    ) -> None:
        super().__init__(notes, library, f"reader-{places[0][0]}", draw)
        self._places = places

    def session(self) -> None:
        reading = self.library.reading(self._places)
        try:
            while not self.notes.is_over.is_set():
                begun = now()
                if reads := reading.poll(0.2):
                    operation = Operation(self.process, Outcome.OK, begun, now(), reads=reads)
                    self.notes.operations.append(operation)
        finally:
            with contextlib.suppress(*FAULTS):
                reading.close()
