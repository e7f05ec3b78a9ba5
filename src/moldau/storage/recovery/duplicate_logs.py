"""One partition in two log directories: which of the logs is it?

A move between directories that was killed between its two renames leaves two logs of one topic, the
copy and its source; so does a directory that failed while its log was being taken away. The one
that reaches further is the partition's, and both have all of it after a kill: the other is kept as
a stray. A directory that was out of service while a topic was deleted and made anew brings back a
log of the old one: these wait until somebody names the topic's id.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable

from moldau.model.names import NO_TOPIC_ID, TopicId, TopicPartition
from moldau.storage.directories.removed_logs import Departures
from moldau.storage.log.log_at_rest import AnyLog
from moldau.storage.log.partition_log import PartitionLog
from moldau.storage.log_files import PARTITION_METADATA_FILE
from moldau.storage.storage_faults import StorageFault

log = logging.getLogger("kafka.log.LogManager")


class Rivals:
    def __init__(self, departures: Departures) -> None:
        self._departures = departures
        self._waiting: dict[TopicPartition, list[AnyLog]] = {}

    def __contains__(self, place: TopicPartition) -> bool:
        return place in self._waiting

    def lie_in(self, parent: str) -> bool:
        """Whether a log there waits for somebody to choose."""
        waiting = (each for rivals in self._waiting.values() for each in rivals)
        return any(os.path.dirname(each.directory) == parent for each in waiting)

    def settle_found(
        self, known: AnyLog | None, found: AnyLog, loaded: Callable[[AnyLog], PartitionLog]
    ) -> AnyLog | None:
        """The log of the partition, after `found` was met beside the one that is known, if any;
        None if nobody can tell yet. `loaded(log)` reads the files of one. Raises StorageFault."""
        place = found.topic_partition
        if place in self._waiting:
            self._waiting[place].append(found)
            return None
        if known is None:
            return found
        if NO_TOPIC_ID not in (ids := {known.topic_id, found.topic_id}) and len(ids) > 1:
            log.warning(
                "%s and %s are of different topics: neither is served until its topic is known",
                known.directory,
                found.directory,
            )
            self._waiting[place] = [known, found]
            return None
        by_reach = sorted((known, found), key=lambda each: _reach(loaded(each)), reverse=True)
        kept, left = by_reach
        reason = f"the same partition is in {kept.directory}, up to offset {kept.offset_end}"
        self._departures.set_aside(left, reason)
        return kept

    def choose(self, place: TopicPartition, topic_id: TopicId) -> AnyLog | None:
        """Of the logs that wait, the one of that topic; the others are kept as strays. Raises
        StorageFault."""
        waiting = self._waiting.get(place)
        if waiting is None:
            return None
        if topic_id == NO_TOPIC_ID:
            paths = " and ".join(each.directory for each in waiting)
            reason = "they are of different topics; set the wrong one aside and start again"
            raise StorageFault("cannot choose between", paths, reason=reason)
        chosen = None
        for each in list(waiting):
            if each.topic_id == topic_id and chosen is None:
                chosen = each
            else:
                self._departures.set_aside(each, "it is of another topic of the same name")
                waiting.remove(each)
        del self._waiting[place]
        return chosen


def _reach(partition_log: PartitionLog) -> tuple[int, int, int]:
    """With equal ends the one that was made later is the copy, and the move is finished."""
    offset_end = partition_log.offset_end
    made_ns = 0
    with contextlib.suppress(FileNotFoundError):
        made = os.stat(os.path.join(partition_log.directory, PARTITION_METADATA_FILE))
        made_ns = made.st_mtime_ns
    return partition_log.epoch_at(offset_end - 1), offset_end, made_ns
