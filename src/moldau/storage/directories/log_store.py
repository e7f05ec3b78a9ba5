"""All logs of a broker, in all its log directories: opening, creating, deleting, housekeeping.

`lock` and `load` come first; afterwards all methods run on the loop's thread and hand what blocks
to `storage_threads`. The jobs at the end are for a scheduler to call.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from moldau.model.clock import Clock
from moldau.model.names import NO_TOPIC_ID, Millis, Offset, TopicId, TopicPartition
from moldau.storage.directories.all_log_directories import LogDirectories
from moldau.storage.directories.clean_shutdown import flush_all, leave
from moldau.storage.directories.delayed_file_deletion import Trash
from moldau.storage.directories.leftover_snapshots import remove_unfinished_snapshots
from moldau.storage.directories.log_directory import Checkpoints, LogDirectory, identify
from moldau.storage.directories.log_waking import Waking
from moldau.storage.directories.new_logs import MadeLog, NewLog, NewLogs
from moldau.storage.directories.removed_logs import DepartingLogs, Departures
from moldau.storage.directories.storage_threads import Threads
from moldau.storage.log.loaded_log import LoadedLog
from moldau.storage.log.log_at_rest import AnyLog, RestingLog
from moldau.storage.log.log_flushing import Flusher
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log.rest_notes import AtRest
from moldau.storage.log.segment_list import OpenSegments
from moldau.storage.log_settings import LogSettings
from moldau.storage.log_state.checkpoint_files import (
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    rows_of,
)
from moldau.storage.log_state.partition_metadata import claim_topic_id
from moldau.storage.log_state.producer_room import ProducerLimits, ProducerRoom
from moldau.storage.recovery.duplicate_logs import Rivals
from moldau.storage.recovery.log_loading import LoadOptions, list_directory, load_directory
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.log.LogManager")

USUAL_PRODUCERS = ProducerLimits(expiration_ms=86_400_000, max_bytes=512 * 1024 * 1024)
OPEN_SEGMENTS_MAX = 1_000
"""Opening a file again costs a few microseconds; running out of descriptors costs everything."""
FLUSHES_PER_THREAD = 8
"""At a stop, for each thread that recovery may have: a flush uses no processor, it waits, and a
file system writes what several wait for in one go."""
NOTHING_ONLINE = "no log directory is left"


class LogStore:
    def __init__(
        self,
        directories: Sequence[str],
        *,
        node_id: int,
        settings_for: Callable[[str], LogSettings],
        clock: Clock,
        threads: Threads,
        recovery_threads: int = 2,
        producer_limits: Callable[[], ProducerLimits] = lambda: USUAL_PRODUCERS,
        loading_threads: Threads | None = None,
    ) -> None:
        """`settings_for(topic)` gives the settings that a log found on disk is opened with;
        `recovery_threads` is for each directory; `loading_threads` load logs at rest."""
        self._all = LogDirectories(directories, self._lose)
        self.directories = self._all.all
        self.logs: dict[TopicPartition, AnyLog] = {}
        self._placed: dict[str, dict[TopicPartition, AnyLog]] = {
            directory.path: {} for directory in self.directories
        }
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        """As the last checkpoint had them."""
        self.cluster_id: str | None = None
        self._is_loaded = False
        self._node_id = node_id
        self._settings_for = settings_for
        self.clock = clock
        self._threads = threads
        self._recovery_threads = recovery_threads
        self.producer_room = ProducerRoom(producer_limits)
        self._trash = Trash(clock, threads)
        self.departures = Departures(self._trash)
        self._departing = DepartingLogs(self.departures, threads, self._not_deleted)
        self.rivals = Rivals(self.departures)
        self.new_logs = NewLogs(clock, threads, self.producer_room)
        self.on_failure: list[Callable[[LogDirectory, list[TopicPartition]], None]] = []
        """Called when a directory has failed, with the partitions that were in it."""
        self.on_loaded: list[Callable[[PartitionLog], None]] = []
        """Called when a log that was at rest is loaded, and has taken its own place."""
        self._waking = Waking(self, loading_threads or threads)
        self.flusher = Flusher(threads, self.suspect)
        self._open_segments = OpenSegments(OPEN_SEGMENTS_MAX)

    @property
    def online(self) -> list[LogDirectory]:
        return self._all.online

    @property
    def was_clean(self) -> bool:
        """Whether every directory had been left by a clean stop."""
        return self._all.were_clean

    # -- opening and closing -----------------------------------------------------------------

    def open(self, cluster_id: str | None = None) -> None:
        """For whoever knows the topics' settings by himself; the broker reads them in between."""
        self.lock(cluster_id)
        self.load()

    def lock(self, cluster_id: str | None = None) -> None:
        """A directory that cannot be used is left out, with an error in the log, as long as another
        one remains; two brokers in one directory are a fault at once."""
        try:
            self._all.each_online(LogDirectory.prepare)
            self.claim_cluster(cluster_id or self.cluster_id)
        except StorageFault:
            self._all.unlock()
            raise

    def load(self) -> None:
        """May be called in a thread, before anything else is."""
        started_ms = self.clock.monotonic_ms()
        log.info("Loading logs from log dirs [%s]", ", ".join(d.path for d in self.online))
        self._all.each_online(self._load)
        self._is_loaded = True
        remove_unfinished_snapshots([directory.path for directory in self.online])
        took_ms = self.clock.monotonic_ms() - started_ms
        log.info("Loaded %d logs in %dms%s", len(self.logs), took_ms, self._all.unclean_in_words)

    def claim_cluster(self, cluster_id: str | None) -> None:
        """Write down the cluster's id, as soon as it is known."""
        self.cluster_id = identify(self.online, self._node_id, cluster_id)

    def _load(self, directory: LogDirectory) -> None:
        contents = list_directory(directory)
        options = LoadOptions(
            self._settings_for, self.clock, self._recovery_threads, self.producer_room.expiration_ms
        )
        high_watermarks = directory.high_watermarks()
        for loaded in load_directory(directory, contents.partitions, options):
            partition, settings, topic_id = loaded.topic_partition, loaded.settings, loaded.topic_id
            found = self._found(partition, topic_id, loaded.path, settings, loaded.log)
            known_log, now = self.logs.get(partition), self._waking.wake_now
            wins = self.rivals.settle_found(known_log, found, now)
            if wins is None:
                self._drop(partition)
                continue
            self.put(wins)
            known = self.high_watermarks.get(partition, 0)
            self.high_watermarks[partition] = max(known, high_watermarks.get(partition, 0))
        for partition_log in self.logs_in(directory).values():
            self._lower_checkpoints(partition_log)
        self._trash.discard(contents.deleted, 0)

    def close(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Flush and close every log, write the checkpoints, mark what was left cleanly."""
        log.info("Shutting down.")
        self._waking.stop()
        self._threads.stop()
        if self._is_loaded:
            threads = self._recovery_threads * len(self.online)
            # One means one: then everything happens in order.
            flush_all(self.loaded(), threads * FLUSHES_PER_THREAD if threads > 1 else 1)
            for directory in self.online:
                checkpoints = self._checkpoints(directory, high_watermarks)
                may_be_clean = not self.rivals.lie_in(directory.path)
                changing = self._trash.parents()
                leave(directory, self.logs_in(directory), checkpoints, may_be_clean, changing)
            for partition_log in self.logs.values():
                partition_log.cool()
        self._all.unlock()
        log.info("Shutdown complete.")

    # -- logs --------------------------------------------------------------------------------

    def get(self, topic_partition: TopicPartition) -> AnyLog | None:
        return self.logs.get(topic_partition)

    def loaded(self) -> list[PartitionLog]:
        """All but those at rest."""
        return [each for each in self.logs.values() if isinstance(each, PartitionLog)]

    def is_waking(self, topic_partition: TopicPartition) -> bool:
        """Whether a log at rest is being loaded just now."""
        return self._waking.is_waking(topic_partition)

    def has(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self.logs or topic_partition in self.rivals

    def logs_in(self, directory: LogDirectory) -> Mapping[TopicPartition, AnyLog]:
        return self._placed[directory.path]

    def create(
        self, topic_partition: TopicPartition, topic_id: TopicId, settings: LogSettings
    ) -> AnyLog:
        """A new, empty log in the directory that has the fewest; the one that exists, if any."""
        existing = self.logs.get(topic_partition) or self.rivals.choose(topic_partition, topic_id)
        if existing is not None:
            self.put(existing)
            claim_topic_id(existing, topic_id)
            existing.settings = settings
            return existing
        parents = [each.path for each in self.online]
        if not parents:
            raise StorageFault("cannot create", str(topic_partition), reason=NOTHING_ONLINE)
        self._departing.finish(topic_partition)
        made = self.new_logs.take(topic_partition, topic_id, parents)
        if made is None:
            self.forget_made(topic_partition)
            path = self.new_logs.path_for(topic_partition, self._sizes())
            self._all.forget([topic_partition])
            loaded = self.new_logs.make_now(topic_partition, path, settings)
            made = MadeLog(path, NO_TOPIC_ID, loaded)
        path = made.path
        created = self.open_at(topic_partition, made.topic_id, path, settings, made.loaded)
        self.put(created)
        claim_topic_id(created, topic_id)
        log.info("Created log for partition %s in %s", topic_partition, path)
        return created

    def prepare(self, wanted: Sequence[NewLog], done: Callable[[], None]) -> None:
        """Make new logs in the thread, for `create` to find; none of them may exist."""
        try:
            for each in wanted:
                self._departing.finish(each.topic_partition)
            self._all.forget([each.topic_partition for each in wanted])
        except StorageFault as fault:
            # Whoever creates the logs meets it again and knows what to do.
            log.error("%d logs are not made yet: %s", len(wanted), fault)
            done()
            return
        # With no directory left nothing is made, and `create` says why.
        self.new_logs.make(wanted if self.online else (), self._sizes(), done)

    def forget_made(self, topic_partition: TopicPartition) -> None:
        """A log was made in the thread and is not wanted any more."""
        path = self.new_logs.drop(topic_partition)
        if path is not None:
            self._trash.discard([path], 0)

    def _sizes(self) -> dict[str, int]:
        return {each.path: len(self.logs_in(each)) for each in self.online}

    def open_at(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        path: str,
        settings: LogSettings,
        loaded: LoadedLog,
    ) -> PartitionLog:
        """A log with all that logs of this store share, not yet one of them."""
        return PartitionLog(
            topic_partition,
            topic_id,
            path,
            settings,
            self.clock,
            loaded,
            producer_room=self.producer_room,
            discard=self._trash.discard,
            rolled=self.flusher.flush_closed,
            went_back=self._lower_checkpoints,
            opened=self._open_segments.add,
            flush_aside=self.flusher.flush_aside,
        )

    def _found(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        path: str,
        settings: LogSettings,
        log: LoadedLog | AtRest,
    ) -> AnyLog:
        if isinstance(log, LoadedLog):
            return self.open_at(topic_partition, topic_id, path, settings, log)
        now_ms, wake = self.clock.wall_ms(), self._waking.wake
        return RestingLog(topic_partition, topic_id, path, settings, log, now_ms, wake)

    def put(self, added: AnyLog) -> None:
        """Instead of the log that it replaces, if there is one."""
        place = added.topic_partition
        if place in self.logs:
            del self._placed[os.path.dirname(self.logs[place].directory)][place]
        self.logs[place] = added
        self._placed[os.path.dirname(added.directory)][place] = added

    def restate(self, path: str, topic_partition: TopicPartition, rows: Mapping[str, int]) -> None:
        """What the checkpoints beside `path`, where a new log is to be, say of it."""
        self._all.of(path).restate({topic_partition: rows})

    def delete(self, topic_partition: TopicPartition) -> None:
        """Take the log out of service at once; its files go after file.delete.delay.ms. Raises
        StorageFault; then the log is still there, unusable, and may be deleted again."""
        self.departures.retire(self.logs[topic_partition])
        self._drop(topic_partition)

    def delete_all(self, places: Sequence[TopicPartition], done: Callable[[], None]) -> None:
        """As `delete`, for many: their directories are renamed in the thread, and `done` is called
        when that is over. What could not be renamed is still there then, as after `delete`."""
        deleted = [self.logs[place] for place in places]
        for place in places:
            self._drop(place)
        self._departing.retire(deleted, done)

    def _not_deleted(self, partition_log: AnyLog, fault: StorageFault) -> None:
        place = partition_log.topic_partition
        log.error("log not deleted partition=%s: %s", place, fault)
        if place not in self.logs and self._all.of(partition_log.directory).fault is None:
            self.put(partition_log)

    def set_aside(self, topic_partition: TopicPartition, reason: str) -> None:
        """Take the log out of service and keep its files under another name; raises as `delete`."""
        self.departures.set_aside(self.logs[topic_partition], reason)
        self._drop(topic_partition)

    def _drop(self, topic_partition: TopicPartition) -> None:
        dropped = self.logs.pop(topic_partition, None)
        if dropped is not None:
            del self._placed[os.path.dirname(dropped.directory)][topic_partition]
        self.high_watermarks.pop(topic_partition, None)

    # -- periodic jobs -----------------------------------------------------------------------

    def delete_old_segments(self, high_watermark: Callable[[TopicPartition], Offset | None]) -> int:
        """Retention, every log.retention.check.interval.ms; how many segments went."""
        now_ms, deleted = self.clock.wall_ms(), 0
        for partition, partition_log in list(self.logs.items()):
            committed = high_watermark(partition)
            if committed is None or partition_log.fault is not None:
                continue
            if isinstance(partition_log, PartitionLog):
                deleted += self._retain(partition_log, now_ms, committed)
            elif partition_log.may_lose_segments(now_ms):
                partition_log.wake(partial(self._retain_woken, partition_log, high_watermark))
        return deleted

    def _retain(self, partition_log: PartitionLog, now_ms: Millis, committed: Offset) -> int:
        try:
            return partition_log.delete_old_segments(now_ms, committed)
        except StorageFault as fault:
            log.error("retention failed partition=%s: %s", partition_log.topic_partition, fault)
            self.suspect(partition_log, fault)
            return 0

    def _retain_woken(
        self,
        rested: RestingLog,
        high_watermark: Callable[[TopicPartition], Offset | None],
        woken: PartitionLog | StorageFault,
    ) -> None:
        committed = high_watermark(rested.topic_partition)
        if isinstance(woken, StorageFault):
            log.error("retention failed partition=%s: %s", rested.topic_partition, woken)
            self.suspect(rested, woken)
        elif committed is not None and woken.fault is None:
            self._retain(woken, self.clock.wall_ms(), committed)

    def flush_due(self) -> None:
        """Flush what flush.ms has waited for, every log.flush.scheduler.interval.ms."""
        now_ms = self.clock.wall_ms()
        for partition_log in self.loaded():
            if now_ms - partition_log.flushed_ms >= partition_log.settings.flush_ms:
                self.flusher.flush(partition_log)

    def write_checkpoints(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Recovery points, log starts and high watermarks, of every directory that changed."""
        for directory in self.online:
            checkpoints = self._checkpoints(directory, high_watermarks)
            self._threads.run(
                directory.checkpointing(checkpoints), partial(self._checkpointed, directory)
            )

    def _checkpointed(self, directory: LogDirectory, fault: StorageFault | None) -> None:
        if fault is not None:
            log.error("checkpoint failed: %s", fault)
            self._all.suspect(directory, fault)

    def expire_producers(self) -> int:
        """Forget producers silent for producer.id.expiration.ms; how many."""
        now_ms = self.clock.wall_ms()
        return sum(partition_log.expire_producers(now_ms) for partition_log in self.loaded())

    def bound_producers(self) -> Iterator[None]:
        """Each minute; whoever goes through it may rest between steps."""
        return self.producer_room.pass_minute(lambda: (each.producers for each in self.loaded()))

    def remove_deleted_files(self) -> None:
        """Remove files whose file.delete.delay.ms is over."""
        self._trash.remove_due()

    def _checkpoints(
        self, directory: LogDirectory, high_watermarks: Mapping[TopicPartition, Offset]
    ) -> Checkpoints:
        known = {**self.high_watermarks, **high_watermarks}
        return rows_of(self.logs_in(directory), known)

    def _lower_checkpoints(self, partition_log: AnyLog) -> None:
        """On disk the recovery point must never be above what was flushed: after a power cut all
        before it is taken for good. Nor may the log start be above the log's: records that are
        written between the two would be gone after a crash. Nor what was compacted above the end:
        a tombstone written there would go before the value that it deletes."""
        partition, directory = partition_log.topic_partition, self._all.of(partition_log.directory)
        highest = {
            RECOVERY_POINT_FILE: partition_log.recovery_point,
            LOG_START_FILE: partition_log.log_start_offset,
        }
        too_high = directory.saying_more(partition, highest)
        if too_high:
            rows = rows_of(self.logs_in(directory), {})
            directory.write_checkpoints({name: rows[name] for name in too_high})
        offset_end, cleaned_end = partition_log.offset_end, partition_log.cleaned_end
        directory.lower_cleaned(partition, offset_end, cleaned_end)

    # -- directories that fail ---------------------------------------------------------------

    def suspect(self, partition_log: AnyLog, fault: StorageFault) -> None:
        """After `fault` in one log: should its whole directory have failed, take that offline."""
        self._all.suspect(self._all.of(partition_log.directory), fault)

    def look_at_directories(self) -> None:
        self._all.look()

    def _lose(self, directory: LogDirectory) -> None:
        lost, self._placed[directory.path] = self._placed[directory.path], {}
        for partition, partition_log in lost.items():
            partition_log.fault = directory.fault
            partition_log.cool()
            del self.logs[partition]
        for listener in self.on_failure:
            listener(directory, list(lost))
