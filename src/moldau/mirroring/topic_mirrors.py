"""All topics of a mirror, as far as they are followed; found again by their partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moldau.client.admin.own.mirrors_admin import MirroredInfo
from moldau.mirroring.partition_mirror import PartitionMirror
from moldau.mirroring.source_cluster import SourceTopic
from moldau.model.names import TopicPartition


class TopicMirror:
    def __init__(self, topic: SourceTopic, info: MirroredInfo) -> None:
        self.name = topic.name
        self.topic_id = topic.topic_id
        self.target_name = info.name
        self.target_id = info.topic_id
        self.source = info.source
        self.partitions: list[PartitionMirror] = []
        self.grow(info)

    def grow(self, info: MirroredInfo) -> None:
        """Those that the target has by now."""
        for number in range(len(self.partitions), len(info.partitions)):
            partition = PartitionMirror(TopicPartition(self.name, number), self.topic_id)
            self.partitions.append(partition)
        self.stands_at(info, only_unknown=True)

    def stands_at(self, info: MirroredInfo, *, only_unknown: bool) -> None:
        for partition, place in zip(self.partitions, info.partitions, strict=False):
            if place.error_code:
                continue
            if only_unknown and partition.position >= 0:
                partition.log_start = place.log_start
                continue
            partition.stands_at(
                place.log_start, place.offset_end, place.last_epoch, place.leader_epoch
            )


class TopicMirrors:
    def __init__(self) -> None:
        self._topics: dict[str, TopicMirror] = {}
        self.stopped: dict[str, str] = {}
        """Topics by name, and why."""

    def __iter__(self) -> Iterator[TopicMirror]:
        return iter(self._topics.values())

    def partitions(self) -> Iterator[PartitionMirror]:
        for topic in self._topics.values():
            yield from topic.partitions

    def of(self, partition: PartitionMirror) -> TopicMirror | None:
        """None if another topic has come in its place."""
        topic = self._topics.get(partition.place.topic)
        number = partition.place.partition
        is_its = topic is not None and topic.partitions[number : number + 1] == [partition]
        return topic if is_its else None

    def follow(self, topic: SourceTopic, info: MirroredInfo) -> None:
        known = self._topics.get(topic.name)
        if known is not None and known.source == info.source and known.target_id == info.topic_id:
            known.grow(info)
            return
        self._topics[topic.name] = TopicMirror(topic, info)
        self.stopped.pop(topic.name, None)

    def stop(self, name: str, reason: str) -> bool:
        """Whether that is news."""
        if self.stopped.get(name) == reason:
            return False
        self.stopped[name] = reason
        topic = self._topics.get(name)
        for partition in () if topic is None else topic.partitions:
            partition.stop(reason)
        return True

    def located(self, infos: Mapping[str, MirroredInfo], lost: set[TopicPartition]) -> None:
        """The target has said where these partitions end."""
        for topic in self._topics.values():
            info = infos.get(topic.target_name)
            if info is None or info.topic_id != topic.target_id:
                continue
            for partition, place in zip(topic.partitions, info.partitions, strict=False):
                if partition.place in lost and not place.error_code and not partition.stopped:
                    partition.stands_at(
                        place.log_start, place.offset_end, place.last_epoch, place.leader_epoch
                    )
