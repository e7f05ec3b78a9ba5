"""ZooKeeper as one broker meets it: servers that lag, calls that take time, news in order,
sessions that end.

There are three servers. A write is decided by the leader and reaches each server after a while of
its own, in the order of the writes; a session is with one of them and reads what that one has. So
a read may be older than another broker's write that is done, never older than what the session has
seen before. A session's requests are served one after the other: who writes and then reads sees
the write. News of a change come before the answer to any read that sees it. A watch fires once: it
is set again when its news have arrived, by a request that goes ahead of the reads of whoever is
told, and of what changes until then no news come.

Requests and answers of a session travel in order, over the simulated network's cuts. The ensemble
ends a session that it has not heard of for the session time-out; the broker learns of that when it
is heard again. A broker that hears nothing for two thirds of that time gives up its calls, whose
outcome nobody knows then: a write that was on its way may still be done. While the ensemble elects
a leader nobody is connected, and no session ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from moldau.metadata.store import Node, NoNode, Op, SessionState, StoreError, StoreUnavailable
from moldau.metadata.watch_registry import WatchHandle
from moldau.metadata.znode_tree import Change, Planned, ZnodeTree
from moldau.testing.shared_tree import SharedTree, TreeSession
from tests.sim.network import Network
from tests.sim.world import SimLoop, World

ZOOKEEPER = "zookeeper"
BEAT_US = 250_000
SERVERS = 3


class Entry(NamedTuple):
    """One write, as the servers repeat it."""

    changes: Sequence[Change]
    transaction: int
    events: Sequence[str]


class Server:
    """One of the ensemble: has the writes up to a point."""

    def __init__(self, entries: list[Entry]) -> None:
        self.tree = ZnodeTree()
        self.applied = 0
        self.sessions: list[SimSession] = []
        self._entries = entries

    def catch_up(self, count: int) -> None:
        while self.applied < count:
            entry = self._entries[self.applied]
            self.applied += 1
            self.tree.apply(entry.changes, entry.transaction)
            for session in self.sessions:
                session.hear(entry.events)
        for session in self.sessions:
            session.go_on()


class Quorum(SharedTree):
    """The tree of the leader, and the servers behind it."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.lag_us = (50, 500)
        self.entries: list[Entry] = []
        self.servers = [Server(self.entries) for _ in range(SERVERS)]
        self._chance = world.chance("quorum")

    def _written(self, planned: Planned) -> None:
        self.entries.append(Entry(planned.changes, self.tree.transaction, planned.events))
        for server in self.servers:
            lag_us = self._chance.randint(*self.lag_us)
            self.world.after(lag_us, server.catch_up, len(self.entries))


class Ensemble:
    def __init__(self, network: Network, session_timeout_ms: int) -> None:
        self.network = network
        self.world = network.world
        self.tree = Quorum(self.world)
        self.timeout_us = session_timeout_ms * 1000
        self._sessions: list[SimSession] = []
        self.is_electing = False
        """The servers have no leader: they serve nobody, and end no session."""
        self.world.after(BEAT_US, self._beat)

    def session(self, loop: SimLoop) -> SimSession:
        session = SimSession(self, loop)
        self._sessions.append(session)
        return session

    def session_of(self, loop: SimLoop) -> SimSession | None:
        return next((each for each in self._sessions if each.loop is loop), None)

    def over(self, session: SimSession) -> None:
        if session in self._sessions:
            self._sessions.remove(session)
            session.server.sessions.remove(session)

    def elect(self, delay_us: int) -> None:
        """The leader is lost: all connections break, until there is another one."""
        if self.is_electing:
            return
        self.world.note(f"{ZOOKEEPER} elects a leader")
        self.is_electing = True
        for session in self._sessions:
            session.break_connection()
        self.world.after(delay_us, self._elected)

    def _elected(self) -> None:
        """A new leader gives every session its whole time-out again."""
        self.is_electing = False
        for session in self._sessions:
            session.is_heard()

    def _beat(self) -> None:
        self.world.after(BEAT_US, self._beat)
        for session in list(self._sessions):
            session.beat()


