"""The port to the znode tree: what the controller may ask of it, and how it refuses.

Two stores honour it: the embedded one (a file in the log directory, or memory in tests) and a real
ZooKeeper. Names and meanings are ZooKeeper's. Every answer is about durable state only: whoever
reads a value, or sees a write succeed, will find it again after a crash. Ephemeral nodes live as
long as the session that made them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

ANY_VERSION = -1


class Node(NamedTuple):
    data: bytes
    version: int
    """Counts the writes to this node; starts at 0, so a conditional write can name it."""
    created_by: int
    """The transaction that created the node (ZooKeeper's czxid): a broker's epoch."""


class Create(NamedTuple):
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class Write(NamedTuple):
    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Fails the whole multi unless the node has this version."""

    path: str
    version: int


Op = Create | Write | Delete | Check


class StoreError(Exception):
    """The store refused or could not answer; `path` names the node."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path


class NoNode(StoreError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "no such node")


class NodeExists(StoreError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "the node exists")


class BadVersion(StoreError):
    def __init__(self, path: str, expected: int, actual: int | None = None) -> None:
        found = "another" if actual is None else str(actual)
        super().__init__(path, f"expected version {expected}, found {found}")


class NotEmpty(StoreError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "the node has children")


class NoChildrenForEphemerals(StoreError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "an ephemeral node cannot have children")


class StoreUnavailable(StoreError):
    """The store cannot be reached or written to: the outcome of the call is unknown."""


class Watch(Protocol):
    def cancel(self) -> None: ...


class MetadataStore(Protocol):
    async def get(self, path: str) -> Node:
        """Raises NoNode."""

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """All of them in one round trip, None where there is no node: loading reads thousands."""

    async def exists(self, path: str) -> Node | None: ...

    async def children(self, path: str) -> list[str]:
        """Names, not paths, in sorted order. Raises NoNode."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """The path made: with a ten-digit number behind it if sequential. Raises NodeExists, or
        NoNode if the parent is missing."""

    async def set_if_version(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """The new version. Raises NoNode, BadVersion."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Raises NoNode, BadVersion, NotEmpty."""

    async def multi(self, ops: Iterable[Op]) -> list[str | int | None]:
        """All of the ops or none: for each the path created, the version written, or None.

        Calls take effect in the order they were started in. Raises the first op's refusal.
        """

    async def transaction(self) -> int:
        """The number of the last durable transaction (ZooKeeper's zxid)."""

    def watch(self, path: str, listener: Callable[[str], None]) -> Watch:
        """Call the listener with the path after each change of the node or of its set of children,
        until cancelled. Changes that follow closely may be reported once: read the state anew."""

    async def close(self) -> None:
        """End the session: its ephemeral nodes go."""


class SessionState(Enum):
    CONNECTED = "connected"
    """Calls are answered. Watchers are told to look again: news may have been missed."""
    SUSPENDED = "suspended"
    """Nobody answers; the session may live or have ended meanwhile."""
    EXPIRED = "expired"
    """The session is over and its ephemeral nodes are gone; CONNECTED follows with a new one."""


class SharedStore(MetadataStore, Protocol):
    """A store that several brokers use at one time, each with a session of its own."""

    def on_session(self, listener: Callable[[SessionState], None]) -> None:
        """Call the listener on the loop with every change of the session's state from now on."""
