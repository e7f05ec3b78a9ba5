"""New logs, made ahead of their use in the store's thread.

A new log is five small files, and the file system may let each wait while others flush: a topic
of a thousand partitions would hold the loop up for seconds. A new log begins with nothing: what
lies in its place, a directory that was made and never taken included, is cleared away first.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from moldau.model.clock import Clock
from moldau.model.names import NO_TOPIC_ID, TopicId, TopicPartition
from moldau.storage.directories.removed_logs import clear_way
from moldau.storage.directories.storage_threads import Threads
from moldau.storage.log.partition_log import LoadedLog
from moldau.storage.log_files import DELETED_DIRECTORY_SUFFIX, departed_directory_name
from moldau.storage.log_settings import LogSettings
from moldau.storage.log_state.partition_metadata import write_topic_id
from moldau.storage.log_state.producer_room import ProducerRoom
from moldau.storage.recovery.log_loading import load_files
from moldau.storage.recovery.log_recovery import Recovery
from moldau.storage.storage_faults import StorageFault

LOGS_PER_WORK = 20
"""So many in a row; a flush that is due may come in between."""


class NewLog(NamedTuple):
    topic_partition: TopicPartition
    topic_id: TopicId
    settings: LogSettings
    leader_epoch: int | None
    """What it is to begin with, if this broker leads."""


class MadeLog(NamedTuple):
    path: str
    topic_id: TopicId
    loaded: LoadedLog


class NewLogs:
    def __init__(self, clock: Clock, threads: Threads, producer_room: ProducerRoom) -> None:
        self._clock = clock
        self._threads = threads
        self._producer_room = producer_room
        self._made: dict[TopicPartition, MadeLog] = {}
        self.preferred: dict[TopicPartition, str] = {}
        """The directories that logs are wanted in once they come to this broker."""

    def make(
        self, wanted: Sequence[NewLog], sizes: Mapping[str, int], done: Callable[[], None]
    ) -> None:
        """In the directories that have the fewest logs, as `sizes` counts them; `done` is called on
        the loop's thread. Nobody else may create any of these logs until then."""
        counts = dict(sizes)
        placed = []
        for each in wanted:
            path = self.path_for(each.topic_partition, counts)
            counts[os.path.dirname(path)] += 1
            placed.append((each, path))
        works = [placed[at : at + LOGS_PER_WORK] for at in range(0, len(placed), LOGS_PER_WORK)]
        missing = len(works)

        def work_done(_fault: StorageFault | None) -> None:
            nonlocal missing
            missing -= 1
            if not missing:
                done()

        for some in works:
            self._threads.run(self._making(some), work_done)
        if not works:
            done()

    def _making(self, placed: Sequence[tuple[NewLog, str]]) -> Callable[[], StorageFault | None]:
        def work() -> StorageFault | None:
            for wanted, path in placed:
                try:
                    made = self.make_now(wanted.topic_partition, path, wanted.settings)
                    if wanted.topic_id != NO_TOPIC_ID:
                        write_topic_id(path, wanted.topic_id)
                    if wanted.leader_epoch is not None and not made.segments[-1].offset_end:
                        made.epochs.assign(wanted.leader_epoch, 0)
                except StorageFault as fault:
                    # Whoever creates the log meets it again and knows what to do.
                    return fault
                self._made[wanted.topic_partition] = MadeLog(path, wanted.topic_id, made)
            return None

        return work

    def __contains__(self, topic_partition: object) -> bool:
        """Whether the log was made, and nobody has taken it yet."""
        return topic_partition in self._made

    def path_for(self, topic_partition: TopicPartition, sizes: Mapping[str, int]) -> str:
        """In the directory that was asked for, or in the one with the fewest logs."""
        parent = self.preferred.pop(topic_partition, "")
        if parent not in sizes:
            parent = min(sizes, key=sizes.__getitem__)
        return os.path.join(parent, str(topic_partition))

    def make_now(
        self, topic_partition: TopicPartition, path: str, settings: LogSettings
    ) -> LoadedLog:
        """An empty log; raises StorageFault."""
        clear_way(topic_partition, path)
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise StorageFault.of("cannot create", path, error) from error
        return self.load(topic_partition, path, settings)

    def load(self, topic_partition: TopicPartition, path: str, settings: LogSettings) -> LoadedLog:
        """The log whose files lie in `path`, complete and flushed. Raises StorageFault."""
        known = Recovery(
            topic_partition,
            path,
            settings,
            True,
            0,
            0,
            self._clock,
            self._producer_room.expiration_ms,
        )
        return load_files(known)

    def take(
        self, topic_partition: TopicPartition, topic_id: TopicId, parents: Sequence[str]
    ) -> MadeLog | None:
        """What was made for this very topic in one of these directories."""
        made = self._made.get(topic_partition)
        if made is None or made.topic_id != topic_id or os.path.dirname(made.path) not in parents:
            return None
        return self._made.pop(topic_partition)

    def drop(self, topic_partition: TopicPartition) -> str | None:
        """Rename what was made so that nobody takes it for a log; where it lies now."""
        made = self._made.pop(topic_partition, None)
        if made is None:
            return None
        parent = os.path.dirname(made.path)
        unique = os.urandom(16).hex()
        name = departed_directory_name(topic_partition, unique, DELETED_DIRECTORY_SUFFIX)
        path = os.path.join(parent, name)
        with contextlib.suppress(OSError):
            os.rename(made.path, path)
        return path
