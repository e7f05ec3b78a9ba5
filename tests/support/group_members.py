"""Consumers that poll in threads of their own, as the members of a group do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from moldau import Consumer, ConsumerRebalanceListener, TopicPartition
from moldau.client.shared.client_errors import WakeupError

Event = tuple[str, str, tuple[TopicPartition, ...]]
"""Who, what, which partitions."""


class Member(ConsumerRebalanceListener):
    """Polls until it is stopped; keeps what it read and what its listener was told."""

    def __init__(
        self,
        name: str,
        topics: list[str],
        *,
        events: list[Event] | None = None,
        on_records: Callable[[Consumer, Any], None] | None = None,
        pattern: str | None = None,
        **settings: Any,
    ) -> None:
        self.name = name
        self.events: list[Event] = [] if events is None else events
        self.values: list[bytes] = []
        self.failure: BaseException | None = None
        self.consumer = Consumer(client_id=name, auto_offset_reset="earliest", **settings)
        self._on_records = on_records
        if pattern is None:
            self.consumer.subscribe(topics, self)
        else:
            self.consumer.subscribe(pattern=pattern, listener=self)
        self.thread = threading.Thread(target=self._work, name=name)
        self.thread.start()

    @property
    def owned(self) -> set[TopicPartition]:
        return self.consumer.assignment()

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.events.append((self.name, "revoked", tuple(partitions)))

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        assert threading.current_thread() is self.thread
        self.events.append((self.name, "assigned", tuple(partitions)))

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.events.append((self.name, "lost", tuple(partitions)))

    def _work(self) -> None:
        try:
            while True:
                records = self.consumer.poll(1.0)
                self.values += [record.value for record in records]
                if self._on_records is not None:
                    self._on_records(self.consumer, records)
        except WakeupError:
            self.consumer.close()
        except BaseException as failure:
            self.failure = failure
            raise

    def stop(self) -> None:
        self.consumer.wakeup()
        self.thread.join(30)
        assert not self.thread.is_alive()
        assert self.failure is None, self.failure
