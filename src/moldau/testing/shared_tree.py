"""One tree in memory that several sessions share: what ZooKeeper is to a cluster, in one process.

The simulation and the tests of the cluster run on it. A session can be cut off for a while or be
expired, as ZooKeeper does with a broker that it has not heard of for too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from moldau.metadata.single_writes import SingleWrites
from moldau.metadata.store import (
    Create,
    Delete,
    Node,
    Op,
    SessionState,
    StoreUnavailable,
)
from moldau.metadata.watch_registry import Watches, WatchHandle
from moldau.metadata.znode_tree import Planned, ZnodeTree

Session = TypeVar("Session", bound="TreeSession")
T = TypeVar("T")


class SharedTree:
    def __init__(self) -> None:
        self._tree = ZnodeTree()
        self._sessions: list[TreeSession] = []
        self._owners: dict[str, TreeSession] = {}
        """Of ephemeral nodes."""

    def session(self) -> TreeSession:
        return self.join(TreeSession(self))

    def join(self, session: Session) -> Session:
        """Let the session hear of changes."""
        self._sessions.append(session)
        return session

    def leave(self, session: TreeSession) -> None:
        self._sessions.remove(session)

    @property
    def tree(self) -> ZnodeTree:
        return self._tree

    def write(self, ops: Iterable[Op], writer: TreeSession | None) -> list[str | int | None]:
        listed = list(ops)
        planned = self._tree.plan(listed)
        self._tree.apply(planned.changes, self._tree.transaction + 1)
        for op, result in zip(listed, planned.results, strict=True):
            if isinstance(op, Create) and op.ephemeral and writer is not None:
                assert isinstance(result, str)
                self._owners[result] = writer
            elif isinstance(op, Delete):
                self._owners.pop(op.path, None)
        self._written(planned)
        return planned.results

    def _written(self, planned: Planned) -> None:
        for session in self._sessions:
            session.hear(planned.events)

    def end(self, session: TreeSession) -> None:
        """Take away what lives only as long as the session."""
        gone = [path for path, owner in self._owners.items() if owner is session]
        self.write([Delete(path) for path in gone], None)


class TreeSession(SingleWrites):
    """One broker's way to the tree; made by `SharedTree.session`."""

    def __init__(self, shared: SharedTree) -> None:
        self._shared = shared
        self._watches = Watches()
        self._listeners: list[Callable[[SessionState], None]] = []
        self._is_cut_off = False
        self._is_closed = False

    # What a test does to it

    def cut_off(self) -> None:
        """Calls fail from now on and no news arrive; the ephemeral nodes stay for the while."""
        if not self._is_cut_off:
            self._is_cut_off = True
            self._tell(SessionState.SUSPENDED)

    def expire(self) -> None:
        """The ephemeral nodes go now; the broker hears of it when it is connected again."""
        self.cut_off()
        self._shared.end(self)

    def reconnect(self, *, expired: bool) -> None:
        self._is_cut_off = False
        if expired:
            self._tell(SessionState.EXPIRED)
        self._tell(SessionState.CONNECTED)
        self._later(self._watches.tell_all)

    # What a broker does with it

    def on_session(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    async def exists(self, path: str) -> Node | None:
        return await self._read(lambda tree: tree.find(path))

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        return await self._read(lambda tree: [tree.find(path) for path in paths])

    async def children(self, path: str) -> list[str]:
        return await self._read(lambda tree: tree.children(path))

    async def multi(self, ops: Iterable[Op]) -> list[str | int | None]:
        self._must_reach()
        results = self._shared.write(ops, self)
        await asyncio.sleep(0)
        return results

    async def transaction(self) -> int:
        return await self._read(lambda tree: tree.transaction)

    def watch(self, path: str, listener: Callable[[str], None]) -> WatchHandle:
        return self._watches.add(path, listener)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._shared.end(self)

    def hear(self, events: Sequence[str]) -> None:
        if not self._is_cut_off and not self._is_closed:
            self._later(self._watches.tell, events)

    async def _read(self, read: Callable[[ZnodeTree], T]) -> T:
        """What the tree holds when the read is asked for: a session's calls take effect in the
        order they were started in, so a write that is started later must not be seen."""
        self._must_reach()
        found = read(self._shared.tree)
        await asyncio.sleep(0)
        # Cut off on the way: the answer is lost.
        self._must_reach()
        return found

    def _must_reach(self) -> None:
        if self._is_closed:
            raise StoreUnavailable("/", "the session is closed")
        if self._is_cut_off:
            raise StoreUnavailable("/", "the metadata store cannot be reached")

    def _tell(self, state: SessionState) -> None:
        for listener in tuple(self._listeners):
            self._later(listener, state)

    def _later(self, call: Callable[..., None], *of: object) -> None:
        asyncio.get_running_loop().call_soon(call, *of)
