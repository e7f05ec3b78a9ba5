"""The texts that docs/troubleshooting.md explains, and who says each."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
MOLDAU, KAFKA = "Moldau", "Apache Kafka"
OPEN = "…"
"""What differs from case to case."""


def texts_of(teller: str) -> set[str]:
    """Those of headings, whose next paragraph begins with who says them, and those in a sentence,
    with the name in parentheses behind."""
    page = PAGE.read_text()
    heads = re.findall(r"^### `([^`]+)`\n\n([^.;:(\n]+)", page, re.MULTILINE)
    headings = {text for text, tellers in heads if teller in tellers.split(", ")}
    return headings | set(re.findall(rf"`([^`]+)`\s+\({teller}[^)]*\)", page))


def pieces(text: str) -> list[str]:
    return [piece.strip() for piece in text.split(OPEN) if piece.strip(" .")]


def holds(said: str, text: str) -> bool:
    """Whether all pieces of the text stand in `said`, one behind the other."""
    at = 0
    for piece in pieces(text):
        found = said.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True
