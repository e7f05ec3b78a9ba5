"""Which partition a key belongs to, as in Java's producer: compiled like the kernel."""

from __future__ import annotations


def partition_for_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def murmur2(key: bytes) -> int:
    """Java's hash of keys, as an unsigned number of 32 bits."""
    size = len(key)
    position = 0
    h = 0x9747B28C ^ size
    while size - position >= 4:
        k = key[position + 3]
        k = k << 8 | key[position + 2]
        k = k << 8 | key[position + 1]
        k = k << 8 | key[position]
        k = (k * 0x5BD1E995) & 0xFFFFFFFF
        k = ((k ^ (k >> 24)) * 0x5BD1E995) & 0xFFFFFFFF
        h = ((h * 0x5BD1E995) & 0xFFFFFFFF) ^ k
        position += 4
    rest = size - position
    if rest > 2:
        h ^= key[position + 2] << 16
    if rest > 1:
        h ^= key[position + 1] << 8
    if rest > 0:
        h = ((h ^ key[position]) * 0x5BD1E995) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 0x5BD1E995) & 0xFFFFFFFF
    return h ^ (h >> 15)
