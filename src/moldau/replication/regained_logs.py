"""Logs that a broker of a cluster could not make for want of descriptors, memory or room: tried
again until they are there.

The controller counts such replicas as offline. Once their logs are made it is told, asks what the
broker has and gives them their roles, so a topic that was made in a bad moment is served without a
restart. Apache Kafka's controller does not ask for them again before the broker registers anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from moldau.model.names import TopicPartition
from moldau.replication.log_preparation import PASSING
from moldau.replication.offline_replicas import LostReplicas
from moldau.storage.directories.log_store import LogStore
from moldau.storage.directories.new_logs import LOGS_PER_WORK, NewLog
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.server.ReplicaManager")


class RegainedLogs:
    def __init__(self, store: LogStore, lost: LostReplicas) -> None:
        self._store = store
        self._lost = lost
        self._wanted: dict[TopicPartition, NewLog] = {}
        self._is_making = False
        self.on_regained: Callable[[], None] = lambda: None
        """Called when replicas that were offline can take roles again."""

    def put_off(self, wanted: NewLog, fault: StorageFault) -> None:
        if fault.errno in PASSING:
            self._wanted[wanted.topic_partition] = wanted

    def try_again(self) -> None:
        """Some of them in the thread; called again and again."""
        if self._is_making:
            return
        for place in [place for place in self._wanted if place not in self._lost]:
            # Deleted meanwhile, or its role was taken after all.
            del self._wanted[place]
        some = list(self._wanted.values())[:LOGS_PER_WORK]
        if some:
            self._is_making = True
            self._store.prepare(some, lambda: self._made(some))

    def _made(self, some: list[NewLog]) -> None:
        self._is_making = False
        made = 0
        for each in some:
            place = each.topic_partition
            if place not in self._store.new_logs:
                # Last of all next time: what cannot be made must not keep others from being made.
                self._wanted[place] = self._wanted.pop(place, each)
                continue
            self._wanted.pop(place, None)
            if self._lost.pop(place, None) is None:
                self._store.forget_made(place)
            else:
                made += 1
        if made:
            log.info("%d replicas that were offline can be served again", made)
            self.on_regained()
