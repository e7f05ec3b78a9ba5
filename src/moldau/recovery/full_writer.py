"""Writes full snapshots: outside the transaction, since the next one has to say where they are.

One producer serves all partitions of a process. Nobody waits for it while records are processed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from moldau.client.producer.blocking_producer import Producer
from moldau.client.producer.record_future import RecordFuture
from moldau.recovery.snapshot_records import FULL_HEADER, FULLS_KEPT, parts_of

log = logging.getLogger("moldau.recovery")


class FullUnderway:
    """A full snapshot that is being written."""

    def __init__(self, name: str, futures: list[RecordFuture]) -> None:
        self.name = name
        self._futures = futures

    @property
    def is_done(self) -> bool:
        return all(future.done() for future in self._futures)

    def position(self, timeout: float) -> int | None:
        """Where its first part is, once all parts are stored; None if one of them is not."""
        for future in self._futures:
            if (error := future.exception(timeout)) is not None:
                log.warning("%s was not stored, the next one will be: %s", self.name, error)
                return None
        offset = self._futures[0].result(timeout).offset
        return None if offset < 0 else offset


class FullWriter:
    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        self._producer = Producer(settings)
        self._topic = topic

    def write(self, partition: int, number: int, start: int, state: bytes) -> FullUnderway:
        """Hand a state over. Where the topic is compacted, the last few snapshots stay: their
        keys take turns."""
        slot = number % (FULLS_KEPT + 1)
        futures = [
            self._producer.send(
                self._topic,
                piece,
                key=f"{slot}/{part.part}",
                headers=[(FULL_HEADER, part.encoded())],
                partition=partition,
            )
            for part, piece in parts_of(uuid4().hex, start, state)
        ]
        name = f"The full snapshot of partition {partition} at offset {start}"
        return FullUnderway(name, futures)

    def close(self, timeout: float) -> None:
        self._producer.close(timeout)
