"""Finds texts in a large block of bytes, faster where one of their bytes is rare in it.

A single byte is found many times faster than a text, so a rare one is looked for first and the
rest compared where it stands. How rare is guessed from a sample; a wrong guess costs time only.
"""

from __future__ import annotations

import ctypes
from typing import Final

SAMPLE_PIECES: Final = 16
SAMPLE_PIECE_BYTES: Final = 1024
"""A block's sample: all of it would cost more than the search."""
RARE_SHARE = 1 / 1_000
FALSE_HITS_MAX = 20_000
"""After so many in one block the guess was wrong, and the text is looked for as it is."""


class ByteSearch:
    """Places are counted from the beginning of `view`."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._content, self._begin = _searchable(view)
        self._end = self._begin + len(view)
        self._sample = b""
        self._rare: dict[bytes, int] = {}
        """For each text the place of its rare byte in it, -1 if it has none."""
        self._false_hits = 0

    def find(self, needle: bytes, start: int) -> int:
        """Where the text begins next, from `start` on; the length of the block if nowhere."""
        return self._find(needle, self._begin + start) - self._begin

    def _find(self, needle: bytes, start: int) -> int:
        content, end = self._content, self._end
        place = self._rare.get(needle)
        if place is None:
            place = self._rare[needle] = self._rare_place(needle)
        if place >= 0:
            byte = needle[place : place + 1]
            at = content.find(byte, start + place, end)
            while at >= 0:
                begin = at - place
                if content.startswith(needle, begin, end):
                    return begin
                self._false_hits += 1
                if self._false_hits > FALSE_HITS_MAX:
                    self._rare[needle] = -1
                    start = begin
                    break
                at = content.find(byte, at + 1, end)
            else:
                return end
        found = content.find(needle, start, end)
        return found if found >= 0 else end

    def _rare_place(self, needle: bytes) -> int:
        if len(needle) < 2:
            return -1
        self._sample = self._sample or _sample_of(self._view)
        count, place = min(
            (self._sample.count(needle[each : each + 1]), each) for each in range(len(needle))
        )
        return place if count <= len(self._sample) * RARE_SHARE else -1


def _sample_of(view: memoryview) -> bytes:
    step = max(1, len(view) // SAMPLE_PIECES)
    pieces = (view[at : at + SAMPLE_PIECE_BYTES] for at in range(0, len(view), step))
    return b"".join(pieces)


def _searchable(view: memoryview) -> tuple[bytes | bytearray, int]:
    """Something that can be searched, and where the view begins in it. What was received stands in
    a bytearray: a view of it is not copied, for that takes longer than to search it."""
    whole = view.obj
    if not isinstance(whole, bytearray) or not view or not view.contiguous or view.readonly:
        return bytes(view), 0
    return whole, _address(view) - _address(whole)


def _address(content: memoryview | bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(content))
