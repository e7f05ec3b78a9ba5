"""Handing out producer ids from blocks of a thousand, so that no id is ever given twice.

Pure. The controller makes a block durable before it gives it away; whoever holds a block hands its
ids out from memory. What is left of a block at a crash is lost, which is cheap (2^63 ids) and
safer than finding out which ids were used.
"""

from __future__ import annotations


class ProducerIds:
    """The ids this broker may give away; empty until it was granted a block."""

    __slots__ = ("_block", "_next_block")

    def __init__(self) -> None:
        self._block = range(0)
        self._next_block = range(0)

    def take(self) -> int | None:
        """The next id, or None if a block has to be fetched first."""
        if not self._block:
            self._block, self._next_block = self._next_block, range(0)
        if not self._block:
            return None
        producer_id = self._block[0]
        self._block = self._block[1:]
        return producer_id

    def grant(self, block: range) -> None:
        """A block that nobody else was given. Blocks only grow, so an older one is a bug."""
        assert block.step == 1, f"{block} has gaps"
        assert not self._block or block.start >= self._block.stop, f"{block} was given before"
        assert not self._next_block, "one block ahead is enough"
        if self._block:
            self._next_block = block
        else:
            self._block = block

    @property
    def left(self) -> int:
        return len(self._block) + len(self._next_block)
