"""How a mirror stands, whether it runs or not: what the target has, and how far the source is."""

from __future__ import annotations

from typing import NamedTuple

from moldau.client.shared.client_errors import KafkaError
from moldau.mirroring.mirror import Mirror
from moldau.mirroring.topic_judgement import Follow, Stop
from moldau.model.names import TopicPartition

UNKNOWN = -1


class TopicStatus(NamedTuple):
    source: str
    target: str
    state: str
    partitions: int
    lag: int
    """Records, as the offsets count them; -1: not known."""


async def status(mirror: Mirror) -> list[TopicStatus]:
    """Raises KafkaError if one of the clusters does not answer."""
    rows = []
    for action in await mirror.judged():
        match action:
            case Follow(topic, info):
                lag, state = 0, "mirrored"
                for number, place in enumerate(info.partitions):
                    try:
                        start, end = await mirror.source.offsets(TopicPartition(topic.name, number))
                    except KafkaError as error:
                        lag, state = UNKNOWN, error.message
                        break
                    lag += max(0, end - place.offset_end)
                    if start > place.offset_end and place.last_epoch >= 0:
                        state = f"partition {number} lacks {place.offset_end} to {start - 1}"
                    elif end < place.offset_end:
                        state = f"partition {number} has more than the source"
                rows.append(TopicStatus(topic.name, info.name, state, len(info.partitions), lag))
            case Stop(name, reason):
                target = mirror.file.target_name(name)
                rows.append(TopicStatus(name, target, reason, 0, UNKNOWN))
    return rows
