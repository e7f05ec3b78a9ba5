"""The log of a partition that is being restored: no log of the store yet.

Its directory is named as that of a deleted partition is: whatever ends the restore in the middle,
the next start removes it, also one of Apache Kafka. Batches come as a follower gets them.
"""

from __future__ import annotations

import contextlib
import os

from moldau.model.names import Offset, TopicId, TopicPartition
from moldau.records.batch import Buffer
from moldau.storage.directories.log_store import LogStore
from moldau.storage.directories.removed_logs import clear_way
from moldau.storage.log.loaded_log import LoadedLog
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log.replicated_batches import start_in_batch
from moldau.storage.log_files import (
    DELETED_DIRECTORY_SUFFIX,
    departed_directory_name,
    sync_directory,
)
from moldau.storage.log_settings import LogSettings
from moldau.storage.log_state.checkpoint_files import LOG_START_FILE, RECOVERY_POINT_FILE
from moldau.storage.log_state.partition_metadata import write_topic_id
from moldau.storage.storage_faults import StorageFault


class Place:
    """Where a staged log is, and what it is to become."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        parent: str,
        settings: LogSettings,
        log_start: Offset,
    ) -> None:
        unique = os.urandom(16).hex()
        name = departed_directory_name(topic_partition, unique, DELETED_DIRECTORY_SUFFIX)
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.parent = parent
        self.settings = settings
        self.log_start = log_start
        self.staging = os.path.join(parent, name)
        self.path = os.path.join(parent, str(topic_partition))

    def make(self, store: LogStore) -> LoadedLog:
        """An empty log on disk; in any thread. Raises StorageFault."""
        loaded = store.new_logs.make_now(self.topic_partition, self.staging, self.settings)
        write_topic_id(self.staging, self.topic_id)
        return loaded


class StagedLog:
    def __init__(self, store: LogStore, place: Place, loaded: LoadedLog) -> None:
        self._store = store
        self.place = place
        self.is_placed = False
        self.log = store.open_at(
            place.topic_partition, place.topic_id, place.staging, place.settings, loaded
        )
        if place.log_start:
            self.log.truncate_fully(place.log_start)

    def append(self, records: Buffer) -> Offset:
        """The new end. Raises ApiError for records that do not fit, StorageFault."""
        start_in_batch(self.log, records)
        return self.log.append_as_follower(records)

    @property
    def epoch_next(self) -> int:
        """What the restored partition begins with: above all that wrote into it."""
        return self.log.latest_epoch + 1

    @property
    def log_start(self) -> Offset:
        return min(max(self.place.log_start, self.log.base_offset), self.log.offset_end)

    def step_into(self) -> LoadedLog:
        """Take the plain name; closed and flushed before. In any thread; raises StorageFault."""
        place = self.place
        clear_way(place.topic_partition, place.path)
        try:
            os.rename(place.staging, place.path)
            self.is_placed = True
            sync_directory(place.parent)
        except OSError as error:
            raise StorageFault.of("cannot rename", place.staging, error) from error
        loaded = self._store.new_logs.load(place.topic_partition, place.path, place.settings)
        if loaded.offset_end != self.log.offset_end:
            reason = f"it ends at {loaded.offset_end}, not at {self.log.offset_end}"
            raise StorageFault("cannot use", place.path, reason=reason)
        return loaded._replace(log_start_offset=self.log_start)

    def restate(self) -> None:
        """What checkpoints say of an earlier log of this name is not about this one."""
        rows = {RECOVERY_POINT_FILE: self.log.offset_end}
        if self.log_start > self.log.base_offset:
            rows[LOG_START_FILE] = self.log_start
        self._store.restate(self.place.path, self.place.topic_partition, rows)

    def opened(self, loaded: LoadedLog) -> PartitionLog:
        place = self.place
        return self._store.open_at(
            place.topic_partition, place.topic_id, place.path, place.settings, loaded
        )

    def leave(self) -> None:
        """Flushes that are under way have nothing to say any more."""
        reason = "the restore is over"
        self.log.fault = StorageFault("cannot use", self.place.staging, reason=reason)
        self.log.cool()

    def discard(self) -> None:
        """Nothing of it stays, whatever it is called by now."""
        self.leave()
        path = self.place.path if self.is_placed else self.place.staging
        with contextlib.suppress(StorageFault):
            # What cannot be removed now the next start removes.
            self._store.departures.discard(self.place.topic_partition, path)
