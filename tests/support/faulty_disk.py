"""A disk that may fail, be cut off from power or lose its process at any change it is asked for.

`FaultyDisk` stands in for the module `os` inside `moldau.storage`: every call goes to real files,
and a shadow remembers what a power cut would leave. Data counts as durable after an fsync of its
file, a name after an fsync of its directory; of the rest a power cut keeps, for each file and each
directory, what was done up to some point, the last write torn, unwritten holes as zeros.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import moldau.storage

HISTORY = 20
SECTOR_BYTES = 64
"""Smaller than a real one: the logs of these tests are small too."""


class Crash(BaseException):
    """The process ends here. Not an Exception: nobody may catch it and go on."""


@dataclass(eq=False)
class FileNode:
    durable: bytes = b""
    changes: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Since the last fsync: a write at a position, or (size, None) for a truncation."""

    def flush(self) -> None:
        content = bytearray(self.durable)
        for position, data in self.changes:
            change(content, position, data)
        self.durable = bytes(content)
        self.changes.clear()


@dataclass(eq=False)
class DirectoryNode:
    durable: dict[str, Node] = field(default_factory=dict)
    current: dict[str, Node] = field(default_factory=dict)
    changes: list[dict[str, Node]] = field(default_factory=list)
    """What `current` was after each change since the last fsync."""

    def note(self) -> None:
        self.changes.append(dict(self.current))


Node = FileNode | DirectoryNode


