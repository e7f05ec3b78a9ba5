"""What keeps a mirror from going on, as sentences for whoever started it."""

from __future__ import annotations


class MirrorFault(Exception):
    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence[:1].upper() + sentence[1:].rstrip(".") + "."
