"""A durable store for a single node: the tree in memory, its changes in a file beside the logs.

Writes take effect in the tree at once and are answered when they are on disk; those that arrive
while a sync runs share the next one. Reads wait for the writes before them, so nobody sees what a
crash could take back. When the disk fails, everybody waiting is told, and the next call starts
from what the file really holds. Without a path it keeps nothing: that form is for tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import Enum, auto
from functools import partial

from moldau.metadata.journal_file import FILE_HEADER, JournalFile, encode_frame
from moldau.metadata.single_writes import SingleWrites
from moldau.metadata.store import (
    Delete,
    Node,
    Op,
    StoreUnavailable,
)
from moldau.metadata.watch_registry import Watches, WatchHandle
from moldau.metadata.znode_tree import Change, Planned, ZnodeTree

FILE_NAME = "moldau.metadata"
COMPACT_FROM_BYTES = 1 << 20
"""Below this a rewrite saves nothing worth a sync."""
UNSYNCED_CHANGES_MAX = 1_000_000
OPS_PER_TURN = 1_000
"""A write of more is planned so many at a time: a topic of ten thousand partitions has thirty
thousand."""

Offload = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs a function that may block on the disk, off the loop."""


async def on_a_thread(work: Callable[[], None]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, work)


class _State(Enum):
    CLOSED = auto()
    OPEN = auto()
    FAILED = auto()
    """The disk refused a write: the file, not the tree, says what was kept."""


