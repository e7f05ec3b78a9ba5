"""Logs that leave the store, and what lies where a new one is to be: directories get another name.

`-delete` is removed after file.delete.delay.ms, or by the next start; `-stray` is kept until
somebody removes it, as in Apache Kafka: nobody has asked for the end of these records. Which of the
two it is follows from topic ids, never from a name alone.
"""

from __future__ import annotations

import logging
import os

from moldau.model.names import TopicPartition
from moldau.storage.directories.delayed_file_deletion import Trash
from moldau.storage.log.log_at_rest import AnyLog
from moldau.storage.log_files import (
    DELETED_DIRECTORY_SUFFIX,
    LOG_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    departed_directory_name,
)
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.log.LogManager")


class Departures:
    def __init__(self, trash: Trash) -> None:
        self._trash = trash

    def retire(self, deleted: AnyLog) -> None:
        """Its files go after file.delete.delay.ms. Raises StorageFault; then they stay where they
        are, and it may be tried again."""
        path = _take_out(deleted, DELETED_DIRECTORY_SUFFIX, "the partition was deleted")
        if path is None:
            return
        log.info(
            "Log for partition %s is renamed to %s and is scheduled for deletion",
            deleted.topic_partition,
            path,
        )
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


def _take_out(leaving: AnyLog, suffix: str, reason: str) -> str | None:
    """Where its directory is now; None if there was none."""
    leaving.fault = StorageFault("cannot use", leaving.directory, reason=reason)
    try:
        return _rename(leaving.topic_partition, leaving.directory, suffix)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageFault.of("cannot rename", leaving.directory, error) from error
    finally:
        leaving.cool()


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
