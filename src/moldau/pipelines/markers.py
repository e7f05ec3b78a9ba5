"""Where a pipeline has got to, as a record in a topic of its own: the marker of its last batch.

The marker is written in the transaction of the batch, so it is there exactly when the batch's
records are. It is looked for only after older drivers of the pipeline have been fenced; from then
on nobody but the one who looks can write another. Where to look is noted beside the group's
offsets, so a long history costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.client.admin import Admin
from moldau.client.admin_results import NewTopic, OffsetSpec
from moldau.client.consumer import Consumer
from moldau.client.errors import KafkaError, error_class
from moldau.model.errors import Error
from moldau.model.names import TopicPartition

TOPIC_SUFFIX = "-pipeline-markers"
TOPIC_CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20)}
NOTE_KEY = "marker"
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
        return cls(document["query"], document["batch"], offsets, document["snapshot"])


def marker_topic(app: str) -> str:
    return app + TOPIC_SUFFIX


def note_of(marker_offset: int) -> str:
    """What stands beside the group's offsets: where the marker of the same transaction is."""
    return json.dumps({NOTE_KEY: marker_offset}, separators=(",", ":"))


def ensure_topic(admin: Admin, app: str) -> None:
    name = marker_topic(app)
    made = admin.create_topics([NewTopic(name, partitions=1, configs=TOPIC_CONFIG)])
    fault = made.errors.get(name)
    if fault is not None and not isinstance(fault, error_class(Error.TOPIC_ALREADY_EXISTS)):
        raise fault


def find_last(app: str, group: str, settings: Mapping[str, Any]) -> Marker | None:
    """The marker of the last committed batch; None before the first."""
    where = TopicPartition(marker_topic(app), 0)
    with Admin(common_settings(settings)) as admin:
        start = _noted(admin, group)
        ends = admin.list_offsets({where: OffsetSpec.LATEST}, read_committed=True).check()
        begins = admin.list_offsets({where: OffsetSpec.EARLIEST}).check()
    first, end = max(start, begins[where].offset), ends[where].offset
    found = None
    if first >= end:
        return None
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
            for record in records:
                if record.value is not None:
                    found = Marker.decode(record.value)
        if consumer.position(where) < end:
            raise KafkaError(
                f"The markers of pipeline {app} could not be read up to offset {end} of {where} "
                f"within {LOOK_SECONDS_MAX:.0f} s"
            )
    return found


def _noted(admin: Admin, group: str) -> int:
    """Where the group's offsets say that the last marker is; 0 where they say nothing."""
    offsets = admin.list_group_offsets([group], require_stable=True).check()[group]
    found = 0
    for position in offsets.values():
        if position is not None and NOTE_KEY in position.metadata:
            try:
                found = max(found, int(json.loads(position.metadata)[NOTE_KEY]))
            except (ValueError, TypeError, KeyError):
                continue
    return found


def common_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that every kind of client takes: where the cluster is and who asks."""
    kept = ("bootstrap.servers", "client.id", "security.", "sasl.", "ssl.", "request.timeout.ms")
    return {key: value for key, value in settings.items() if key.startswith(kept)}
