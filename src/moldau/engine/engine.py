"""Runs one machine against one journal: decide, append, apply, wait for the commit, release.

`decide → append → apply` is one uninterrupted step on the loop; only the wait for the commit
overlaps with later commands. A reply leaves when everything appended before it is committed, also
that of a command without facts, so nobody sees a state that could be lost. Nothing applied is ever
undone: when the journal fails the engine stops, answers every token, and its owner loads anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, overload

from moldau.engine.machine import (
    NO_TOKEN,
    Command,
    Decision,
    Journal,
    JournalFault,
    Machine,
    Reply,
    Send,
    Timer,
    Token,
    Volatile,
)
from moldau.engine.timers import TimerHandle, Timers
from moldau.model.clock import Clock, Now
from moldau.model.errors import ApiError, Error

log = logging.getLogger(__name__)

TOKENS_MAX = 100_000
REFUSED_AGAIN_MS = 500
"""A timer's command that the journal refused is tried again after this."""

R = TypeVar("R")

Observer = Callable[[Sequence[object]], None]


class _Held(NamedTuple):
    """What leaves when the position is committed."""

    position: int
    facts: tuple[object, ...]
    replies: tuple[Reply, ...]
    sends: tuple[Send, ...]


class Engine:
    """`on_committed` sees each decision's facts, volatile ones unwrapped, right before its replies
    leave. `on_stopped` is called once if the engine stops by itself."""

    def __init__(
        self,
        name: str,
        machine: Machine,
        journal: Journal,
        *,
        clock: Clock,
        timers: Timers,
        on_committed: Observer | None = None,
        on_stopped: Callable[[ApiError], None] | None = None,
        send: Callable[[Send], None] | None = None,
        tokens_max: int = TOKENS_MAX,
        position: int = -1,
        room_bytes: Callable[[], int] | None = None,
    ) -> None:
        """`position` is that of the last fact which the machine has replayed: no reply leaves
        before the journal has committed it. `room_bytes` is asked before a command that grows."""
        self._name = name
        self._machine = machine
        self._journal = journal
        self._clock = clock
        self._timers = timers
        self._on_committed = on_committed
        self._on_stopped = on_stopped
        self._send = send
        self._tokens_max = tokens_max
        self._room_bytes = room_bytes
        self._last_token = NO_TOKEN
        self._waiting: dict[Token, asyncio.Future[Any]] = {}
        self._armed: dict[Hashable, TimerHandle] = {}
        self._held: deque[_Held] = deque()
        self._appended = position
        self._committed = -1
        self._is_deciding = False
        self._is_releasing = False
        self._stopped_with: ApiError | None = None
        journal.listen(self)

    @property
    def is_running(self) -> bool:
        return self._stopped_with is None

    @property
    def unfinished(self) -> int:
        """Commands whose answer waits for the journal."""
        return len(self._held)

    @overload
    def submit(self, command: Command[R]) -> asyncio.Future[R]: ...

    @overload
    def submit(self, command: object) -> asyncio.Future[Any]: ...

    def submit(self, command: object) -> asyncio.Future[Any]:
        """Run the command now; the future holds the outcome, often already when it is returned."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._stopped_with is not None:
            future.set_exception(_copy_of(self._stopped_with))
        elif len(self._waiting) >= self._tokens_max:
            text = f"{self._name} has {self._tokens_max} requests waiting, its limit"
            future.set_exception(ApiError(Error.REQUEST_TIMED_OUT, text))
        else:
            self._last_token += 1
            token = self._last_token
            self._waiting[token] = future
            self._run(command, token)
            if not future.done():
                future.add_done_callback(partial(self._ended, token))
        if future.done():
            seen(future)
        return future

    def tell(self, command: object) -> None:
        """Run a command that nobody waits for, however many others wait."""
        if self._stopped_with is None:
            self._run(command, NO_TOKEN)

    def _ended(self, token: Token, future: asyncio.Future[Any]) -> None:
        self._waiting.pop(token, None)
        seen(future)

    def stop(self, error: Error, message: str = "") -> None:
        """Drop everything and answer every token; later commands get the same answer."""
        if self._stopped_with is not None:
            return
        self._stopped_with = ApiError(error, message)
        for handle in self._armed.values():
            handle.cancel()
        self._armed.clear()
        self._held.clear()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(_copy_of(self._stopped_with))

    def committed(self, position: int) -> None:
        """Called by the journal."""
        assert position >= self._committed, f"{self._name}: commit went back to {position}"
        self._committed = position
        self._release_committed()

    def failed(self, fault: JournalFault) -> None:
        """Called by the journal."""
        self._stop_by_itself(fault.error, fault.message)

    def _run(self, command: object, token: Token) -> bool:
        """False if the journal took nothing, so that nothing has happened."""
        assert not self._is_deciding, f"{self._name}: {command} came between decide and apply"
        self._is_deciding = True
        try:
            now = Now(self._clock.wall_ms(), self._clock.monotonic_ms())
            if self._room_bytes is not None and getattr(command, "grows", False):
                now = now._replace(room_bytes=self._room_bytes())
            decision = self._machine.decide(command, token, now)
        except Exception:
            self._is_deciding = False
            log.exception("decide failed engine=%s command=%s", self._name, type(command).__name__)
            self._answer(Reply(token, ApiError(Error.UNKNOWN_SERVER_ERROR)))
            return True
        refusal: ApiError | None = None
        try:
            refusal = self._append(decision)
            if refusal is None:
                self._hold(decision, self._apply(decision))
        except Exception:
            # The state may be half changed: only a new load can be trusted.
            log.exception("apply failed engine=%s command=%s", self._name, type(command).__name__)
            self._stop_by_itself(Error.UNKNOWN_SERVER_ERROR, f"{self._name} has to be loaded anew")
        finally:
            self._is_deciding = False
        is_taken = refusal is None or self._refused(decision, token, refusal)
        self._release_committed()
        return is_taken

    def _refused(self, decision: Decision, token: Token, refusal: ApiError) -> bool:
        """Nothing of the decision has happened."""
        if decision.instead is None or self._stopped_with is not None:
            self._answer(Reply(token, refusal))
            return False
        return self._run(decision.instead(refusal), token)

    def _hold(self, decision: Decision, facts: tuple[object, ...]) -> None:
        if self._stopped_with is not None:
            return
        for timer in decision.timers:
            self._arm(timer)
        if facts or decision.replies or decision.sends:
            self._held.append(_Held(self._appended, facts, decision.replies, decision.sends))

    def _release_committed(self) -> None:
        # A journal may commit inside append, and an observer may submit a command: what leaves
        # waits for the step that is under way, so that answers keep their order.
        if self._is_deciding or self._is_releasing:
            return
        self._is_releasing = True
        try:
            while self._held and self._held[0].position <= self._committed:
                self._release(self._held.popleft())
        finally:
            self._is_releasing = False

    def _append(self, decision: Decision) -> ApiError | None:
        """Why the journal took none of the facts."""
        durable = [fact for fact in decision.facts if not isinstance(fact, Volatile)]
        if not durable:
            return None
        try:
            position = self._journal.append(durable)
        except JournalFault as fault:
            return ApiError(fault.error, fault.message)
        assert position > self._appended, f"{self._name}: {position} follows {self._appended}"
        self._appended = position
        return None

    def _apply(self, decision: Decision) -> tuple[object, ...]:
        """The facts that observers are told of."""
        observed = []
        for each in decision.facts:
            fact = each.fact if isinstance(each, Volatile) else each
            log.debug("applied engine=%s fact=%r", self._name, fact)
            self._machine.apply(fact)
            if not isinstance(each, Volatile) or each.is_observed:
                observed.append(fact)
        return tuple(observed)

    def _release(self, held: _Held) -> None:
        if held.facts and self._on_committed is not None:
            try:
                self._on_committed(held.facts)
            except Exception:
                # The facts are durable whatever the observer makes of them: answer.
                log.exception("observer failed engine=%s", self._name)
        for reply in held.replies:
            self._answer(reply)
        for send in held.sends:
            assert self._send is not None, f"{self._name} has nobody to send {send} with"
            self._send(send)

    def _answer(self, reply: Reply) -> None:
        future = self._waiting.pop(reply.token, None)
        if future is None or future.done():
            # A timer's commands have no token; a waiter may have given up.
            return
        if isinstance(reply.outcome, ApiError):
            future.set_exception(reply.outcome)
        else:
            future.set_result(reply.outcome)

    def _arm(self, timer: Timer) -> None:
        armed = self._armed.pop(timer.key, None)
        if armed is not None:
            armed.cancel()
        if timer.at is not None:
            delay_ms = max(0, timer.at - self._clock.monotonic_ms())
            self._armed[timer.key] = self._timers.after(delay_ms, lambda: self._fire(timer))

    def _fire(self, timer: Timer) -> None:
        if self._stopped_with is None:
            del self._armed[timer.key]
            if not self._run(timer.command, NO_TOKEN) and timer.key not in self._armed:
                # Nobody waits who could ask again: a member that is gone must not stay for ever.
                self._arm(timer._replace(at=self._clock.monotonic_ms() + REFUSED_AGAIN_MS))

    def _stop_by_itself(self, error: Error, message: str) -> None:
        if self._stopped_with is not None:
            return
        self.stop(error, message)
        if self._on_stopped is not None:
            self._on_stopped(ApiError(error, message))


def seen(future: asyncio.Future[Any]) -> None:
    """A refusal is an answer: one that comes after its asker has gone is no error to report."""
    if not future.cancelled():
        future.exception()


def _copy_of(error: ApiError) -> ApiError:
    """A fresh one for every waiter: a raised exception collects the traceback of its raiser."""
    return ApiError(error.error, error.message)
