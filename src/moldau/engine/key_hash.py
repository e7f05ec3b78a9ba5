"""Which partition of an internal topic keeps the state of a key, as every Kafka broker counts.

Pure. Clients never compute this, but other brokers and tools do: the hash is Java's of a string.
"""

from __future__ import annotations

import struct
from functools import lru_cache

_HASHES_KEPT = 8192
_INT_MIN = -(2**31)


@lru_cache(_HASHES_KEPT)
def java_hash(text: str) -> int:
    """`String.hashCode`: over the code units of UTF-16, as a signed int of 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(units) // 2}H", units):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for(key: str, partition_count: int) -> int:
    value = java_hash(key)
    # The smallest int has no positive counterpart in Java; Kafka takes 0 for it.
    return 0 if value == _INT_MIN else abs(value) % partition_count