class FaultyDisk:
    """Counts changes; `crash_at` and `fail_at` say at which of them something happens."""

    def __init__(self, root: str, chance: random.Random) -> None:
        self.root = root
        self.changes = 0
        self.crash_at: int | None = None
        self.fail_at: dict[int, int] = {}
        """Change to the errno that it fails with, once."""
        self.failures = 0
        self.history: list[str] = []
        """The last changes, for whoever reads a failed test."""
        self._dead = False
        self._chance = chance
        self._tree = DirectoryNode()
        self._opened: dict[int, Node] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    # -- what storage calls -------------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o777, **more: Any) -> int:
        is_new = bool(flags & os.O_CREAT) and not os.path.exists(path)
        if is_new:
            self._step(f"create {path}")
            descriptor = os.open(path, flags, mode, **more)
            parent = self._parent(path)
            parent.current[os.path.basename(path)] = FileNode()
            parent.note()
        elif flags & os.O_TRUNC and os.path.getsize(path):
            self._step(f"empty {path}")
            descriptor = os.open(path, flags, mode, **more)
            self._file(path).changes.append((0, None))
        else:
            descriptor = os.open(path, flags, mode, **more)
        self._opened[descriptor] = self._node(path)
        return descriptor

    def close(self, descriptor: int) -> None:
        self._opened.pop(descriptor, None)
        os.close(descriptor)

    def pwrite(self, descriptor: int, content: Any, position: int) -> int:
        data = bytes(content)
        doing = f"write {len(data)} bytes at {position} of {self._name(descriptor)}"
        self._step(doing, torn=(descriptor, data, position))
        written = os.pwrite(descriptor, data, position)
        self._noted(descriptor).changes.append((position, data[:written]))
        return written

    def write(self, descriptor: int, content: Any) -> int:
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        written = self.pwrite(descriptor, content, position)
        os.lseek(descriptor, position + written, os.SEEK_SET)
        return written

    def ftruncate(self, descriptor: int, size: int) -> None:
        self._step(f"truncate {self._name(descriptor)} to {size}")
        os.ftruncate(descriptor, size)
        self._noted(descriptor).changes.append((size, None))

    def posix_fallocate(self, descriptor: int, position: int, size: int) -> None:
        self._step(f"allocate {size}")
        os.posix_fallocate(descriptor, position, size)
        end = max(position + size, os.fstat(descriptor).st_size)
        self._noted(descriptor).changes.append((end, None))

    def truncate(self, path: str, size: int) -> None:
        self._step(f"truncate {path} to {size}")
        os.truncate(path, size)
        self._file(path).changes.append((size, None))

    def fsync(self, descriptor: int) -> None:
        self._step(f"fsync {self._name(descriptor)}")
        node = self._opened[descriptor]
        if isinstance(node, DirectoryNode):
            node.durable = dict(node.current)
            node.changes.clear()
        else:
            node.flush()

    def rename(self, source: str, target: str) -> None:
        self._step(f"rename {source} to {os.path.basename(target)}")
        os.rename(source, target)
        parent = self._parent(source)
        assert parent is self._parent(target), "renames stay in their directory"
        parent.current[os.path.basename(target)] = parent.current.pop(os.path.basename(source))
        parent.note()

    replace = rename

    def unlink(self, path: str) -> None:
        if not os.path.exists(path):
            os.unlink(path)
        self._step(f"unlink {path}")
        os.unlink(path)
        parent = self._parent(path)
        del parent.current[os.path.basename(path)]
        parent.note()

    remove = unlink

    def makedirs(self, path: str, mode: int = 0o777, exist_ok: bool = False) -> None:
        if os.path.exists(path):
            os.makedirs(path, mode, exist_ok=exist_ok)
            return
        self._step(f"make {path}")
        os.mkdir(path, mode)
        parent = self._parent(path)
        parent.current[os.path.basename(path)] = DirectoryNode()
        parent.note()

    mkdir = makedirs

    # -- what tests call ----------------------------------------------------------------------

    def restart(self, *, power_cut: bool) -> None:
        """A new process finds the files as the last one left them, or as the power cut did."""
        self._dead, self.crash_at = False, None
        self.history.append("power cut" if power_cut else "kill")
        self.fail_at.clear()
        if power_cut:
            shutil.rmtree(self.root)
            os.mkdir(self.root)
            self._tree = self._survivor(self._tree, self.root)

    def _survivor(self, node: DirectoryNode, path: str) -> DirectoryNode:
        states = [node.durable, *node.changes]
        kept = states[self._chance.randrange(len(states))]
        survivor = DirectoryNode()
        for name, entry in kept.items():
            below = os.path.join(path, name)
            if isinstance(entry, DirectoryNode):
                os.mkdir(below)
                survivor.current[name] = self._survivor(entry, below)
            else:
                content = self._surviving_content(entry)
                with open(below, "wb") as file:
                    file.write(content)
                survivor.current[name] = FileNode(content)
        survivor.durable = dict(survivor.current)
        return survivor

    def _surviving_content(self, node: FileNode) -> bytes:
        content = bytearray(node.durable)
        count = self._chance.randrange(len(node.changes) + 1)
        for index, (position, data) in enumerate(node.changes[:count]):
            last = index == count - 1
            if data and last and self._chance.random() < 0.5:
                data = data[: self._chance.randrange(len(data) + 1)]
            if data and self._chance.random() < 0.1:
                data = self._with_hole(data)
            change(content, position, data)
        return bytes(content)

    def _with_hole(self, data: bytes) -> bytes:
        """The file has grown, but one of its sectors never reached the disk."""
        hole = self._chance.randrange(0, len(data) + 1, SECTOR_BYTES)
        end = min(hole + SECTOR_BYTES, len(data))
        return data[:hole] + bytes(end - hole) + data[end:]

    # -- bookkeeping --------------------------------------------------------------------------

    def _step(self, doing: str, torn: tuple[int, bytes, int] | None = None) -> None:
        if self._dead:
            raise Crash
        self.changes += 1
        self.history = [*self.history[-HISTORY:], f"{self.changes}: {doing}"]
        number = self.fail_at.pop(self.changes, None)
        if self.changes != self.crash_at and number is None:
            return
        if torn is not None:
            descriptor, data, position = torn
            data = data[: self._chance.randrange(len(data) + 1)]
            os.pwrite(descriptor, data, position)
            self._noted(descriptor).changes.append((position, data))
        if number is not None:
            self.failures += 1
            raise OSError(number, os.strerror(number))
        self._dead = True
        raise Crash

    def _name(self, descriptor: int) -> str:
        return os.readlink(f"/proc/self/fd/{descriptor}")

    def _noted(self, descriptor: int) -> FileNode:
        node = self._opened[descriptor]
        assert isinstance(node, FileNode)
        return node

    def _node(self, path: str) -> Node:
        node: Node = self._tree
        if not path.startswith(self.root):
            return DirectoryNode()  # above us all is durable
        for name in os.path.relpath(path, self.root).split(os.sep):
            if name != os.curdir:
                assert isinstance(node, DirectoryNode)
                node = node.current[name]
        return node

    def _parent(self, path: str) -> DirectoryNode:
        node = self._node(os.path.dirname(path))
        assert isinstance(node, DirectoryNode)
        return node

    def _file(self, path: str) -> FileNode:
        node = self._node(path)
        assert isinstance(node, FileNode)
        return node


def change(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        del content[position:]
    content += bytes(max(0, position - len(content)))
    if data is not None:
        content[position : position + len(data)] = data


DISK_FAULTS = (errno.ENOSPC, errno.EIO)


@contextmanager
def storage_on(disk: FaultyDisk) -> Iterator[None]:
    """Every module of `moldau.storage` that is loaded works on `disk`."""
    prefix = moldau.storage.__name__ + "."
    modules = [module for name, module in sys.modules.items() if name.startswith(prefix)]
    changed = [module for module in modules if getattr(module, "os", None) is os]
    for module in changed:
        module.os = disk  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module in changed:
            module.os = os  # type: ignore[attr-defined]