class Call(NamedTuple):
    """A request that has arrived at the session's server."""

    number: int
    read: Callable[[ZnodeTree], Any] | None
    ops: Sequence[Op]
    answer: asyncio.Future[Any]


class SimSession(TreeSession):
    def __init__(self, ensemble: Ensemble, loop: SimLoop) -> None:
        super().__init__(ensemble.tree)
        self.loop = loop
        self._ensemble = ensemble
        self._quorum = ensemble.tree
        self._world = ensemble.world
        self._chance = ensemble.world.chance(f"tree/{loop.name}/{ensemble.world.now_us}")
        self.server = self._chance.choice(self._quorum.servers)
        self.server.sessions.append(self)
        self._waiting: deque[Call] = deque()
        self._is_writing = False
        self._reached: tuple[int, Call, Any] | None = None
        """A write that the leader has done, and that the session's server has yet to do."""
        self._heard_us = ensemble.world.now_us
        self._has_expired = False
        self._is_suspended = False
        self._has_lost = False
        """Something did not arrive: the connection is broken and has to be made anew."""
        self._number = 0
        """Of the connection: what belongs to an earlier one is lost."""
        self._unset: set[str] = set()
        """Watched paths whose watch is not set at the server, or no longer."""
        self._calls: dict[asyncio.Future[Any], None] = {}
        self._there_us = 0
        self._back_us = 0

    # Time and faults

    @property
    def is_reachable(self) -> bool:
        cut = self._ensemble.network.is_cut(self.loop.name, ZOOKEEPER)
        return not (cut or self.loop.is_ended or self._ensemble.is_electing)

    def beat(self) -> None:
        now_us = self._world.now_us
        silent_us = now_us - self._heard_us
        if self.is_reachable and not self.loop.is_stopped:
            if self._has_lost:
                self._suspend()
            if not self._has_expired:
                self._heard_us = now_us
            self._come_back()
        elif self._ensemble.is_electing:
            return
        elif silent_us > self._ensemble.timeout_us:
            self.end_session()
        elif silent_us > self._ensemble.timeout_us * 2 // 3 and not self._is_suspended:
            self._suspend()

    def break_connection(self) -> None:
        """By the server's side. Whoever is cut off hears nothing of it."""
        if not (self._ensemble.network.is_cut(self.loop.name, ZOOKEEPER) or self.loop.is_ended):
            self._suspend()

    def is_heard(self) -> None:
        self._heard_us = self._world.now_us

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
            self._connect()
            self._tell(SessionState.CONNECTED)
            self.loop.call_soon(self._watches.tell_all)

    def _connect(self) -> None:
        """With any server, but only one that has all that this session has seen. What an earlier
        connection has left is not done any more."""
        seen = self.server.applied
        self.server.sessions.remove(self)
        self._waiting.clear()
        self._is_writing, self._reached = False, None
        self.server = self._chance.choice(self._quorum.servers)
        self.server.catch_up(max(seen, self.server.applied))
        self.server.sessions.append(self)
        for path in self._watches.paths():
            self._set_watch(path)

    # Calls

    async def exists(self, path: str) -> Node | None:
        found: Node | None = await self._start(partial(_find, path))
        return found

    async def get(self, path: str) -> Node:
        node = await self.exists(path)
        if node is None:
            raise NoNode(path)
        return node

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        # Each is a request of its own: others' writes may come between them.
        reads = [self._start(partial(_find, path)) for path in paths]
        return [await read for read in reads]

    async def children(self, path: str) -> list[str]:
        names: list[str] = await self._start(lambda tree: tree.children(path))
        return names

    async def multi(self, ops: Iterable[Op]) -> list[str | int | None]:
        results: list[str | int | None] = await self._start(None, list(ops))
        return results

    async def transaction(self) -> int:
        number: int = await self._start(lambda tree: tree.transaction)
        return number

    def watch(self, path: str, listener: Callable[[str], None]) -> WatchHandle:
        handle = super().watch(path, listener)
        self._set_watch(path)
        return handle

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._shared.end(self)
            self._ensemble.over(self)

    def _set_watch(self, path: str) -> None:
        """A request like others: those that are started later are served later."""
        self._unset.add(path)
        answer = self._start(lambda _: self._unset.discard(path))
        # One that is not answered is set anew with the next connection.
        answer.add_done_callback(self._answered)

    def _start(
        self, read: Callable[[ZnodeTree], Any] | None, ops: Sequence[Op] = ()
    ) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = self.loop.create_future()
        if self._is_closed or self._is_suspended:
            fault = StoreUnavailable("/", "the metadata store cannot be reached")
            answer.set_exception(fault)
            return answer
        self._calls[answer] = None
        answer.add_done_callback(self._answered)
        self._there_us = max(self._there_us, self._world.now_us + self._delay_us())
        call = Call(self._number, read, ops, answer)
        self._world.after(self._there_us - self._world.now_us, self._arrive, call)
        return answer

    def _answered(self, answer: asyncio.Future[Any]) -> None:
        self._calls.pop(answer, None)
        if not answer.cancelled():
            # Of many reads that fail together only the first is looked at by who asked.
            answer.exception()

    # At the session's server

    def _arrive(self, call: Call) -> None:
        if call.number == self._number and not self._has_expired and not self._is_lost():
            self._waiting.append(call)
            self.go_on()

    def go_on(self) -> None:
        """Serve what can be served now."""
        if self._reached is not None and self.server.applied >= self._reached[0]:
            _, call, outcome = self._reached
            self._is_writing, self._reached = False, None
            self._settle_call(call, outcome)
        while self._waiting and not self._is_writing:
            call = self._waiting.popleft()
            if call.read is None:
                self._is_writing = True
                self._world.after(self._delay_us() // 4, self._lead, call)
            else:
                self._settle_call(call, _outcome_of(partial(call.read, self.server.tree)))

    def _lead(self, call: Call) -> None:
        """A write has come to the leader. If the connection is gone it is done all the same, until
        the session is with another server."""
        is_moved = call.number != self._number and not self._is_suspended
        has_no_leader = self._ensemble.is_electing
        if is_moved or has_no_leader or self._has_expired or self._is_closed:
            return
        outcome = _outcome_of(lambda: self._shared.write(call.ops, self))
        self._reached = len(self._quorum.entries), call, outcome
        self.go_on()

    def _settle_call(self, call: Call, outcome: Any) -> None:
        if call.number == self._number and not self._has_expired and not self._is_lost():
            self._reply(_settle, call.answer, outcome)

    def hear(self, events: Sequence[str]) -> None:
        if self._has_expired or not events:
            return
        watched = set(self._watches.paths())
        fired = [path for path in events if path in watched and path not in self._unset]
        if fired and not self._is_lost():
            self._unset.update(fired)
            self._reply(self._fired, fired)

    def _fired(self, paths: Sequence[str]) -> None:
        watched = set(self._watches.paths())
        for path in dict.fromkeys(paths):
            if path in watched:
                self._set_watch(path)
        self._watches.tell(paths)

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


def _find(path: str, tree: ZnodeTree) -> Node | None:
    return tree.find(path)


def _outcome_of(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except StoreError as refusal:
        return refusal


def _settle(answer: asyncio.Future[Any], outcome: Any) -> None:
    if answer.done():
        return
    if isinstance(outcome, StoreError):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def _refuse(answer: asyncio.Future[Any]) -> None:
    _settle(answer, StoreUnavailable("/", "the connection to the metadata store was lost"))
