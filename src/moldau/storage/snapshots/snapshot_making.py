"""From captured logs to a snapshot on disk. In a thread: everything that blocks.

The directories grow under names that end with `.partial` and are renamed when all in them has
reached the disk, those without the manifest first. So a crash leaves a whole snapshot or something
that the next start removes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from moldau.model.names import Millis
from moldau.records.checksum import crc32c
from moldau.storage.directories.log_directory import CLEAN_SHUTDOWN_CONTENT, CLEAN_SHUTDOWN_FILE
from moldau.storage.directories.meta_properties import MetaProperties, write_meta_properties
from moldau.storage.log_files import (
    LOG_SUFFIX,
    parse_offset_file_name,
    read_whole,
    sync_directory,
    write_whole,
)
from moldau.storage.log_state.checkpoint_files import (
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    write_offsets,
)
from moldau.storage.snapshots.captured_logs import CapturedLog
from moldau.storage.snapshots.linked_logs import link_log
from moldau.storage.snapshots.snapshot_files import (
    DATA,
    MANIFEST_FILE,
    PART_FILE,
    PARTIAL_SUFFIX,
    Manifest,
    PartitionRow,
    data_of,
    encode_manifest,
    remove_tree,
    root_of,
)
from moldau.storage.storage_faults import StorageFault

METADATA_MODE = 0o600
"""What users log in with is in it."""


class Moment(NamedTuple):
    """All that a snapshot is made from, taken between two steps of the loop."""

    name: str
    created_ms: Millis
    cluster_id: str
    node_id: int
    software: str
    directories: tuple[str, ...]
    settings: Mapping[str, str]
    is_secured: bool
    logs: Mapping[str, Sequence[CapturedLog]]
    """By log directory."""
    metadata: tuple[str, Callable[[], bytes]] | None
    """The metadata store: file name, and what makes its content. None in a part of a cluster's
    snapshot: one part has it for all."""
    uid: str = ""
    led: Mapping[str, int] = {}
    members: Sequence[Mapping[str, Any]] = ()
    held_us: int = 0


def begin(moment: Moment) -> None:
    """Link everything, under the names that say that it is not whole yet. Raises StorageFault."""
    for directory in moment.directories:
        data = _partial_data(directory, moment.name)
        remove_tree(os.path.dirname(data))
        try:
            os.makedirs(data)
        except OSError as error:
            raise StorageFault.of("cannot create", data, error) from error
        for captured in moment.logs[directory]:
            link_log(captured, data)


def finish(moment: Moment) -> Manifest:
    """Write what describes it, force it to disk, give it its name. Raises StorageFault."""
    try:
        for directory in moment.directories:
            _write_directory_files(moment, directory)
        manifest = _manifest(moment)
        first = os.path.dirname(_partial_data(moment.directories[0], moment.name))
        write_whole(os.path.join(first, MANIFEST_FILE), encode_manifest(manifest))
        for directory in moment.directories[1:]:
            part = os.path.dirname(_partial_data(directory, moment.name))
            write_whole(os.path.join(part, PART_FILE), os.fsencode(moment.directories[0]))
        for directory in reversed(moment.directories):
            data = _partial_data(directory, moment.name)
            sync_directory(data)
            sync_directory(os.path.dirname(data))
            os.rename(os.path.dirname(data), os.path.dirname(data_of(directory, moment.name)))
            sync_directory(root_of(directory))
            sync_directory(os.path.dirname(root_of(directory)))
    except OSError as error:
        raise StorageFault.of("cannot finish", moment.name, error) from error
    return manifest


def give_up(moment: Moment) -> None:
    """Nothing of it stays, as far as the disk lets us."""
    for directory in moment.directories:
        with contextlib.suppress(StorageFault):
            remove_tree(os.path.dirname(_partial_data(directory, moment.name)))


def _partial_data(log_directory: str, name: str) -> str:
    return os.path.join(root_of(log_directory), name + PARTIAL_SUFFIX, DATA)


def _write_directory_files(moment: Moment, directory: str) -> None:
    data, logs = _partial_data(directory, moment.name), moment.logs[directory]
    rows = {
        RECOVERY_POINT_FILE: {each.topic_partition: each.offset_end for each in logs},
        LOG_START_FILE: {
            each.topic_partition: each.log_start_offset
            for each in logs
            if each.log_start_offset > each.base_offset
        },
        HIGH_WATERMARK_FILE: {each.topic_partition: each.high_watermark for each in logs},
        CLEANER_FILE: {
            each.topic_partition: each.cleaned_end for each in logs if each.cleaned_end > 0
        },
    }
    for name, offsets in rows.items():
        write_offsets(os.path.join(data, name), offsets)
    write_meta_properties(data, MetaProperties(moment.node_id, moment.cluster_id, None))
    write_whole(os.path.join(data, CLEAN_SHUTDOWN_FILE), CLEAN_SHUTDOWN_CONTENT)
    if moment.metadata is not None and directory == moment.directories[0]:
        name, content = moment.metadata
        write_whole(os.path.join(data, name), content(), mode=METADATA_MODE)


def _manifest(moment: Moment) -> Manifest:
    rows, checksums = [], {}
    for part, directory in enumerate(moment.directories):
        data = _partial_data(directory, moment.name)
        rows += [_partition_row(part, data, each) for each in moment.logs[directory]]
        for name in os.listdir(data):
            content = _content(os.path.join(data, name))
            if content is not None:
                checksums[f"{part}/{name}"] = crc32c(content)
    return Manifest(
        moment.name,
        moment.created_ms,
        moment.cluster_id,
        moment.node_id,
        moment.software,
        moment.directories,
        moment.settings,
        moment.is_secured,
        tuple(sorted(rows)),
        checksums,
        moment.uid,
        moment.led,
        moment.members,
        moment.held_us,
    )


def _content(path: str) -> bytes | None:
    return None if os.path.isdir(path) else read_whole(path)


def _partition_row(part: int, data: str, captured: CapturedLog) -> PartitionRow:
    directory = os.path.join(data, str(captured.topic_partition))
    segments = []
    for name in sorted(os.listdir(directory)):
        parsed = parse_offset_file_name(name)
        if parsed is not None and parsed[1] == LOG_SUFFIX:
            segments.append((parsed[0], os.stat(os.path.join(directory, name)).st_size))
    return PartitionRow(
        captured.topic_partition.topic,
        captured.topic_partition.partition,
        part,
        captured.log_start_offset,
        captured.offset_end,
        tuple(segments),
    )
