"""ZooKeeper as one broker meets it: calls that take time, news in order, sessions that end.

Requests and answers of a session travel in order, over the simulated network's cuts. The ensemble
ends a session that it has not heard of for the session time-out; the broker learns of that when it
is heard again. A broker that hears nothing for two thirds of that time gives up its calls, whose
outcome nobody knows then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from moldau.metadata.shared_tree import SharedTree, TreeSession
from moldau.metadata.store import Node, NoNode, Op, SessionState, StoreError, StoreUnavailable
from tests.sim.network import Network
from tests.sim.world import SimLoop

ZOOKEEPER = "zookeeper"
BEAT_US = 250_000

T = TypeVar("T")


class Ensemble:
    def __init__(self, network: Network, session_timeout_ms: int) -> None:
        self.network = network
        self.world = network.world
        self.tree = SharedTree()
        self.timeout_us = session_timeout_ms * 1000
        self._sessions: list[SimSession] = []
        self.world.after(BEAT_US, self._beat)

    def session(self, loop: SimLoop) -> SimSession:
        session = self.tree.join(SimSession(self, loop))
        self._sessions.append(session)
        return session

    def session_of(self, loop: SimLoop) -> SimSession | None:
        return next((each for each in self._sessions if each.loop is loop), None)

    def over(self, session: SimSession) -> None:
        if session in self._sessions:
            self._sessions.remove(session)
            self.tree.leave(session)

    def _beat(self) -> None:
        self.world.after(BEAT_US, self._beat)
        for session in list(self._sessions):
            session.beat()


class SimSession(TreeSession):
    def __init__(self, ensemble: Ensemble, loop: SimLoop) -> None:
        super().__init__(ensemble.tree)
        self.loop = loop
        self._ensemble = ensemble
        self._world = ensemble.world
        self._chance = ensemble.world.chance(f"tree/{loop.name}/{ensemble.world.now_us}")
        self._heard_us = ensemble.world.now_us
        self._has_expired = False
        self._is_suspended = False
        self._has_lost = False
        """Something did not arrive: the connection is broken and has to be made anew."""
        self._number = 0
        """Of the connection: what belongs to an earlier one is lost."""
        self._calls: dict[asyncio.Future[Any], None] = {}
        self._there_us = 0
        self._back_us = 0

    # Time and faults

    @property
    def is_reachable(self) -> bool:
        cut = self._ensemble.network.is_cut(self.loop.name, ZOOKEEPER)
        return not (cut or self.loop.is_ended)

    def beat(self) -> None:
        now_us = self._world.now_us
        silent_us = now_us - self._heard_us
        if self.is_reachable and not self.loop.is_stopped:
            if self._has_lost:
                self._suspend()
            if not self._has_expired:
                self._heard_us = now_us
            self._come_back()
        elif silent_us > self._ensemble.timeout_us:
            self.end_session()
        elif silent_us > self._ensemble.timeout_us * 2 // 3 and not self._is_suspended:
            self._suspend()

    def end_session(self) -> None:
        """The ensemble gives it up."""
        if not self._has_expired:
            self._has_expired = True
            self._world.note(f"{self.loop.name} session expires")
            self._shared.end(self)
        if self.loop.is_ended:
            self._ensemble.over(self)
        else:
            self._suspend()

    def _suspend(self) -> None:
        if not self._is_suspended:
            self._is_suspended = True
            self._has_lost = False
            self._number += 1
            for call in list(self._calls):
                self.loop.call_soon(_refuse, call)
            self._calls.clear()
            self._tell(SessionState.SUSPENDED)

    def _come_back(self) -> None:
        if self._has_expired:
            self._suspend()
            self._has_expired = False
            self._heard_us = self._world.now_us
            self._tell(SessionState.EXPIRED)
        if self._is_suspended:
            self._is_suspended = False
            self._tell(SessionState.CONNECTED)
            self.loop.call_soon(self._watches.tell_all)

    # Calls

    async def exists(self, path: str) -> Node | None:
        return await self._ask(lambda: self._shared.tree.find(path))

    async def get(self, path: str) -> Node:
        node = await self.exists(path)
        if node is None:
            raise NoNode(path)
        return node

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        return await self._ask(lambda: [self._shared.tree.find(path) for path in paths])

    async def children(self, path: str) -> list[str]:
        return await self._ask(lambda: self._shared.tree.children(path))

    async def multi(self, ops: Iterable[Op]) -> list[str | int | None]:
        listed = list(ops)
        return await self._ask(lambda: self._shared.write(listed, self))

    async def transaction(self) -> int:
        return await self._ask(lambda: self._shared.tree.transaction)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._shared.end(self)
            self._ensemble.over(self)

    async def _ask(self, work: Callable[[], T]) -> T:
        if self._is_closed or self._is_suspended:
            raise StoreUnavailable("/", "the metadata store cannot be reached")
        answer: asyncio.Future[T] = self.loop.create_future()
        self._calls[answer] = None
        self._there_us = max(self._there_us, self._world.now_us + self._delay_us())
        self._world.after(
            self._there_us - self._world.now_us, self._arrive, self._number, work, answer
        )
        try:
            return await answer
        finally:
            self._calls.pop(answer, None)

    def _arrive(self, number: int, work: Callable[[], Any], answer: asyncio.Future[Any]) -> None:
        if number != self._number or self._has_expired or self._is_lost():
            return
        try:
            outcome: Any = work()
        except StoreError as refusal:
            outcome = refusal
        self._reply(_settle, answer, outcome)

    def hear(self, events: Sequence[str]) -> None:
        if events and not self._has_expired and not self._is_lost():
            self._reply(self._watches.tell, events)

    def _reply(self, call: Callable[..., None], *of: Any) -> None:
        self._back_us = max(self._back_us, self._world.now_us + self._delay_us())
        self._world.after(self._back_us - self._world.now_us, self._back, self._number, call, of)

    def _back(self, number: int, call: Callable[..., None], of: tuple[Any, ...]) -> None:
        if number == self._number and not self._is_lost():
            self.loop.call_soon(call, *of)

    def _is_lost(self) -> bool:
        if self._is_closed:
            return True
        if not self.is_reachable:
            self._has_lost = True
        return self._has_lost

    def _later(self, call: Callable[..., None], *of: object) -> None:
        self.loop.call_soon(call, *of)

    def _delay_us(self) -> int:
        return self._chance.randint(100, 3_000)


def _settle(answer: asyncio.Future[Any], outcome: Any) -> None:
    if answer.done():
        return
    if isinstance(outcome, StoreError):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def _refuse(answer: asyncio.Future[Any]) -> None:
    _settle(answer, StoreUnavailable("/", "the connection to the metadata store was lost"))
