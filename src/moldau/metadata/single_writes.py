"""A store's single calls in terms of its bulk ones; shared by the stores that keep a tree."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from moldau.metadata.store import ANY_VERSION, Create, Delete, Node, NoNode, Op, Write


class SingleWrites(ABC):
    @abstractmethod
    async def exists(self, path: str) -> Node | None: ...

    @abstractmethod
    async def multi(self, ops: Iterable[Op]) -> list[str | int | None]: ...

    async def get(self, path: str) -> Node:
        node = await self.exists(path)
        if node is None:
            raise NoNode(path)
        return node

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        (made,) = await self.multi([Create(path, data, ephemeral, sequential)])
        assert isinstance(made, str)
        return made

    async def set_if_version(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        (written,) = await self.multi([Write(path, data, version)])
        assert isinstance(written, int)
        return written

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])
