"""What the log directories of a stopped broker say about its topics, without changing a file.

For `storage adopt`: names, partition counts and topic ids come from the directories, the largest
leader epoch and producer id from the files in them. What a lone broker could not serve is refused
with a sentence that names it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moldau.model.names import NO_TOPIC_ID, TopicId, TopicPartition, topic_name_fault, uuid_text
from moldau.storage.adoption.found_producers import next_producer_id
from moldau.storage.adoption.kraft_metadata import KraftMetadata, read_kraft_metadata
from moldau.storage.directories.meta_properties import MetaProperties, read_meta_properties
from moldau.storage.log_files import (
    DELETED_DIRECTORY_SUFFIX,
    EPOCHS_FILE,
    FUTURE_DIRECTORY_SUFFIX,
    KRAFT_METADATA_DIRECTORY,
    STRAY_DIRECTORY_SUFFIX,
    parse_partition_directory,
)
from moldau.storage.log_state.checkpoint_files import CLEANER_FILE, read_epochs, read_offsets
from moldau.storage.log_state.partition_metadata import read_topic_id
from moldau.storage.storage_faults import CorruptFile, StorageFault


class FoundTopic(NamedTuple):
    name: str
    topic_id: TopicId
    """NO_TOPIC_ID if none of its directories has one: brokers before 2.8 gave none."""
    leader_epochs: tuple[int, ...]
    """By partition: the largest that wrote a record, -1 if none."""
    is_compacted: bool
    """The cleaner has been at work on it."""
    configs: Mapping[str, str] | None
    """Its overrides; None if the directories do not say: ZooKeeper had them."""


class FoundCluster(NamedTuple):
    meta: MetaProperties
    topics: list[FoundTopic]
    producer_id_next: int
    """Greater than any that the files know."""
    left_alone: list[str]
    """Directories that hold no partition of a topic."""
    others: Mapping[str, int]
    """What the metadata of a KRaft broker hold besides topics, and how many of each."""


def look_around(log_directories: Sequence[str]) -> FoundCluster:
    """Raises StorageFault for what cannot be taken over."""
    meta = _common_meta(log_directories)
    places: dict[TopicPartition, str] = {}
    compacted: set[str] = set()
    left_alone: list[str] = []
    for directory in log_directories:
        compacted |= _compacted_topics(directory)
        for name in sorted(os.listdir(directory)):
            path = os.path.join(directory, name)
            if not os.path.isdir(path) or name.endswith(DELETED_DIRECTORY_SUFFIX):
                continue
            partition = parse_partition_directory(name)
            if name.endswith(FUTURE_DIRECTORY_SUFFIX):
                reason = "a move of this partition between directories is not finished; start the "
                reason += "broker that began it and let it finish"
                raise StorageFault("cannot adopt", path, reason=reason)
            if (
                name == KRAFT_METADATA_DIRECTORY
                or name.endswith(STRAY_DIRECTORY_SUFFIX)
                or partition is None
                or topic_name_fault(partition.topic) is not None
            ):
                left_alone.append(path)
            elif partition in places:
                reason = f"the same partition is in {places[partition]}; remove one of them"
                raise StorageFault("cannot adopt", path, reason=reason)
            else:
                places[partition] = path
    kraft = [p for p in left_alone if os.path.basename(p) == KRAFT_METADATA_DIRECTORY]
    metadata = read_kraft_metadata(kraft[0]) if kraft else None
    names = sorted({partition.topic for partition in places})
    topics = [_topic(name, places, compacted, metadata) for name in names]
    others = {} if metadata is None else metadata.others
    given_out = 0 if metadata is None else metadata.producer_id_next
    producer_id_next = max(given_out, next_producer_id(places))
    return FoundCluster(meta, topics, producer_id_next, left_alone, others)


def _common_meta(log_directories: Sequence[str]) -> MetaProperties:
    """Whose directories these are; they must belong to one node."""
    common = MetaProperties()
    for directory in log_directories:
        try:
            meta = read_meta_properties(directory)
        except CorruptFile as corrupt:
            raise StorageFault("cannot adopt", directory, reason=str(corrupt)) from corrupt
        if meta.node_id is None or meta.cluster_id is None:
            reason = "it has no meta.properties with a node id and a cluster id, so no Kafka "
            reason += "broker has used it as a log directory; name the folder given as log.dirs"
            raise StorageFault("cannot adopt", directory, reason=reason)
        found = (meta.node_id, meta.cluster_id)
        if common.node_id is not None and found != (common.node_id, common.cluster_id):
            reason = f"it belongs to node {meta.node_id} of cluster {meta.cluster_id}, the first "
            reason += f"directory to node {common.node_id} of cluster {common.cluster_id}"
            raise StorageFault("cannot adopt", directory, reason=reason)
        common = meta if common.node_id is None else common
    return common


def _topic(
    name: str,
    places: dict[TopicPartition, str],
    compacted: set[str],
    metadata: KraftMetadata | None,
) -> FoundTopic:
    numbers = sorted(p.partition for p in places if p.topic == name)
    paths = [places[TopicPartition(name, number)] for number in numbers]
    first = paths[0]
    ids = {read_topic_id(path) for path in paths} - {NO_TOPIC_ID}
    if len(ids) > 1:
        texts = " and ".join(sorted(map(uuid_text, ids)))
        reason = f"the partitions of topic {name} have different topic ids, {texts}: some are left "
        reason += "from a deleted topic of that name; remove their directories"
        raise StorageFault("cannot adopt", os.path.dirname(first), reason=reason)
    topic_id = next(iter(ids), NO_TOPIC_ID)
    count = numbers[-1] + 1
    if metadata is not None:
        count = max(count, metadata.partition_counts.get(topic_id, 0))
    missing = next((number for number in range(count) if number not in numbers), None)
    if missing is not None:
        reason = f"topic {name} has {count} partitions and partition {missing} is not here, so it "
        reason += "was spread over several brokers; gather all partitions on one of them first"
        raise StorageFault("cannot adopt", os.path.dirname(first), reason=reason)
    epochs = tuple(_latest_epoch(path) for path in paths)
    own = None if metadata is None else metadata.configs.get(name, {})
    return FoundTopic(name, topic_id, epochs, name in compacted, own)


def _latest_epoch(path: str) -> int:
    try:
        entries = read_epochs(os.path.join(path, EPOCHS_FILE))
    except CorruptFile as corrupt:
        reason = f"{corrupt.reason}; start the broker that wrote it once more and stop it"
        raise StorageFault("cannot adopt", corrupt.path, reason=reason) from corrupt
    return max((entry.epoch for entry in entries), default=-1)


def _compacted_topics(directory: str) -> set[str]:
    try:
        cleaned = read_offsets(os.path.join(directory, CLEANER_FILE))
    except CorruptFile:
        return set()
    return {partition.topic for partition in cleaned}
