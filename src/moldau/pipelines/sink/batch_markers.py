"""Where a pipeline has got to, as a record in a topic of its own: the marker of its last batch.

The marker is written in the transaction of the batch, so it is there exactly when the batch's
records are. It is looked for only after older drivers of the pipeline have been fenced; from then
on nobody but the one who looks can write another. Where to look is noted beside the group's
offsets, so a long history costs nothing. Markers have the checkpoint's id as their key: compaction
keeps the last one of every checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.client.admin.admin_results import NewTopic, OffsetSpec
from moldau.client.admin.blocking_admin import Admin
from moldau.client.consumer.blocking_consumer import Consumer
from moldau.client.shared.client_errors import KafkaError, error_class
from moldau.model.errors import Error
from moldau.model.names import TopicPartition
from moldau.pipelines.sink.sink_options import ContinuationError

TOPIC_SUFFIX = "-pipeline-markers"
TOPIC_CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20)}
NOTE_KEY, NOTE_APP = "marker", "app"
LOOK_SECONDS_MAX = 60.0
POLL_SECONDS = 1.0

Positions = Mapping[TopicPartition, int]


class Marker(NamedTuple):
    query_id: str
    """Of the checkpoint; batches of another one have numbers of their own."""
    batch_id: int
    offsets: dict[TopicPartition, int]
    """Up to where the batch has read, exclusive."""
    snapshot: str | None = None
    """Where a full copy of the state lies, for those who keep one."""
    sources: str | None = None
    """A digest of what all sources of the batch have noted; older markers have none."""

    def encode(self) -> bytes:
        ends: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            ends.setdefault(topic, {})[str(partition)] = offset
        document = {
            "version": 1,
            "query": self.query_id,
            "batch": self.batch_id,
            "offsets": ends,
            "snapshot": self.snapshot,
            "sources": self.sources,
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Marker:
        document = json.loads(data)
        offsets = {
            TopicPartition(topic, int(partition)): offset
            for topic, ends in document["offsets"].items()
            for partition, offset in ends.items()
        }
        return cls(
            document["query"],
            document["batch"],
            offsets,
            document["snapshot"],
            document.get("sources"),
        )


def marker_topic(app: str) -> str:
    return app + TOPIC_SUFFIX


def note_of(app: str, marker_offset: int) -> str:
    """What stands beside the group's offsets: where the marker of the same transaction is."""
    return json.dumps({NOTE_KEY: marker_offset, NOTE_APP: app}, separators=(",", ":"))


def ensure_topic(admin: Admin, app: str) -> None:
    name = marker_topic(app)
    made = admin.create_topics(
        [NewTopic(name, partitions=1, configs=TOPIC_CONFIG)], raise_errors=False
    )
    fault = made.errors.get(name)
    if fault is not None and not isinstance(fault, error_class(Error.TOPIC_ALREADY_EXISTS)):
        raise fault


def find_last(app: str, group: str, settings: Mapping[str, Any]) -> Marker | None:
    """The marker of the last committed batch, whichever checkpoint wrote it; None before the first.

    ContinuationError where the group's offsets tell of one that is gone: who takes that for a
    pipeline without a past writes batches twice."""
    with Admin(common_settings(settings)) as admin:
        noted = _noted(admin, app, group)
    found = _read(app, settings, noted or 0)
    if noted is not None and not found:
        raise ContinuationError(
            f"The group {group} tells of a marker of pipeline {app} at offset {noted} of "
            f"{marker_topic(app)}, and there is none: the topic was deleted or cut short, and "
            "nothing says which batches are written. To begin anew, delete the group and the "
            "checkpoint too"
        )
    return found[-1] if found else None


def find_markers(app: str, settings: Mapping[str, Any], query_id: str) -> list[Marker]:
    """Those of one checkpoint that compaction has left, as they were written."""
    return [marker for marker in _read(app, settings, 0) if marker.query_id == query_id]


def _read(app: str, settings: Mapping[str, Any], start: int) -> list[Marker]:
    """The committed markers from that offset on."""
    where = TopicPartition(marker_topic(app), 0)
    with Admin(common_settings(settings)) as admin:
        ends = admin.list_offsets({where: OffsetSpec.LATEST}, read_committed=True).check()
        begins = admin.list_offsets({where: OffsetSpec.EARLIEST}).check()
    first, end = max(start, begins[where].offset), ends[where].offset
    found: list[Marker] = []
    if first >= end:
        return found
    with Consumer(
        {
            **common_settings(settings),
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    ) as consumer:
        consumer.assign([where])
        consumer.seek(where, first)
        waits = int(LOOK_SECONDS_MAX / POLL_SECONDS)
        while consumer.position(where) < end and waits:
            records = consumer.poll(timeout=POLL_SECONDS)
            waits -= not records
            found += [Marker.decode(each.value) for each in records if each.value is not None]
        if consumer.position(where) < end:
            raise KafkaError(
                f"The markers of pipeline {app} could not be read up to offset {end} of {where} "
                f"within {LOOK_SECONDS_MAX:.0f} s"
            )
    return found


def _noted(admin: Admin, app: str, group: str) -> int | None:
    """Where the group's offsets say that the last marker is; None where they say nothing."""
    offsets = admin.list_group_offsets([group], require_stable=True).check()[group]
    found = None
    for position in offsets.values():
        if position is None or NOTE_KEY not in position.metadata:
            continue
        try:
            note = json.loads(position.metadata)
            # Pipelines may share a group, and older notes do not say whose they are.
            if note.get(NOTE_APP, app) == app:
                found = max(found or 0, int(note[NOTE_KEY]))
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
    return found


def common_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that every kind of client takes: where the cluster is and who asks."""
    kept = ("bootstrap.servers", "client.id", "security.", "sasl.", "ssl.", "request.timeout.ms")
    return {key: value for key, value in settings.items() if key.startswith(kept)}
