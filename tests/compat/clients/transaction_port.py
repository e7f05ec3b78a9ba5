"""What a test asks of a foreign client's transactions, the same words for all of them.

A second producer with one transactional id fences the first; each library has a name of its own
for that, and a wrapper raises `Fenced` for that name alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tests.compat.clients.port import Client

TRANSACTION_TIMEOUT_MS = 60_000


class Fenced(Exception):
    """The library says that a newer producer has taken its transactional id."""


class Producer(Protocol):
    """Made with its transactional id taken: `initTransactions` is behind it."""

    def begin(self) -> None: ...

    def send(self, topic: str, values: Sequence[bytes], partition: int = 0) -> None:
        """Returns when all are acknowledged."""

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Partition to offset, for a group that nobody has joined."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None:
        """Let go of it whatever state it is in; an open transaction is not ended."""


class TransactionClient(Protocol):
    client: Client
    sends_offsets_alone: bool
    """False where the library sends offsets only for a member that polls."""

    def producer(self, transactional_id: str) -> Producer: ...

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Partition to committed offset, for partitions that have one."""
