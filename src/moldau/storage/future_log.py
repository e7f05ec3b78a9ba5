"""A copy of a log in another log directory, `<topic>-<partition>.<unique>-future` until it has all.

Then it takes the log's place: first it gets the plain name, which is made durable, then the old
directory is marked as deleted. A crash in between leaves the partition in two directories, and
the next start says so, as Apache Kafka's does.
"""

from __future__ import annotations

import os
import re

from moldau.model.names import Offset, TopicPartition
from moldau.records.batch import Buffer, read_overhead
from moldau.storage.faults import StorageFault
from moldau.storage.files import (
    DIRECTORY_NAME_LENGTH_MAX,
    FUTURE_DIRECTORY_SUFFIX,
    sync_directory,
)
from moldau.storage.log import PartitionLog
from moldau.storage.log_store import LogStore
from moldau.storage.partition_metadata import write_topic_id

_FUTURE_NAME = re.compile(r"(.+)-(\d+)\.[0-9a-f]{32}" + FUTURE_DIRECTORY_SUFFIX)


def future_directory_name(partition: TopicPartition, unique: str) -> str:
    suffix = f"-{partition.partition}.{unique}{FUTURE_DIRECTORY_SUFFIX}"
    return partition.topic[: DIRECTORY_NAME_LENGTH_MAX - len(suffix)] + suffix


def parse_future_directory(name: str) -> TopicPartition | None:
    match = _FUTURE_NAME.fullmatch(name)
    return TopicPartition(match[1], int(match[2])) if match else None


class FutureLog:
    def __init__(self, store: LogStore, source: PartitionLog, parent: str) -> None:
        """An empty copy in the directory `parent`. Raises StorageFault."""
        place = source.topic_partition
        path = os.path.join(parent, future_directory_name(place, os.urandom(16).hex()))
        loaded = store.new_logs.make_now(place, path, source.settings)
        self.source = source
        self.parent = parent
        self.log = store.open_at(place, source.topic_id, path, source.settings, loaded)
        self._store = store
        write_topic_id(path, source.topic_id)
        if source.log_start_offset:
            self.log.truncate_fully(source.log_start_offset)

    @property
    def offset_lag(self) -> Offset:
        return self.source.offset_end - self.log.offset_end

    def align(self) -> None:
        """Drop what the source has not, or no longer has."""
        source, log = self.source, self.log
        if log.offset_end < source.log_start_offset or log.log_start_offset > source.offset_end:
            log.truncate_fully(source.log_start_offset)
        log.truncate_to(min(log.offset_end, source.offset_end))
        if log.latest_epoch >= 0 and log.offset_end > log.log_start_offset:
            epoch, offset_end = source.epoch_end_offset(log.latest_epoch)
            if epoch < log.latest_epoch or offset_end < log.offset_end:
                # The source was truncated meanwhile, and perhaps written to again.
                log.truncate_to(max(offset_end, log.log_start_offset))
        if source.log_start_offset <= log.offset_end:
            log.advance_log_start(source.log_start_offset)

    def append(self, records: Buffer) -> None:
        """Batches of the source, from this copy's end on."""
        log = self.log
        first, _ = read_overhead(records)
        if log.log_start_offset == log.offset_end and first < log.offset_end:
            # Records were deleted up to the middle of a batch, and batches are whole.
            log.truncate_fully(first)
        log.append_as_follower(records)

    def take_over(self) -> PartitionLog:
        """With all that the source has, become the store's log of this partition."""
        source, log, store = self.source, self.log, self._store
        assert log.offset_end == source.offset_end, "the copy is not complete"
        log.advance_log_start(source.log_start_offset)
        # It may remember producers whose batches are gone.
        log.producers = source.producers
        log.segments.active.seal()
        log.take_snapshot()
        log.flush()
        log.segments.cool()
        place = source.topic_partition
        path = os.path.join(self.parent, str(place))
        try:
            os.rename(log.directory, path)
            sync_directory(self.parent)
        except OSError as error:
            raise StorageFault.of("cannot rename", log.directory, error) from error
        loaded = store.new_logs.make_now(place, path, source.settings)
        loaded = loaded._replace(log_start_offset=source.log_start_offset)
        moved = store.open_at(place, source.topic_id, path, source.settings, loaded)
        store.put(moved)
        store.retire(source)
        return moved

    def discard(self) -> None:
        self._store.retire(self.log)


def leftovers(store: LogStore) -> dict[TopicPartition, str]:
    """Copies that an earlier run of this broker did not finish: which directory each is in."""
    found = {}
    for directory in store.online:
        with os.scandir(directory.path) as entries:
            for entry in entries:
                place = parse_future_directory(entry.name)
                if place is not None and entry.is_dir():
                    found[place] = entry.path
    return found
