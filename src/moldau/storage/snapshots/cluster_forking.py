"""A fork of a cluster's snapshot: one broker with every partition, each from who led it.

The parts have to be on this machine: those of brokers elsewhere are copied here first. Where two
brokers led a partition at their moments, the later leader's copy is taken, which has all that the
earlier one had acknowledged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from moldau.model.names import TopicPartition
from moldau.storage.log_state.checkpoint_files import (
    CHECKPOINT_FILES,
    read_offsets,
    write_offsets,
)
from moldau.storage.snapshots.snapshot_files import Manifest, data_of, read_manifest
from moldau.storage.storage_faults import CorruptFile

Take = Callable[[str, str], None]


def parts_of(manifest: Manifest) -> list[Manifest]:
    """Those of all brokers. Raises CorruptFile if one is not here."""
    parts = [manifest]
    for row in manifest.members:
        if row["node_id"] == manifest.node_id:
            continue
        directory = str(row["directories"][0])
        part = read_manifest(directory, manifest.name)
        if part.uid != manifest.uid:
            raise CorruptFile(directory, "the snapshot of this name is another one")
        parts.append(part)
    return parts


def leaders_of(parts: Sequence[Manifest]) -> dict[TopicPartition, tuple[int, Manifest]]:
    """Of each partition the highest leader epoch, and whose part has it."""
    found: dict[TopicPartition, tuple[int, Manifest]] = {}
    for part in parts:
        for name, epoch in part.led.items():
            topic, _, number = name.rpartition("-")
            place = TopicPartition(topic, int(number))
            if place not in found or found[place][0] < epoch:
                found[place] = (epoch, part)
    return found


def gather(
    manifest: Manifest, directory: str, take_over: Callable[[str, str], None], take: Take
) -> Mapping[TopicPartition, int]:
    """Everything into one log directory; the leader epochs. Raises OSError and StorageFault."""
    leaders = leaders_of(parts_of(manifest))
    rows: dict[str, dict[TopicPartition, int]] = {name: {} for name in CHECKPOINT_FILES}
    for place, (_, part) in leaders.items():
        source = _data_of(part, place)
        path = os.path.join(directory, str(place))
        os.mkdir(path)
        take_over(os.path.join(source, str(place)), path)
    for part in {id(part): part for _, part in leaders.values()}.values():
        for data in (data_of(each, part.name) for each in part.directories):
            for name in CHECKPOINT_FILES:
                offsets = read_offsets(os.path.join(data, name))
                rows[name] |= {p: n for p, n in offsets.items() if _is_from(leaders, p, part)}
    for name, offsets in rows.items():
        write_offsets(os.path.join(directory, name), offsets)
    _take_small_files(manifest, directory, take)
    return {place: epoch for place, (epoch, _) in leaders.items()}


def _is_from(
    leaders: Mapping[TopicPartition, tuple[int, Manifest]], place: TopicPartition, part: Manifest
) -> bool:
    return place in leaders and leaders[place][1] is part


def _data_of(part: Manifest, place: TopicPartition) -> str:
    for row in part.partitions:
        if (row.topic, row.partition) == place:
            return data_of(part.directories[row.part], part.name)
    raise CorruptFile(part.directories[0], f"the snapshot {part.name} has no {place}")


def _take_small_files(manifest: Manifest, directory: str, take: Take) -> None:
    """Those that only the part has which makes the snapshot whole: the metadata."""
    source = data_of(manifest.directories[0], manifest.name)
    with os.scandir(source) as entries:
        for entry in entries:
            target = os.path.join(directory, entry.name)
            if entry.is_file() and not os.path.exists(target):
                take(entry.path, target)
