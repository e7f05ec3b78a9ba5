"""Which metrics a broker wants of which client (KIP-714): the subscriptions, and who matches them.

Subscriptions are stored as settings of the cluster, so every broker comes to the same answer for a
client, down to its number.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

ALL = "*"
INTERVAL_MS_DEFAULT = 300_000
MATCHED_LENGTH_MAX = 255
"""Longer texts of clients match nothing: an expression could take for ever on them."""


class Subscription(NamedTuple):
    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, re.Pattern[str]]

    @classmethod
    def of(cls, metrics: tuple[str, ...], interval_ms: int, match: Iterable[str]) -> Subscription:
        """`match` as checked by the settings: key=regular expression."""
        pairs = (pattern.split("=") for pattern in match)
        patterns = {key.strip(): re.compile(text.strip()) for key, text in pairs}
        return cls(metrics, interval_ms, patterns)

    def means(self, client: Mapping[str, str]) -> bool:
        for key, pattern in self.patterns.items():
            text = client.get(key)
            if not text or len(text) > MATCHED_LENGTH_MAX or not pattern.fullmatch(text):
                return False
        return True


class Wanted(NamedTuple):
    """What one client is asked for."""

    metrics: tuple[str, ...]
    """Beginnings of names; `*` stands for all."""
    interval_ms: int
    number: int
    """Another one whenever something else is asked for."""


def wanted_of(
    client: Mapping[str, str], subscriptions: Iterable[Subscription], instance_id: bytes
) -> Wanted:
    """All that match together: what any of them wants, as often as any of them wants it."""
    names: set[str] = set()
    interval_ms = INTERVAL_MS_DEFAULT
    for subscription in subscriptions:
        if subscription.means(client):
            names.update(subscription.metrics)
            interval_ms = min(interval_ms, subscription.interval_ms)
    metrics = (ALL,) if ALL in names else tuple(sorted(names))
    checksum = zlib.crc32(f"{','.join(metrics)} {interval_ms}".encode())
    number = checksum ^ int.from_bytes(instance_id[12:], "big")
    return Wanted(metrics, interval_ms, number - (1 << 32) if number >> 31 else number)
