"""Logs at rest are loaded here, in a thread, when somebody needs their files.

The loaded log takes the place of the one at rest, and everybody who waits for it is told in the
order they came. A fault is the answer to those who wait: the log stays at rest, and the next who
needs it tries again, for what was missing may be memory or a descriptor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.model.names import TopicPartition
from moldau.storage.directories.storage_threads import Threads
from moldau.storage.log.loaded_log import LoadedLog
from moldau.storage.log.log_at_rest import AnyLog, RestingLog, Woken
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.recovery.log_loading import load_files
from moldau.storage.recovery.log_recovery import Recovery
from moldau.storage.storage_faults import StorageFault

if TYPE_CHECKING:
    from moldau.storage.directories.log_store import LogStore


class Waking:
    def __init__(self, store: LogStore, threads: Threads) -> None:
        self._store = store
        self._threads = threads
        self._waiting: dict[RestingLog, list[Woken]] = {}

    def wake(self, resting: RestingLog, woken: Woken) -> None:
        if resting.fault is not None:
            woken(resting.fault.to_keep())
            return
        current = self._store.get(resting.topic_partition)
        if isinstance(current, PartitionLog) and current.directory == resting.directory:
            woken(current)
            return
        if resting in self._waiting:
            self._waiting[resting].append(woken)
            return
        self._waiting[resting] = [woken]
        known = self._recovery(resting)
        loaded: list[LoadedLog] = []

        def work() -> StorageFault | None:
            try:
                loaded.append(load_files(known))
            except StorageFault as fault:
                return fault
            return None

        def done(fault: StorageFault | None) -> None:
            outcome = fault or self._take(resting, loaded[0])
            for each in self._waiting.pop(resting):
                each(outcome)

        self._threads.run(work, done)

    def is_waking(self, topic_partition: TopicPartition) -> bool:
        return any(each.topic_partition == topic_partition for each in self._waiting)

    def wake_now(self, rested: AnyLog) -> PartitionLog:
        """Where blocking is allowed: while the broker starts. Raises StorageFault."""
        if isinstance(rested, PartitionLog):
            return rested
        return self._opened(rested, load_files(self._recovery(rested)))

    def stop(self) -> None:
        self._threads.stop()

    def _recovery(self, resting: RestingLog) -> Recovery:
        return Recovery(
            resting.topic_partition,
            resting.directory,
            resting.settings,
            True,
            resting.log_start_offset,
            resting.recovery_point,
            self._store.clock,
            self._store.producer_room.expiration_ms,
        )

    def _take(self, resting: RestingLog, loaded: LoadedLog) -> PartitionLog | StorageFault:
        """Much may have happened to the log in the meantime."""
        if resting.fault is not None:
            return resting.fault.to_keep()
        if self._store.get(resting.topic_partition) is not resting:
            return StorageFault("cannot use", resting.directory, reason="it is not in use any more")
        if loaded.offset_end != resting.offset_end:
            resting.fault = StorageFault(
                "cannot use",
                resting.directory,
                reason=f"its files were changed since the broker started: they end with offset "
                f"{loaded.offset_end}, not {resting.offset_end}; start the broker again",
            )
            return resting.fault.to_keep()
        try:
            opened = self._opened(resting, loaded)
        except StorageFault as fault:
            return fault
        self._store.put(opened)
        for listener in self._store.on_loaded:
            listener(opened)
        return opened

    def _opened(self, resting: RestingLog, loaded: LoadedLog) -> PartitionLog:
        opened = self._store.open_at(
            resting.topic_partition, resting.topic_id, resting.directory, resting.settings, loaded
        )
        opened.log_start_offset = resting.log_start_offset
        opened.recovery_point = resting.recovery_point
        opened.flushed_ms = resting.flushed_ms
        opened.cleaned_end = resting.cleaned_end
        if resting.epoch_assigned is not None:
            opened.assign_epoch(*resting.epoch_assigned)
        return opened
