"""Keeping a reassignment from taking all the bandwidth: replication slowed down to a rate.

Pure. Which replicas are slowed down is a setting of their topic, how fast they may go one of the
broker. Only replicas that are not in sync ever wait: the others hold up writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from moldau.config.config_changes import DEFAULT_BROKER
from moldau.model.names import BrokerId, Millis

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
EVERYTHING = "*"


class Throttle:
    """Bytes per second over the last samples, against a limit that may change or be none."""

    __slots__ = ("_sample_ms", "_samples", "_samples_max", "limit_bytes_per_second")

    def __init__(self, samples_max: int = 11, sample_ms: Millis = 1_000) -> None:
        self.limit_bytes_per_second: int | None = None
        self._samples: deque[tuple[Millis, int]] = deque()
        self._samples_max = samples_max
        self._sample_ms = sample_ms

    def record(self, size_bytes: int, now: Millis) -> None:
        start = now - now % self._sample_ms
        if self._samples and self._samples[-1][0] == start:
            self._samples[-1] = start, self._samples[-1][1] + size_bytes
        else:
            self._samples.append((start, size_bytes))
        self._forget(now)

    def is_exceeded(self, now: Millis) -> bool:
        if self.limit_bytes_per_second is None:
            return False
        self._forget(now)
        # A window that has only begun counts as a whole sample, or its first byte were too much.
        first = self._samples[0][0] if self._samples else now
        seconds = max(now - first, self._sample_ms) / 1000
        return sum(size for _, size in self._samples) / seconds > self.limit_bytes_per_second

    def _forget(self, now: Millis) -> None:
        oldest = now - self._samples_max * self._sample_ms
        while self._samples and self._samples[0][0] < oldest:
            self._samples.popleft()


def rate_of(
    key: str, node_id: BrokerId, broker_configs: Mapping[str, Mapping[str, str]]
) -> int | None:
    """None if the broker is not told to slow down."""
    for broker in (str(node_id), DEFAULT_BROKER):
        text = broker_configs.get(broker, {}).get(key, "").strip()
        if text.isdigit():
            return int(text)
    return None


def names(entries: tuple[str, ...], partition: int, broker: BrokerId) -> bool:
    """Whether a topic's setting is about this replica."""
    return bool(entries) and (EVERYTHING in entries or f"{partition}:{broker}" in entries)


class Throttles:
    """What a broker may send and take as a replica, of partitions that are throttled."""

    __slots__ = ("follower", "leader")

    def __init__(self, samples: int, sample_ms: Millis) -> None:
        self.leader = Throttle(samples, sample_ms)
        self.follower = Throttle(samples, sample_ms)

    def see(self, node_id: BrokerId, configs: Mapping[str, Mapping[str, str]]) -> None:
        self.leader.limit_bytes_per_second = rate_of(LEADER_RATE, node_id, configs)
        self.follower.limit_bytes_per_second = rate_of(FOLLOWER_RATE, node_id, configs)
