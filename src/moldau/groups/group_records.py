"""The records of `__consumer_offsets`, byte for byte as Apache Kafka 4.3 reads and writes them.

A key starts with an int16 that says what kind of record it is, a value with one that says in which
version it is written. A record without a value takes back what its key named.
"""

from __future__ import annotations

import struct
from typing import Final

from moldau.wire.schema import Message

VERSION: Final = struct.Struct(">h")

OFFSET_COMMIT_KIND: Final = 1
OFFSET_COMMIT_KIND_OLD: Final = 0
"""Written before Kafka 0.9; the key is the same."""
GROUP_METADATA_KIND: Final = 2
"""Higher kinds belong to other group protocols."""

KEY_VERSION: Final = 0
OFFSET_VALUE_VERSION: Final = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY: Final = 1
"""The only version that can tell when an offset expires."""
GROUP_VALUE_VERSION: Final = 3
"""What Kafka writes: it reads 4 too, but before 3.5 nobody could."""


def with_version(version: int, message: Message, encoded_as: int | None = None) -> bytes:
    """The message behind its int16; keys are of one version and say their kind there."""
    body = message.encode(version if encoded_as is None else encoded_as)
    return VERSION.pack(version) + body
