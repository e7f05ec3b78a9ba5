"""All logs of a broker, in all its log directories: opening, creating, deleting, housekeeping.

`lock` and `load` come first; afterwards all methods run on the loop's thread and hand what blocks
to `threads`. The jobs at the end are for a scheduler to call.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from moldau.model.clock import Clock
from moldau.model.names import NO_TOPIC_ID, Millis, Offset, TopicId, TopicPartition
from moldau.storage.checkpoints import RECOVERY_POINT_FILE, rows_of
from moldau.storage.departures import Departures
from moldau.storage.faults import StorageFault
from moldau.storage.flushing import Flusher, FlushWork
from moldau.storage.loaded_log import LoadedLog
from moldau.storage.loading import LoadOptions, list_directory, load_directory, load_files
from moldau.storage.log import PartitionLog
from moldau.storage.log_directories import LogDirectories
from moldau.storage.log_directory import Checkpoints, LogDirectory, identify
from moldau.storage.new_logs import MadeLog, NewLog, NewLogs
from moldau.storage.partition_metadata import claim_topic_id
from moldau.storage.recovery import Recovery
from moldau.storage.rest import AtRest, note_of, write_notes
from moldau.storage.rivals import Rivals
from moldau.storage.segments import OpenSegments
from moldau.storage.settings import LogSettings
from moldau.storage.threads import Threads, run_each
from moldau.storage.trash import Trash

log = logging.getLogger("kafka.log.LogManager")

PRODUCER_EXPIRATION_MS = 86_400_000
OPEN_SEGMENTS_MAX = 1_000
"""Opening a file again costs a few microseconds; running out of descriptors costs everything."""
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
        producer_expiration_ms: Millis = PRODUCER_EXPIRATION_MS,
    ) -> None:
        """`settings_for(topic)` gives the settings that a log found on disk is opened with;
        `recovery_threads` is for each directory."""
        self._all = LogDirectories(directories, self._lose)
        self.directories = self._all.all
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self._placed: dict[str, dict[TopicPartition, PartitionLog]] = {
            directory.path: {} for directory in self.directories
        }
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        """As the last checkpoint had them."""
        self.cluster_id: str | None = None
        self._is_loaded = False
        self._node_id = node_id
        self._settings_for = settings_for
        self._clock = clock
        self._threads = threads
        self._recovery_threads = recovery_threads
        self._producer_expiration_ms = producer_expiration_ms
        self._trash = Trash(clock, threads)
        self.departures = Departures(self._trash)
        self.rivals = Rivals(self.departures)
        self.new_logs = NewLogs(clock, threads, producer_expiration_ms)
        self.on_failure: list[Callable[[LogDirectory, list[TopicPartition]], None]] = []
        """Called when a directory has failed, with the partitions that were in it."""
        self._flusher = Flusher(threads, self.suspect)
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
        started_ms = self._clock.monotonic_ms()
        log.info("Loading logs from log dirs [%s]", ", ".join(d.path for d in self.online))
        self._all.each_online(self._load)
        self._is_loaded = True
        took_ms = self._clock.monotonic_ms() - started_ms
        log.info("Loaded %d logs in %dms%s", len(self.logs), took_ms, self._all.unclean_in_words)

    def claim_cluster(self, cluster_id: str | None) -> None:
        """Write down the cluster's id, as soon as it is known."""
        self.cluster_id = identify(self.online, self._node_id, cluster_id)

    def _load(self, directory: LogDirectory) -> None:
        contents = list_directory(directory)
        options = LoadOptions(
            self._settings_for, self._clock, self._recovery_threads, self._producer_expiration_ms
        )
        high_watermarks = directory.high_watermarks()
        for loaded in load_directory(directory, contents.partitions, options):
            partition, settings, topic_id = loaded.topic_partition, loaded.settings, loaded.topic_id
            found = self.open_at(partition, topic_id, loaded.path, settings, loaded.log)
            wins = self.rivals.settle_found(self.logs.get(partition), found)
            if wins is None:
                self._drop(partition)
                continue
            self.put(wins)
            known = self.high_watermarks.get(partition, 0)
            self.high_watermarks[partition] = max(known, high_watermarks.get(partition, 0))
        for partition_log in self.logs_in(directory).values():
            self._checkpoint_lower_point(partition_log)
        self._trash.discard(contents.deleted, 0)

    def close(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Flush and close every log, write the checkpoints, mark what was left cleanly."""
        log.info("Shutting down.")
        self._threads.stop()
        if not self._is_loaded:
            self._all.unlock()
            return
        works = []
        for partition_log in self.logs.values():
            try:
                work = None if partition_log.fault else partition_log.begin_close()
            except StorageFault as fault:
                partition_log.fault = fault.to_keep()
                continue
            if work is not None:
                works.append(_flush(partition_log, work))
        run_each(works, self._recovery_threads * len(self.online))
        for directory in self.online:
            try:
                self._leave(directory, self._checkpoints(directory, high_watermarks))
            except StorageFault as fault:
                log.error("Log directory %s was not left cleanly: %s", directory.path, fault)
        for partition_log in self.logs.values():
            partition_log.cool()
        self._all.unlock()
        log.info("Shutdown complete.")

    def _leave(self, directory: LogDirectory, checkpoints: Checkpoints) -> None:
        logs = self.logs_in(directory)
        directory.flush_names()
        directory.write_checkpoints(checkpoints)
        if any(partition_log.fault is not None for partition_log in logs.values()):
            return
        if self.rivals.lie_in(directory.path):
            return
        changing = self._trash.parents()
        notes = {
            partition: note_of(partition_log)
            for partition, partition_log in logs.items()
            if partition_log.directory not in changing
        }
        with contextlib.suppress(StorageFault):
            # Without notes the next start takes longer, that is all.
            write_notes(directory.path, {p: note for p, note in notes.items() if note is not None})
        directory.leave_clean_mark()

    # -- logs --------------------------------------------------------------------------------

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self.logs.get(topic_partition)

    def has(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self.logs or topic_partition in self.rivals

    def logs_in(self, directory: LogDirectory) -> Mapping[TopicPartition, PartitionLog]:
        return self._placed[directory.path]

    def create(
        self, topic_partition: TopicPartition, topic_id: TopicId, settings: LogSettings
    ) -> PartitionLog:
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
            self._all.forget([each.topic_partition for each in wanted])
        except StorageFault as fault:
            # Whoever creates the logs meets it again and knows what to do.
            log.error("checkpoint failed: %s", fault)
            done()
            return
        self.new_logs.make(wanted, self._sizes(), done)

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
        loaded: LoadedLog | AtRest,
    ) -> PartitionLog:
        """A log with all that logs of this store share, not yet one of them."""
        return PartitionLog(
            topic_partition,
            topic_id,
            path,
            settings,
            self._clock,
            loaded,
            producer_expiration_ms=self._producer_expiration_ms,
            discard=self._trash.discard,
            rolled=self._flusher.flush_closed,
            unflushed=self._checkpoint_lower_point,
            load=self._load_at_last,
            opened=self._open_segments.add,
        )

    def _load_at_last(self, rested: PartitionLog) -> LoadedLog:
        """The files of a log that was at rest. Raises StorageFault."""
        known = Recovery(
            rested.topic_partition,
            rested.directory,
            rested.settings,
            True,
            rested.log_start_offset,
            rested.recovery_point,
            self._clock,
            self._producer_expiration_ms,
        )
        return load_files(known)

    def put(self, added: PartitionLog) -> None:
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
        now_ms, deleted = self._clock.wall_ms(), 0
        for partition, partition_log in list(self.logs.items()):
            committed = high_watermark(partition)
            if committed is None or partition_log.fault is not None:
                continue
            try:
                deleted += partition_log.delete_old_segments(now_ms, committed)
            except StorageFault as fault:
                log.error("retention failed partition=%s: %s", partition, fault)
                self.suspect(partition_log, fault)
        return deleted

    def flush_due(self) -> None:
        """Flush what flush.ms has waited for, every log.flush.scheduler.interval.ms."""
        now_ms = self._clock.wall_ms()
        for partition_log in list(self.logs.values()):
            if now_ms - partition_log.flushed_ms >= partition_log.settings.flush_ms:
                self._flusher.flush(partition_log)

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
        now_ms = self._clock.wall_ms()
        return sum(partition_log.expire_producers(now_ms) for partition_log in self.logs.values())

    def remove_deleted_files(self) -> None:
        """Remove files whose file.delete.delay.ms is over."""
        self._trash.remove_due()

    def _checkpoints(
        self, directory: LogDirectory, high_watermarks: Mapping[TopicPartition, Offset]
    ) -> Checkpoints:
        known = {**self.high_watermarks, **high_watermarks}
        return rows_of(self.logs_in(directory), known)

    def _checkpoint_lower_point(self, partition_log: PartitionLog) -> None:
        """The recovery point on disk must never be above what was flushed: after a power cut
        everything before it is taken for good."""
        partition, directory = partition_log.topic_partition, self._all.of(partition_log.directory)
        if directory.recovery_point_on_disk(partition) > partition_log.recovery_point:
            points = {p: each.recovery_point for p, each in self.logs_in(directory).items()}
            directory.write_checkpoints({RECOVERY_POINT_FILE: points})

    # -- directories that fail ---------------------------------------------------------------

    def suspect(self, partition_log: PartitionLog, fault: StorageFault) -> None:
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


def _flush(partition_log: PartitionLog, work: FlushWork) -> Callable[[], None]:
    # Their common parent is flushed once, for all.
    work = work._replace(directories=(partition_log.directory,))

    def run() -> None:
        partition_log.finish_flush(work, work.run())

    return run
