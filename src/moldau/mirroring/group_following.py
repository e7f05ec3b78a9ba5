"""Offsets of groups: as they are at the source, and never beyond what is mirrored.

A group that has members at the target goes its own way, and so does a topic that was promoted.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.admin.admin_core import AdminCore
from moldau.client.consumer.consumer_records import OffsetAndMetadata
from moldau.client.shared.client_errors import KafkaError
from moldau.mirroring.mirror_file import MirrorFile
from moldau.mirroring.source_cluster import SourceCluster
from moldau.mirroring.topic_mirrors import TopicMirrors
from moldau.model.names import TopicPartition

Offsets = dict[TopicPartition, OffsetAndMetadata]
GROUPS_AT_ONCE = 100


class GroupFollowing:
    def __init__(
        self, file: MirrorFile, source: SourceCluster, target: AdminCore, mirrors: TopicMirrors
    ) -> None:
        self._file = file
        self._source = source
        self._target = target
        self._mirrors = mirrors
        self._copied: dict[str, Offsets] = {}
        """What this process has set: what has not changed is not set again."""
        self.not_copied: dict[str, str] = {}
        """Groups whose offsets could not be set, and why."""

    async def round(self) -> None:
        """Raises KafkaError if one of the clusters does not answer."""
        listed = await self._source.admin.list_groups()
        names = [row.group_id for row in listed if self._file.wants_group(row.group_id)]
        for gone in self._copied.keys() - set(names):
            # Nothing is taken away at the target.
            del self._copied[gone]
        for first in range(0, len(names), GROUPS_AT_ONCE):
            part = names[first : first + GROUPS_AT_ONCE]
            found = await self._source.admin.list_group_offsets(part)
            # Read after the offsets: what is not mirrored by now is beyond the mirror.
            ends = self._ends()
            for group, offsets in found.items():
                if not isinstance(offsets, KafkaError):
                    await self._copy(group, mirrored(offsets, ends))

    def _ends(self) -> dict[TopicPartition, tuple[TopicPartition, int]]:
        return {
            partition.place: (
                TopicPartition(topic.target_name, partition.place.partition),
                partition.appended_end,
            )
            for topic in self._mirrors
            for partition in topic.partitions
            if not partition.stopped and partition.appended_end >= 0
        }

    async def _copy(self, group: str, wanted: Offsets) -> None:
        before = self._copied.get(group, {})
        changed = {place: row for place, row in wanted.items() if before.get(place) != row}
        if not changed:
            return
        try:
            outcomes = await self._target.alter_group_offsets(group, changed)
        except KafkaError as error:
            self.not_copied[group] = error.message
            return
        self.not_copied.pop(group, None)
        copied = self._copied.setdefault(group, {})
        for place, outcome in outcomes.items():
            if isinstance(outcome, KafkaError):
                self.not_copied[group] = f"{place}: {outcome.message}"
            else:
                copied[place] = changed[place]


def mirrored(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | None],
    ends: Mapping[TopicPartition, tuple[TopicPartition, int]],
) -> Offsets:
    """What the group's offsets are at the target."""
    found = {}
    for place, row in offsets.items():
        if row is None or place not in ends:
            continue
        at_target, end = ends[place]
        if row.offset > end:
            row = OffsetAndMetadata(end, row.metadata)
        found[at_target] = row
    return found
