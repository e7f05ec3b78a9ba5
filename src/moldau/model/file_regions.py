"""A piece of an open file, passed instead of its bytes so that the kernel can send it."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class OpenFile(Protocol):
    """Closes its descriptor only when nobody refers to it any more, so a region stays readable
    after its segment was deleted."""

    def fileno(self) -> int: ...


class FileRegion(NamedTuple):
    file: OpenFile
    position: int
    size_bytes: int
