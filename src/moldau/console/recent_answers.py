"""Answers of the cluster that are kept for some seconds.

A page shows what is there at once, however old, and has it fetched anew behind its back; only
somebody who asks first waits. One question is under way once, however many pages ask it. The
number of answers is bounded, and so is what those of all users hold together (`AnswerRoom`); the
one that nobody has asked for longest goes first.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from moldau.client.shared.client_errors import KafkaError
from moldau.console.answer_room import ROOM, AnswerRoom

T = TypeVar("T")
ANSWERS_MAX = 200
FIRST_WAIT_S = 30.0


class When(NamedTuple):
    """How many seconds ago an answer came, and why the last try brought none."""

    age_s: float
    fault: str


@dataclass(slots=True)
class Told(Generic[T]):
    value: T
    when: When
    """What pages say about it, with `age` of parts.html."""


@dataclass(slots=True, eq=False)
class _Entry:
    task: asyncio.Task[Told[Any] | None] | None = None
    value: Any = None
    has_value: bool = False
    came_at: float = 0.0
    fault: KafkaError | None = None
    failed_at: float = 0.0

    def let_go(self) -> None:
        """Whoever asks next waits for a new answer."""
        self.value, self.has_value = None, False


class RecentAnswers:
    def __init__(self, room: AnswerRoom = ROOM) -> None:
        self._room = room
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()

    async def get(
        self, key: Hashable, fetch: Callable[[], Awaitable[T]], *, fresh_s: float = 5.0
    ) -> Told[T]:
        """The answer to `key`; waits only for the first. Raises what `fetch` raised for it."""
        entry = self._entry(key, fetch, fresh_s)
        if not entry.has_value and entry.task is not None:
            # Whoever asked may go away; the others still want the answer.
            task = entry.task
            await asyncio.wait((task,), timeout=FIRST_WAIT_S)
            # By now the answer may have had to make room for others' already.
            if task.done() and not task.cancelled() and (told := task.result()) is not None:
                return told
        if entry.has_value:
            self._room.used(entry)
            return _told(entry)
        if entry.fault is not None:
            raise entry.fault
        raise_late = f"The cluster has not answered within {FIRST_WAIT_S:.0f} s."
        raise KafkaError(raise_late)

    def peek(
        self, key: Hashable, fetch: Callable[[], Awaitable[T]], *, fresh_s: float = 5.0
    ) -> Told[T] | None:
        """The answer if there is one, without waiting; it is fetched meanwhile."""
        entry = self._entry(key, fetch, fresh_s)
        if not entry.has_value:
            return None
        self._room.used(entry)
        return _told(entry)

    def forget(self) -> None:
        """Something was changed: the next page waits for new answers."""
        for entry in self._entries.values():
            self._room.leave(entry)
            entry.fault = None
            if entry.task is not None:
                entry.task.cancel()
                entry.task = None

    async def close(self) -> None:
        tasks = [entry.task for entry in self._entries.values() if entry.task is not None]
        for entry in self._entries.values():
            entry.task = None
            self._room.leave(entry)
        self._entries.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)

    def _entry(self, key: Hashable, fetch: Callable[[], Awaitable[Any]], fresh_s: float) -> _Entry:
        entry = self._entries.setdefault(key, _Entry())
        self._entries.move_to_end(key)
        while len(self._entries) > ANSWERS_MAX:
            _, oldest = self._entries.popitem(last=False)
            self._room.leave(oldest)
            if oldest.task is not None:
                oldest.task.cancel()
        now = time.monotonic()
        is_fresh = entry.has_value and now - entry.came_at < fresh_s
        has_just_failed = entry.fault is not None and now - entry.failed_at < min(fresh_s, 2.0)
        if entry.task is None and not is_fresh and not has_just_failed:
            entry.task = asyncio.create_task(self._fetch(entry, fetch))
        return entry

    async def _fetch(self, entry: _Entry, fetch: Callable[[], Awaitable[Any]]) -> Told[Any] | None:
        own = asyncio.current_task()
        try:
            value = await fetch()
        except KafkaError as fault:
            if entry.task is own:
                entry.fault, entry.failed_at, entry.task = fault, time.monotonic(), None
            return None
        if entry.task is not own:
            return None
        entry.value, entry.has_value, entry.fault = value, True, None
        entry.came_at, entry.task = time.monotonic(), None
        self._room.enter(entry, value)
        return Told(value, When(0.0, ""))


def _told(entry: _Entry) -> Told[Any]:
    fault = "" if entry.fault is None else entry.fault.message
    return Told(entry.value, When(time.monotonic() - entry.came_at, fault))
