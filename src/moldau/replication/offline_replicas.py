"""Replicas that should be on this broker but whose logs cannot be used, and why.

They answer KAFKA_STORAGE_ERROR until the broker starts again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from moldau.model.cluster import ClusterImage, PartitionImage
from moldau.model.errors import ApiError, Error
from moldau.model.names import TopicPartition
from moldau.storage.directories.log_store import LogStore

log = logging.getLogger("kafka.server.ReplicaManager")


class LostReplicas(dict[tuple[str, int], str]):
    """Partition to reason."""

    def put(self, place: TopicPartition, reason: str) -> None:
        self[place] = reason
        log.error("replica offline partition=%s: %s", place, reason)

    def put_all(self, places: Iterable[TopicPartition], reason: str) -> None:
        """Of one directory, whose failure was reported already."""
        self.update(dict.fromkeys(places, reason))

    def is_lost(self, place: TopicPartition, store: LogStore, *, is_new: bool) -> bool:
        """Its log may lie in a directory that is offline: an empty one elsewhere would pass for
        all it has."""
        faulty = [each.path for each in store.directories if each.fault is not None]
        if not faulty or store.get(place) is not None:
            return False
        if is_new and place not in self:
            return False
        self.put(place, f"{place} may be in the log directory {faulty[0]}")
        return True

    def absence(self, topic: str, partition: int, image: ClusterImage) -> ApiError:
        """Why a partition is not served here."""
        fault = self.get((topic, partition))
        if fault is not None:
            return ApiError(Error.KAFKA_STORAGE_ERROR, fault)
        known = known_partition(image, topic, partition)
        if known is None:
            return ApiError(
                Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{partition}"
            )
        return ApiError(
            Error.NOT_LEADER_OR_FOLLOWER, f"{topic}-{partition} is led by {known.leader}"
        )


def known_partition(image: ClusterImage, topic: str, partition: int) -> PartitionImage | None:
    known = image.topics.get(topic)
    if known is None or not 0 <= partition < len(known.partitions):
        return None
    return known.partitions[partition]


def warn_of_strays(strays: Sequence[TopicPartition]) -> None:
    """Deleting them would be final, and a lost metadata file looks just like this."""
    if strays:
        log.warning(
            "%d logs belong to no topic of the cluster and are not served, the first is %s; "
            "remove their directories if they are not needed",
            len(strays),
            strays[0],
        )
