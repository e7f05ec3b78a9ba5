"""A copy of a log in another log directory, `<topic>-<partition>.<unique>-future` until it has all.

Then it takes the log's place: what is on disk is compared with the source, the copy gets the plain
name, which is made durable, and the old directory is marked as deleted. A crash in between leaves
the partition in two directories, which both have all of it: `duplicate_logs.py` keeps one of them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re

from moldau.model.names import Offset, TopicPartition
from moldau.records.batch import Buffer, read_overhead
from moldau.storage.directories.log_store import LogStore
from moldau.storage.directories.removed_logs import clear_way
from moldau.storage.log.loaded_log import LoadedLog
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log.segment import Segment
from moldau.storage.log_files import (
    FUTURE_DIRECTORY_SUFFIX,
    departed_directory_name,
    sync_directory,
)
from moldau.storage.log_state.checkpoint_files import (
    CLEANER_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
)
from moldau.storage.log_state.partition_metadata import write_topic_id
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.log.LogManager")

_FUTURE_NAME = re.compile(r"(.+)-(\d+)\.[0-9a-f]{32}" + FUTURE_DIRECTORY_SUFFIX)


def future_directory_name(partition: TopicPartition, unique: str) -> str:
    return departed_directory_name(partition, unique, FUTURE_DIRECTORY_SUFFIX)


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
        """With all that the source has, become the store's log of this partition. Raises
        StorageFault; then the source is still the log."""
        source, copy, store = self.source, self.log, self._store
        assert copy.offset_end == source.offset_end, "the copy is not complete"
        copy.advance_log_start(source.log_start_offset)
        # It may remember producers whose batches are gone.
        copy.producers = source.producers
        copy.segments.active.seal()
        copy.take_snapshot()
        copy.flush()
        copy.segments.cool()
        self._compare(self._load(copy.directory))
        path = os.path.join(self.parent, str(source.topic_partition))
        loaded = self._rename(path)
        # Flushes that are under way for the old name have nothing to say any more.
        copy.fault = StorageFault("cannot use", copy.directory, reason=f"it is {path} now")
        loaded = loaded._replace(log_start_offset=source.log_start_offset)
        moved = store.open_at(
            source.topic_partition, source.topic_id, path, source.settings, loaded
        )
        moved.cleaned_end = source.cleaned_end
        store.put(moved)
        # The copy is on disk, and with it all that was to be flushed here.
        source.release_waiting(None)
        try:
            store.departures.retire(source)
        except StorageFault as fault:
            log.error("%s; the next start sets it aside", fault)
            store.suspect(source, fault)
        return moved

    def _load(self, path: str) -> LoadedLog:
        source = self.source
        try:
            return self._store.new_logs.load(source.topic_partition, path, source.settings)
        except OSError as error:
            raise StorageFault.of("cannot load the log in", path, error) from error

    def _compare(self, loaded: LoadedLog) -> None:
        """What is on disk with what was copied, and with what the source has: should files have
        gone meanwhile, the source must stay. The source may be smaller, if it was compacted."""
        source, base = self.source, loaded.segments[0].base_offset
        size_bytes = sum(segment.size_bytes for segment in loaded.segments)
        later_bytes = sum(each.size_bytes for each in source.segments if each.base_offset >= base)
        if (
            _outline(loaded.segments) != _outline(self.log.segments.as_list())
            or loaded.offset_end != source.offset_end
            or base > source.log_start_offset
            or size_bytes < later_bytes
        ):
            reason = (
                f"it has offsets {base} to {loaded.offset_end} in {size_bytes} bytes and "
                f"{len(loaded.segments)} segments, and {source.directory} has offsets "
                f"{source.log_start_offset} to {source.offset_end}, {later_bytes} bytes of them in "
                f"segments from {base} on; {self.log.size_bytes} bytes were copied"
            )
            raise StorageFault("cannot use the copy in", self.log.directory, reason=reason)

    def _rename(self, path: str) -> LoadedLog:
        """Give the copy its plain name and load it from there; back if that cannot be."""
        copy, place = self.log, self.source.topic_partition
        rows = {RECOVERY_POINT_FILE: copy.offset_end}
        if self.source.log_start_offset > copy.base_offset:
            rows[LOG_START_FILE] = self.source.log_start_offset
        if self.source.cleaned_end:
            rows[CLEANER_FILE] = self.source.cleaned_end
        clear_way(place, path)
        # Before the name: what they say of an earlier log of this name is not about ours.
        self._store.restate(path, place, rows)
        try:
            os.rename(copy.directory, path)
        except OSError as error:
            raise StorageFault.of("cannot rename", copy.directory, error) from error
        try:
            sync_directory(self.parent)
            loaded = self._load(path)
            self._compare(loaded)
            return loaded
        except (OSError, StorageFault) as error:
            with contextlib.suppress(OSError):
                os.rename(path, copy.directory)
            if isinstance(error, OSError):
                raise StorageFault.of("cannot flush", self.parent, error) from error
            raise

    def discard(self) -> None:
        self._store.departures.retire(self.log)


def _outline(segments: list[Segment]) -> list[tuple[Offset, int]]:
    return [(segment.base_offset, segment.size_bytes) for segment in segments]


def leftovers(store: LogStore) -> dict[TopicPartition, list[str]]:
    """Copies that an earlier run of this broker did not finish, before there are any of this one:
    which directories each is in."""
    found: dict[TopicPartition, list[str]] = {}
    for directory in store.online:
        with os.scandir(directory.path) as entries:
            for entry in entries:
                place = parse_future_directory(entry.name)
                if place is not None and entry.is_dir():
                    found.setdefault(place, []).append(entry.path)
    return found
