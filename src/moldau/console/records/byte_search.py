"""Finds texts in a large block of bytes, faster where one of their bytes is rare in it.

A single byte is found many times faster than a text, so a rare one is looked for first and the
rest compared where it stands. How rare is guessed from a sample; a wrong guess costs time only.
"""

from __future__ import annotations

SAMPLE_STEP = 61
RARE_SHARE = 1 / 1_000
FALSE_HITS_MAX = 20_000
"""After so many in one block the guess was wrong, and the text is looked for as it is."""


class ByteSearch:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._sample = b""
        self._rare: dict[bytes, int] = {}
        """For each text the place of its rare byte in it, -1 if it has none."""
        self._false_hits = 0

    def find(self, needle: bytes, start: int) -> int:
        """Where the text begins next, from `start` on; the length of the block if nowhere."""
        content, size = self._content, len(needle)
        place = self._rare.get(needle)
        if place is None:
            place = self._rare[needle] = self._rare_place(needle)
        if place >= 0:
            byte = needle[place : place + 1]
            at = content.find(byte, start + place)
            while at >= 0:
                begin = at - place
                if content[begin : begin + size] == needle:
                    return begin
                self._false_hits += 1
                if self._false_hits > FALSE_HITS_MAX:
                    self._rare[needle] = -1
                    start = begin
                    break
                at = content.find(byte, at + 1)
            else:
                return len(content)
        found = content.find(needle, start)
        return found if found >= 0 else len(content)

    def _rare_place(self, needle: bytes) -> int:
        if len(needle) < 2:
            return -1
        self._sample = self._sample or self._content[::SAMPLE_STEP]
        count, place = min(
            (self._sample.count(needle[each : each + 1]), each) for each in range(len(needle))
        )
        return place if count <= len(self._sample) * RARE_SHARE else -1
