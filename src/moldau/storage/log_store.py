"""All logs of a broker, in all its log directories: opening, creating, deleting, housekeeping.

`open` locks and loads everything, in threads after a crash; afterwards all methods run on the
loop's thread and hand what blocks to `threads`. The jobs at the end are for a scheduler to call.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence

from moldau.model.clock import Clock
from moldau.model.errors import ApiError, Error
from moldau.model.names import NO_TOPIC_ID, Millis, Offset, TopicId, TopicPartition, uuid_text
from moldau.storage.checkpoints import HIGH_WATERMARK_FILE, LOG_START_FILE, RECOVERY_POINT_FILE
from moldau.storage.faults import StorageFault
from moldau.storage.files import deleted_directory_name
from moldau.storage.flushing import FlushWork
from moldau.storage.loaded_log import LoadedLog
from moldau.storage.loading import LoadOptions, list_directory, load_directory
from moldau.storage.log import PartitionLog
from moldau.storage.log_directory import Checkpoints, DirectoryInUse, LogDirectory
from moldau.storage.new_logs import MadeLog, NewLog, NewLogs
from moldau.storage.partition_metadata import read_topic_id, write_topic_id
from moldau.storage.settings import LogSettings
from moldau.storage.threads import Threads, run_each
from moldau.storage.trash import Trash

log = logging.getLogger("kafka.log.LogManager")

PRODUCER_EXPIRATION_MS = 86_400_000


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
        paths = dict.fromkeys(os.path.abspath(path) for path in directories)
        self.directories = [LogDirectory(path) for path in paths]
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self._placed: dict[str, dict[TopicPartition, PartitionLog]] = {path: {} for path in paths}
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        """As the last checkpoint had them."""
        self.cluster_id: str | None = None
        self._node_id = node_id
        self._settings_for = settings_for
        self._clock = clock
        self._threads = threads
        self._recovery_threads = recovery_threads
        self._producer_expiration_ms = producer_expiration_ms
        self._trash = Trash(clock, threads)
        self.new_logs = NewLogs(clock, threads, producer_expiration_ms)

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.fault is None]

    @property
    def was_clean(self) -> bool:
        """Whether every directory had been left by a clean stop."""
        return all(directory.was_clean for directory in self.online)

    # -- opening and closing -----------------------------------------------------------------

    def open(self, cluster_id: str | None = None) -> None:
        """Lock and load everything. A directory that cannot be used is left out, with an error in
        the log, as long as another one remains; two brokers in one directory are a fault at once.
        May be called in a thread, before anything else is."""
        started_ms = self._clock.monotonic_ms()
        try:
            self._each_online(LogDirectory.prepare)
            self._identify(cluster_id)
            log.info("Loading logs from log dirs [%s]", ", ".join(d.path for d in self.online))
            self._each_online(self._load)
        except StorageFault:
            self._unlock()
            raise
        unclean = [directory.path for directory in self.online if not directory.was_clean]
        log.info(
            "Loaded %d logs in %dms%s",
            len(self.logs),
            self._clock.monotonic_ms() - started_ms,
            f" (unclean log dirs = {', '.join(unclean)})" if unclean else "",
        )

    def _each_online(self, step: Callable[[LogDirectory], None]) -> None:
        for directory in self.online:
            try:
                step(directory)
            except DirectoryInUse:
                raise
            except StorageFault as fault:
                directory.fault = fault
                log.error("Log directory %s is offline: %s", directory.path, fault)
                directory.unlock()
        if not self.online:
            fault_first = self.directories[0].fault
            assert fault_first is not None
            raise fault_first

    def _identify(self, cluster_id: str | None) -> None:
        """Check that the directories are this node's, of one cluster."""
        for directory in self.online:
            found = directory.read_meta()
            if found.node_id not in (None, self._node_id):
                raise StorageFault(
                    "cannot use log directory",
                    directory.path,
                    reason=f"it belongs to node {found.node_id} and this is node {self._node_id}; "
                    "set node.id back, or use another directory",
                )
            expected = cluster_id or self.cluster_id
            if expected is not None and found.cluster_id not in (None, expected):
                raise StorageFault(
                    "cannot use log directory",
                    directory.path,
                    reason=f"it belongs to cluster {found.cluster_id} and this is {expected}",
                )
            self.cluster_id = expected or found.cluster_id
        for directory in self.online:
            directory.claim(self._node_id, self.cluster_id)

    def claim_cluster(self, cluster_id: str) -> None:
        """Write down the cluster's id, where it became known only after `open`."""
        self._identify(cluster_id)

    def _load(self, directory: LogDirectory) -> None:
        contents = list_directory(directory)
        options = LoadOptions(
            self._settings_for, self._clock, self._recovery_threads, self._producer_expiration_ms
        )
        high_watermarks = directory.high_watermarks()
        for loaded in load_directory(directory, contents.partitions, options):
            partition = loaded.topic_partition
            if partition in self.logs:
                raise StorageFault(
                    "cannot load",
                    loaded.path,
                    reason=f"the same partition is in {self.logs[partition].directory}",
                )
            topic_id = read_topic_id(loaded.path)
            self.put(self.open_at(partition, topic_id, loaded.path, loaded.settings, loaded.log))
            if partition in high_watermarks:
                self.high_watermarks[partition] = high_watermarks[partition]
        for partition_log in self.logs_in(directory).values():
            self._checkpoint_lower_point(partition_log)
        self._trash.discard(contents.deleted, 0)

    def close(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Flush and close every log, write the checkpoints, mark what was left cleanly."""
        log.info("Shutting down.")
        self._threads.stop()
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
                directory.write_checkpoints(self._checkpoints(directory, high_watermarks))
                if all(
                    partition_log.fault is None
                    for partition_log in self.logs_in(directory).values()
                ):
                    directory.leave_clean_mark()
            except StorageFault as fault:
                log.error("Log directory %s was not left cleanly: %s", directory.path, fault)
        for partition_log in self.logs.values():
            partition_log.segments.cool()
        self._unlock()
        log.info("Shutdown complete.")

    def _unlock(self) -> None:
        for directory in self.directories:
            directory.unlock()

    # -- logs --------------------------------------------------------------------------------

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self.logs.get(topic_partition)

    def logs_in(self, directory: LogDirectory) -> Mapping[TopicPartition, PartitionLog]:
        return self._placed[directory.path]

    def create(
        self, topic_partition: TopicPartition, topic_id: TopicId, settings: LogSettings
    ) -> PartitionLog:
        """A new, empty log in the directory that has the fewest; the one that exists, if any."""
        existing = self.logs.get(topic_partition)
        if existing is not None:
            self._check_topic_id(existing, topic_id)
            existing.settings = settings
            return existing
        made = self.new_logs.take(topic_partition, topic_id, [each.path for each in self.online])
        if made is None:
            path = self.new_logs.path_for(topic_partition, self._sizes())
            loaded = self.new_logs.make_now(topic_partition, path, settings)
            made = MadeLog(path, NO_TOPIC_ID, loaded)
        path = made.path
        created = self.open_at(topic_partition, made.topic_id, path, settings, made.loaded)
        self.put(created)
        # There may have been a log of this name: its recovery point is not ours.
        self._checkpoint_lower_point(created)
        self._check_topic_id(created, topic_id)
        log.info("Created log for partition %s in %s", topic_partition, path)
        return created

    def prepare(self, wanted: Sequence[NewLog], done: Callable[[], None]) -> None:
        """Make new logs in the thread, for `create` to find; none of them may exist."""
        self.new_logs.make(wanted, self._sizes(), done)

    def _sizes(self) -> dict[str, int]:
        return {each.path: len(self.logs_in(each)) for each in self.online}

    def _check_topic_id(self, partition_log: PartitionLog, topic_id: TopicId) -> None:
        if partition_log.topic_id == topic_id:
            return
        if partition_log.topic_id != NO_TOPIC_ID:
            raise ApiError(
                Error.INCONSISTENT_TOPIC_ID,
                f"{partition_log.topic_partition} has the topic id "
                f"{uuid_text(partition_log.topic_id)}, not {uuid_text(topic_id)}",
            )
        write_topic_id(partition_log.directory, topic_id)
        partition_log.topic_id = topic_id

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
            self._clock,
            loaded,
            producer_expiration_ms=self._producer_expiration_ms,
            discard=self._trash.discard,
            rolled=self._flush_closed,
            unflushed=self._checkpoint_lower_point,
        )

    def put(self, added: PartitionLog) -> None:
        """Instead of the log that it replaces, if there is one."""
        place = added.topic_partition
        if place in self.logs:
            del self._placed[os.path.dirname(self.logs[place].directory)][place]
        self.logs[place] = added
        self._placed[os.path.dirname(added.directory)][place] = added

    def delete(self, topic_partition: TopicPartition) -> None:
        """Take the log out of service at once; its files go after file.delete.delay.ms."""
        deleted = self.logs.pop(topic_partition)
        del self._placed[os.path.dirname(deleted.directory)][topic_partition]
        self.high_watermarks.pop(topic_partition, None)
        self.retire(deleted)

    def retire(self, deleted: PartitionLog) -> None:
        """The files of a log that is none of the store's any more."""
        topic_partition, parent = deleted.topic_partition, os.path.dirname(deleted.directory)
        path = os.path.join(parent, deleted_directory_name(topic_partition, os.urandom(16).hex()))
        deleted.fault = StorageFault(
            "cannot use", deleted.directory, reason="the partition was deleted"
        )
        try:
            os.rename(deleted.directory, path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageFault.of("cannot rename", deleted.directory, error) from error
        finally:
            deleted.segments.cool()
        log.info(
            "Log for partition %s is renamed to %s and is scheduled for deletion",
            topic_partition,
            path,
        )
        self._trash.discard([path], deleted.settings.file_delete_delay_ms)

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
        return deleted

    def flush_due(self) -> None:
        """Flush what flush.ms has waited for, every log.flush.scheduler.interval.ms."""
        now_ms = self._clock.wall_ms()
        for partition_log in list(self.logs.values()):
            if now_ms - partition_log.flushed_ms >= partition_log.settings.flush_ms:
                self._flush_in_thread(partition_log)

    def write_checkpoints(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Recovery points, log starts and high watermarks, of every directory that changed."""
        for directory in self.online:
            checkpoints = self._checkpoints(directory, high_watermarks)
            self._threads.run(directory.checkpointing(checkpoints), _report)

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
        logs = self.logs_in(directory)
        return {
            RECOVERY_POINT_FILE: {p: each.recovery_point for p, each in logs.items()},
            # Only where it is not the first segment's, which its file name says.
            LOG_START_FILE: {
                p: each.log_start_offset
                for p, each in logs.items()
                if each.log_start_offset > each.segments.base_offset
            },
            HIGH_WATERMARK_FILE: {
                p: min(high_watermarks.get(p, self.high_watermarks.get(p, 0)), each.offset_end)
                for p, each in logs.items()
            },
        }

    def _checkpoint_lower_point(self, partition_log: PartitionLog) -> None:
        """The recovery point on disk must never be above what was flushed: after a power cut
        everything before it is taken for good."""
        partition, parent = partition_log.topic_partition, os.path.dirname(partition_log.directory)
        directory = next(each for each in self.directories if each.path == parent)
        if directory.recovery_point_on_disk(partition) > partition_log.recovery_point:
            points = {p: each.recovery_point for p, each in self.logs_in(directory).items()}
            directory.write_checkpoints({RECOVERY_POINT_FILE: points})

    def _flush_closed(self, partition_log: PartitionLog) -> None:
        """After a roll: the segments that are complete now."""
        self._flush_in_thread(partition_log, closed_only=True)

    def _flush_in_thread(self, partition_log: PartitionLog, *, closed_only: bool = False) -> None:
        partition = partition_log.topic_partition
        try:
            work = partition_log.begin_flush(closed_only=closed_only)
        except StorageFault as fault:
            # Nothing is lost: the recovery point stays, and the next flush tries again.
            log.error("flush failed partition=%s: %s", partition, fault)
            return
        if work is None:
            return
        pending = work

        def done(fault: StorageFault | None) -> None:
            partition_log.finish_flush(pending, fault)
            if fault is not None:
                log.error("flush failed partition=%s: %s", partition, fault)

        self._threads.run(pending.run, done)


def _flush(partition_log: PartitionLog, work: FlushWork) -> Callable[[], None]:
    return lambda: partition_log.finish_flush(work, work.run())


def _report(fault: StorageFault | None) -> None:
    if fault is not None:
        log.error("checkpoint failed: %s", fault)
