"""Logs that leave the store, and what lies where a new one is to be: directories get another name.

`-delete` is removed after file.delete.delay.ms, or by the next start; `-stray` is kept until
somebody removes it, as in Apache Kafka: nobody has asked for the end of these records. Which of the
two it is follows from topic ids, never from a name alone. Where many logs leave at once, their
directories are renamed in the store's thread.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from threading import Lock

from moldau.model.names import TopicPartition
from moldau.storage.directories.delayed_file_deletion import Trash
from moldau.storage.directories.storage_threads import Threads
from moldau.storage.log.log_at_rest import AnyLog
from moldau.storage.log_files import (
    DELETED_DIRECTORY_SUFFIX,
    LOG_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    departed_directory_name,
)
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.log.LogManager")

DELETED = "the partition was deleted"
LOGS_PER_WORK = 20
"""So many are renamed in a row; a flush that is due may come in between."""


class Departures:
    def __init__(self, trash: Trash) -> None:
        self._trash = trash

    def retire(self, deleted: AnyLog) -> None:
        """Its files go after file.delete.delay.ms. Raises StorageFault; then they stay where they
        are, and it may be tried again."""
        path = _take_out(deleted, DELETED_DIRECTORY_SUFFIX, DELETED)
        if path is not None:
            _report(deleted, path)
            self.await_end(deleted, path)

    def await_end(self, deleted: AnyLog, path: str) -> None:
        """Its directory is `path` by now."""
        self._trash.discard([path], deleted.settings.file_delete_delay_ms)

    def discard(self, place: TopicPartition, path: str) -> None:
        """The directory of a copy that is not wanted goes at once. Raises StorageFault."""
        try:
            self._trash.discard([_rename(place, path, DELETED_DIRECTORY_SUFFIX)], 0)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageFault.of("cannot rename", path, error) from error

    def set_aside(self, stray: AnyLog, reason: str) -> None:
        """Its files are kept under another name. Raises StorageFault; then they stay."""
        path = _take_out(stray, STRAY_DIRECTORY_SUFFIX, reason)
        if path is not None:
            _warn(stray.directory, reason, path)


class DepartingLogs:
    """Logs that are deleted and whose directories still have their plain names: the thread renames
    them one after another. Whoever needs such a name at once has it renamed at once, so a new log
    never lies where the thread is about to rename an old one."""

    def __init__(
        self,
        departures: Departures,
        threads: Threads,
        stays: Callable[[AnyLog, StorageFault], None],
    ) -> None:
        """`stays(log, fault)` is called for each whose directory could not be renamed."""
        self._departures = departures
        self._threads = threads
        self._stays = stays
        self._left: dict[TopicPartition, AnyLog] = {}
        """Changed only with the lock."""
        self._renaming = Lock()

    def __contains__(self, place: object) -> bool:
        return place in self._left

    def retire(self, deleted: Sequence[AnyLog], done: Callable[[], None]) -> None:
        """None of them is the store's any more; `done` is called when all have been tried."""
        with self._renaming:
            for each in deleted:
                each.fault = StorageFault("cannot use", each.directory, reason=DELETED)
                self._left[each.topic_partition] = each
        works = range(0, len(deleted), LOGS_PER_WORK)
        missing = len(works)

        def work_done(some: Sequence[AnyLog], paths: dict[TopicPartition, str | None]) -> None:
            nonlocal missing
            self._settle(some, paths)
            missing -= 1
            if not missing:
                done()

        for first in works:
            self._rename_some(deleted[first : first + LOGS_PER_WORK], work_done)
        if not works:
            done()

    def _rename_some(
        self,
        some: Sequence[AnyLog],
        done: Callable[[Sequence[AnyLog], dict[TopicPartition, str | None]], None],
    ) -> None:
        paths: dict[TopicPartition, str | None] = {}

        def work() -> StorageFault | None:
            for each in some:
                with self._renaming:
                    if self._left.get(each.topic_partition) is each:
                        self._try(each, paths)
            return None

        self._threads.run(work, lambda _fault: done(some, paths))

    def _try(self, deleted: AnyLog, paths: dict[TopicPartition, str | None]) -> None:
        place = deleted.topic_partition
        try:
            paths[place] = path = _renamed(deleted, DELETED_DIRECTORY_SUFFIX)
        except StorageFault as fault:
            # It is still left: the loop hears of it, or whoever needs the name.
            deleted.fault = fault.to_keep()
            return
        del self._left[place]
        if path is not None:
            _report(deleted, path)

    def _settle(self, some: Sequence[AnyLog], paths: dict[TopicPartition, str | None]) -> None:
        for each in some:
            each.cool()
            path = paths.get(each.topic_partition)
            if path is not None:
                self._departures.await_end(each, path)
            elif self._left.get(each.topic_partition) is each:
                with self._renaming:
                    del self._left[each.topic_partition]
                assert each.fault is not None
                self._stays(each, each.fault)

    def finish(self, place: TopicPartition) -> None:
        """From now on no deleted log of that name is there. Raises StorageFault."""
        if place not in self._left:
            return
        with self._renaming:
            deleted = self._left.get(place)
            if deleted is not None:
                self._departures.retire(deleted)
                del self._left[place]


def _report(deleted: AnyLog, path: str) -> None:
    log.info(
        "Log for partition %s is renamed to %s and is scheduled for deletion",
        deleted.topic_partition,
        path,
    )


def _take_out(leaving: AnyLog, suffix: str, reason: str) -> str | None:
    """Where its directory is now; None if there was none."""
    leaving.fault = StorageFault("cannot use", leaving.directory, reason=reason)
    try:
        return _renamed(leaving, suffix)
    finally:
        leaving.cool()


def _renamed(leaving: AnyLog, suffix: str) -> str | None:
    try:
        return _rename(leaving.topic_partition, leaving.directory, suffix)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageFault.of("cannot rename", leaving.directory, error) from error


def clear_way(place: TopicPartition, path: str) -> None:
    """Nothing that lies where a new log is to be may become a part of it: a deletion that failed,
    or a log that was made and never used. Safe in any thread; raises StorageFault."""
    try:
        with os.scandir(path) as entries:
            has_records = any(
                entry.name.endswith(LOG_SUFFIX) and entry.stat().st_size for entry in entries
            )
        if has_records:
            _warn(path, "a new log takes its place", _rename(place, path, STRAY_DIRECTORY_SUFFIX))
        else:
            _remove(_rename(place, path, DELETED_DIRECTORY_SUFFIX))
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageFault.of("cannot create", path, error) from error


def _rename(place: TopicPartition, path: str, suffix: str) -> str:
    name = departed_directory_name(place, os.urandom(16).hex(), suffix)
    target = os.path.join(os.path.dirname(path), name)
    os.rename(path, target)
    return target


def _remove(path: str) -> None:
    import shutil  # few need it

    shutil.rmtree(path)


def _warn(path: str, reason: str, target: str) -> None:
    log.warning(
        "Log in %s is marked stray and renamed to %s: %s; remove it if it is not needed",
        path,
        target,
        reason,
    )
