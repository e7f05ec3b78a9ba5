"""The tree of nodes in memory: ZooKeeper's rules for versions, children and multi-writes.

Pure. The embedded store keeps one, journals what `plan` resolved and rebuilds the tree by applying
the same changes again, so the rules are checked once and replay cannot fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from moldau.metadata.store import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    StoreError,
    Write,
)


class Put(NamedTuple):
    """A node as it is after a change; `children_made` numbers sequential children."""

    path: str
    data: bytes
    version: int
    created_by: int
    children_made: int = 0
    ephemeral: bool = False


class Removed(NamedTuple):
    path: str
    ephemeral: bool = False


Change = Put | Removed


class Planned(NamedTuple):
    changes: list[Change]
    results: list[str | int | None]
    events: list[str]
    """Nodes that are new, gone or written, and those whose children came or went."""


class ZnodeTree:
    __slots__ = ("_children", "_nodes", "transaction")

    def __init__(self) -> None:
        self._nodes: dict[str, Put] = {"/": Put("/", b"", 0, 0)}
        self._children: dict[str, set[str]] = {"/": set()}
        self.transaction = 0
        """The number of the last transaction applied (ZooKeeper's zxid)."""

    def __len__(self) -> int:
        return len(self._nodes)

    def find(self, path: str) -> Node | None:
        put = self._nodes.get(path)
        return None if put is None else Node(put.data, put.version, put.created_by)

    def children(self, path: str) -> list[str]:
        if path not in self._nodes:
            raise NoNode(path)
        return sorted(self._children.get(path, ()))

    def plan(self, ops: Iterable[Op]) -> Planned:
        """What the ops would change, all of them; raises the refusal of the first that may not."""
        return next(self.plan_in_parts(ops, 0))  # type: ignore[return-value]

    def plan_in_parts(self, ops: Iterable[Op], part: int) -> Iterator[Planned | None]:
        """As `plan`, a part of so many ops at a time: None until the last. The tree may not change
        meanwhile. 0 makes one part of all."""
        plan = _Plan(self)
        results = []
        for count, op in enumerate(ops, 1):
            results.append(plan.result(op))
            if part and not count % part:
                yield None
        yield plan.planned(results)

    def apply(self, changes: Iterable[Change], transaction: int) -> None:
        for change in changes:
            if isinstance(change, Put):
                self._put(change)
            else:
                self._remove(change.path)
        self.transaction = transaction

    def snapshot(self) -> list[Change]:
        """Every durable node, parents first."""
        return [self._nodes[p] for p in sorted(self._nodes) if not self._nodes[p].ephemeral]

    def ephemerals(self) -> list[str]:
        return [path for path, put in self._nodes.items() if put.ephemeral]

    def put_of(self, path: str) -> Put | None:
        return self._nodes.get(path)

    def child_count(self, path: str) -> int:
        return len(self._children.get(path, ()))

    def _put(self, put: Put) -> None:
        path = put.path
        if path not in self._nodes and path != "/":
            parent, _, name = path.rpartition("/")
            self._children.setdefault(parent or "/", set()).add(name)
        self._nodes[path] = put

    def _remove(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        siblings = self._children.get(parent or "/")
        if siblings is not None:
            siblings.discard(name)
        self._children.pop(path, None)
        del self._nodes[path]


class _Plan:
    """One multi-write in the making: later ops see what earlier ones did."""

    def __init__(self, tree: ZnodeTree) -> None:
        self._tree = tree
        self._transaction = tree.transaction + 1
        self._touched: dict[str, Put | None] = {}
        self._child_counts: dict[str, int] = {}
        self._events: dict[str, None] = {}

    def planned(self, results: list[str | int | None]) -> Planned:
        changes = (self._change(path, put) for path, put in self._touched.items())
        kept = [change for change in changes if change is not None]
        return Planned(kept, results, list(self._events))

    def result(self, op: Op) -> str | int | None:
        match op:
            case Create():
                return self._create(op)
            case Write():
                return self._write(op)
            case Delete():
                self._delete(op)
            case Check():
                self._existing(op.path, op.version)
        return None

    def _change(self, path: str, put: Put | None) -> Change | None:
        if put is not None:
            return put
        before = self._tree.put_of(path)
        return None if before is None else Removed(path, before.ephemeral)

    def _current(self, path: str) -> Put | None:
        if path in self._touched:
            return self._touched[path]
        return self._tree.put_of(path)

    def _existing(self, path: str, version: int) -> Put:
        put = self._current(path)
        if put is None:
            raise NoNode(path)
        if version not in (ANY_VERSION, put.version):
            raise BadVersion(path, version, put.version)
        return put

    def _create(self, op: Create) -> str:
        check_path(op.path)
        parent_path = parent_of(op.path)
        parent = self._existing(parent_path, ANY_VERSION)
        if parent.ephemeral:
            raise NoChildrenForEphemerals(op.path)
        path = f"{op.path}{parent.children_made:010d}" if op.sequential else op.path
        if self._current(path) is not None:
            raise NodeExists(path)
        if op.sequential or not op.ephemeral:
            # The count numbers sequential nodes; for others it would only cost a sync.
            self._touched[parent_path] = parent._replace(children_made=parent.children_made + 1)
        self._touched.pop(path, None)
        self._touched[path] = Put(path, op.data, 0, self._transaction, 0, op.ephemeral)
        self._child_came_or_went(path, +1)
        return path

    def _write(self, op: Write) -> int:
        put = self._existing(op.path, op.version)
        self._touched[op.path] = put._replace(data=op.data, version=put.version + 1)
        self._events[op.path] = None
        return put.version + 1

    def _delete(self, op: Delete) -> None:
        self._existing(op.path, op.version)
        if self._child_counts.get(op.path, self._tree.child_count(op.path)):
            raise NotEmpty(op.path)
        # Removals go to the end, so that children are applied before their parents.
        self._touched.pop(op.path, None)
        self._touched[op.path] = None
        self._child_came_or_went(op.path, -1)

    def _child_came_or_went(self, path: str, by: int) -> None:
        parent = parent_of(path)
        self._events[path] = None
        self._events[parent] = None
        before = self._child_counts.get(parent, self._tree.child_count(parent))
        self._child_counts[parent] = before + by


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def check_path(path: str) -> None:
    if not path.startswith("/") or path == "/" or path.endswith("/") or "//" in path:
        raise StoreError(path, "not an absolute path without empty names")
