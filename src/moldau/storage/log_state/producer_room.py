"""How long the logs of one broker remember producers, and how many of them.

What a log knows of a producer is forgotten when it has been silent for producer.id.expiration.ms.
Should all of them take more than producer.state.max.bytes, the longest silent are forgotten before
their time: a producer that writes on is then one that nobody knows, and any sequence will do. Not
within KEPT_MINUTES: until then a batch that was stored may come again, and would be stored twice.
So where that is not enough, who is new is told to come back; only in partitions that hold more than
their share, so that whoever fills one harms no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from moldau.model.errors import ApiError, Error
from moldau.model.names import Millis
from moldau.storage.log_state.producer_state import ProducerStates

PRODUCER_BYTES = 1536
"""With five batches and the pieces between objects: 472 bytes were seen for a producer of one
batch, 1352 for one of five."""
KEPT_MINUTES = 10
"""Longer than any client's default for how long it sends a batch again (2 to 5 minutes)."""
KEPT_AT_ONCE = 5_000
"""So many are written at every roll: a few milliseconds."""
PAUSE_MS_PER_THOUSAND = 60
"""For more, this much time has to pass first: writing a thousand takes 0.6 ms of the loop."""
FORGOTTEN_ABOVE = 7 / 8
FORGOTTEN_DOWN_TO = 3 / 4
_AGES = 1441


class ProducerLimits(NamedTuple):
    expiration_ms: Millis
    max_bytes: int


class ProducerRoom:
    def __init__(self, limits: Callable[[], ProducerLimits]) -> None:
        """`limits` are asked for each time: they may change while the broker runs."""
        self._limits = limits
        self._known = 0
        """As counted a minute ago, and those taken in since."""
        self._partitions = 1
        self._next_many_ms: Millis = 0
        """When the next roll may write many producers, by the monotonic clock."""

    @classmethod
    def of(cls, expiration_ms: Millis, max_bytes: int) -> ProducerRoom:
        limits = ProducerLimits(expiration_ms, max_bytes)
        return cls(lambda: limits)

    @property
    def expiration_ms(self) -> Millis:
        return self._limits().expiration_ms

    def take_in(self, partition: ProducerStates, producer_id: int) -> None:
        """Before the first batch of a producer that the partition does not know. Raises ApiError
        where there is no room."""
        limits = self._limits()
        count_max = limits.max_bytes // PRODUCER_BYTES
        if self._known >= count_max and len(partition) * self._partitions >= count_max:
            # Every client sends such a batch again, and none takes it for written.
            raise ApiError(
                Error.NOT_ENOUGH_REPLICAS,
                f"{partition.partition} takes no new producer, {producer_id}, now: the producers "
                f"that this broker remembers take {limits.max_bytes} bytes "
                "(producer.state.max.bytes)",
            )
        self._known += 1

    def may_keep(self, count: int, now_ms: Millis) -> bool:
        """Whether a roll may write so many producers to disk. Somebody may make very many and small
        segments; then some rolls write none, and a start after a crash reads more of the log."""
        if count <= KEPT_AT_ONCE:
            return True
        if now_ms < self._next_many_ms:
            return False
        self._next_many_ms = now_ms + count * PAUSE_MS_PER_THOUSAND // 1000
        return True

    def pass_minute(self, partitions: Callable[[], Iterable[ProducerStates]]) -> Iterator[None]:
        """Count again, and forget if need be; whoever goes through this may rest between steps."""
        known = writers = 0
        for states in partitions():
            states.minutes += 1
            known += len(states)
            writers += bool(states)
        self._known, self._partitions = known, max(1, writers)
        count_max = self._limits().max_bytes // PRODUCER_BYTES
        if known <= count_max * FORGOTTEN_ABOVE:
            return
        ages = [0] * _AGES
        for states in partitions():
            for minutes, count in states.silent_minutes().items():
                ages[min(minutes, _AGES - 1)] += count
            yield
        minutes = _age_to_forget(ages, int(known - count_max * FORGOTTEN_DOWN_TO))
        for states in partitions():
            self._known -= states.forget_silent(minutes)
            yield


def _age_to_forget(ages: list[int], count: int) -> int:
    """The largest number of minutes at which so many have been silent, or as few as may be."""
    found = 0
    for minutes in range(len(ages) - 1, KEPT_MINUTES, -1):
        found += ages[minutes]
        if found >= count:
            return minutes
    return KEPT_MINUTES + 1