class EmbeddedStore(SingleWrites):
    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, offload: Offload = on_a_thread
    ) -> None:
        self._tree = ZnodeTree()
        self._file = None if path is None else JournalFile(os.fspath(path))
        self._state = _State.OPEN if path is None else _State.CLOSED
        self._offload = offload
        self._watches = Watches()
        self._unsynced: list[Change] = []
        self._turn = asyncio.Lock()
        self._writes_in_turn = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._syncing: asyncio.Task[None] | None = None
        self._compact_at_bytes = COMPACT_FROM_BYTES

    def open(self) -> None:
        """Read the file. Blocks: called before the loop has anything else to do."""
        if self._file is None:
            return
        tree = ZnodeTree()
        frames = self._file.open()
        changes = 0
        for frame in frames:
            tree.apply(frame.changes, frame.transaction)
            changes += len(frame.changes)
        self._tree = tree
        if self._file.size_bytes > COMPACT_FROM_BYTES and changes > 2 * len(tree):
            # It only saves room: where there is none for it, the file serves as it is.
            with contextlib.suppress(OSError):
                self._file.rewrite(encode_frame(tree.transaction, tree.snapshot()))
        self._compact_at_bytes = max(COMPACT_FROM_BYTES, 4 * self._file.size_bytes)
        self._state = _State.OPEN

    async def exists(self, path: str) -> Node | None:
        await self._everything_synced()
        return self._tree.find(path)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        await self._everything_synced()
        return [self._tree.find(path) for path in paths]

    async def children(self, path: str) -> list[str]:
        await self._everything_synced()
        return self._tree.children(path)

    async def multi(self, ops: Iterable[Op]) -> list[str | int | None]:
        self._must_be_open()
        wanted = list(ops)
        if len(wanted) > OPS_PER_TURN or self._writes_in_turn:
            planned = await self._plan_and_take(wanted)
        else:
            planned = self._tree.plan(wanted)
            self._take(planned)
        await self._everything_synced()
        self._watches.tell(planned.events)
        return planned.results

    async def _plan_and_take(self, ops: list[Op]) -> Planned:
        """Nobody else may write while this is planned: the next one waits, in order."""
        self._writes_in_turn += 1
        try:
            async with self._turn:
                planned = await self._plan_in_turns(ops)
                self._take(planned)
                return planned
        finally:
            self._writes_in_turn -= 1

    async def _plan_in_turns(self, ops: list[Op]) -> Planned:
        while True:
            self._must_be_open()
            tree = self._tree
            for planned in tree.plan_in_parts(ops, OPS_PER_TURN):
                if planned is not None:
                    return planned
                await asyncio.sleep(0)
                if self._tree is not tree or self._state is not _State.OPEN:
                    break  # the disk failed: from the beginning, on what it holds

    def _take(self, planned: Planned) -> None:
        durable = [change for change in planned.changes if not change.ephemeral]
        if len(self._unsynced) + len(durable) > UNSYNCED_CHANGES_MAX:
            raise StoreUnavailable("/", f"more than {UNSYNCED_CHANGES_MAX} changes wait for disk")
        self._tree.apply(planned.changes, self._tree.transaction + 1)
        if self._file is not None:
            self._unsynced += durable

    async def transaction(self) -> int:
        await self._everything_synced()
        return self._tree.transaction

    def frozen(self) -> Callable[[], bytes]:
        """What the tree holds at this moment, as what makes a file of it: that may be called in a
        thread. Writes that are not durable yet are in it."""
        self._must_be_open()
        transaction, nodes = self._tree.transaction, self._tree.snapshot()
        return lambda: FILE_HEADER + encode_frame(transaction, nodes)

    def watch(self, path: str, listener: Callable[[str], None]) -> WatchHandle:
        return self._watches.add(path, listener)

    async def close(self) -> None:
        if self._state is not _State.OPEN:
            return
        gone = self._tree.ephemerals()
        planned = self._tree.plan(Delete(path) for path in gone)
        self._tree.apply(planned.changes, self._tree.transaction + 1)
        await self._everything_synced()
        self._watches.tell(planned.events)
        if self._file is not None:
            self._file.close()
            self._state = _State.CLOSED

    def _must_be_open(self) -> None:
        if self._state is _State.OPEN:
            return
        if self._state is _State.CLOSED:
            raise StoreUnavailable("/", "the metadata store is closed")
        self._start_again()

    def _start_again(self) -> None:
        assert self._file is not None
        ephemeral = [put for put in map(self._tree.put_of, self._tree.ephemerals()) if put]
        self._file.close()
        self.open()
        # Before anything else can fail: the sessions behind these nodes go on.
        self._tree.apply(ephemeral, self._tree.transaction)
        try:
            # Written anew: what a failed sync left in the page cache may not be on the disk.
            self._file.rewrite(encode_frame(self._tree.transaction, self._tree.snapshot()))
        except OSError as fault:
            self._state = _State.FAILED
            raise StoreUnavailable(self._file.path, f"cannot be written: {fault}") from fault

    async def _everything_synced(self) -> None:
        self._must_be_open()
        if not self._unsynced and self._syncing is None:
            return
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        if self._syncing is None:
            self._syncing = asyncio.get_running_loop().create_task(self._sync())
        await done

    async def _sync(self) -> None:
        """Runs until nothing waits: what comes in while the disk works shares the next frame."""
        assert self._file is not None
        while self._waiting:
            changes, self._unsynced = self._unsynced, []
            waiting, self._waiting = self._waiting, []
            if changes:
                try:
                    await self._offload(self._work(self._file, changes))
                except (OSError, RuntimeError) as fault:
                    self._fail(waiting, fault)
                    break
            for done in waiting:
                if not done.done():
                    done.set_result(None)
        self._syncing = None

    def _work(self, file: JournalFile, changes: list[Change]) -> Callable[[], None]:
        if file.size_bytes > self._compact_at_bytes:
            nodes = self._tree.snapshot()
            return partial(self._rewrite, file, self._tree.transaction, nodes)
        transaction = self._tree.transaction
        return lambda: file.append(encode_frame(transaction, changes))

    def _rewrite(self, file: JournalFile, transaction: int, nodes: list[Change]) -> None:
        """Beside the loop, while nothing else is written."""
        whole = encode_frame(transaction, nodes)
        self._compact_at_bytes = max(COMPACT_FROM_BYTES, 4 * len(whole))
        file.rewrite(whole)

    def _fail(self, waiting: list[asyncio.Future[None]], fault: OSError | RuntimeError) -> None:
        self._state = _State.FAILED
        waiting += self._waiting
        self._waiting = []
        self._unsynced = []
        assert self._file is not None
        for done in waiting:
            if not done.done():
                done.set_exception(StoreUnavailable(self._file.path, f"cannot be written: {fault}"))
