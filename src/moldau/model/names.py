"""Names of things that every layer speaks of, and the rules they follow.

Topic ids are plain 16-byte strings: they go through the wire, dictionaries and files untouched,
and only people see the 22-character text form.
"""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

Offset = int
Millis = int
BrokerId = int
TopicId = bytes

NO_TOPIC_ID: TopicId = bytes(16)
TOPIC_NAME_LENGTH_MAX = 249
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def uuid_text(uuid: bytes) -> str:
    """The form people see: URL-safe base64 without padding, as Kafka prints ids."""
    return base64.urlsafe_b64encode(uuid).decode("ascii").rstrip("=")


def uuid_from_text(text: str) -> bytes:
    uuid = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(uuid) != 16:
        raise ValueError(f"id {text!r} is {len(uuid)} bytes long, must be 16")
    return uuid


def topic_name_fault(name: str) -> str | None:
    """Why the name is illegal, as one sentence, or None if it is legal."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return "Topic name is invalid: '.' or '..' is not allowed"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return (
            "Topic name is invalid: the length of "
            f"'{name}' is longer than the max allowed length {TOPIC_NAME_LENGTH_MAX}"
        )
    if not _TOPIC_NAME.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None
