"""`partition.metadata`: the topic id that a partition directory belongs to (KIP-516)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from moldau.model.errors import ApiError, Error
from moldau.model.names import NO_TOPIC_ID, TopicId, uuid_from_text, uuid_text
from moldau.storage.log_files import PARTITION_METADATA_FILE, read_whole, write_whole

if TYPE_CHECKING:
    from moldau.storage.log.log_at_rest import AnyLog

VERSION = 0


def write_topic_id(directory: str, topic_id: TopicId) -> None:
    # Without fsync, for creating a thousand partitions at once; the first flush makes it durable.
    content = f"version: {VERSION}\ntopic_id: {uuid_text(topic_id)}"
    path = os.path.join(directory, PARTITION_METADATA_FILE)
    write_whole(path, content.encode(), durable=False)


def read_topic_id(directory: str) -> TopicId:
    """NO_TOPIC_ID if there is none or it cannot be read: whoever knows the id writes it anew."""
    content = read_whole(os.path.join(directory, PARTITION_METADATA_FILE)) or b""
    lines = content.decode("utf-8", "replace").splitlines()
    fields = dict(line.split(": ", 1) for line in lines if ": " in line)
    try:
        return uuid_from_text(fields["topic_id"].strip())
    except (KeyError, ValueError):
        return NO_TOPIC_ID


def claim_topic_id(partition_log: AnyLog, topic_id: TopicId) -> None:
    """Make sure that the log is that topic's; write it down where the log did not know."""
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
