"""What the driver finds out before anything is written: is the topic there, how is it cut.

A wrong address or a misspelt topic is answered within seconds, in one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.client.admin.admin_results import ConfigResource, ResourceType
from moldau.client.admin.blocking_admin import Admin
from moldau.client.shared.client_errors import KafkaError, error_class
from moldau.model.errors import Error
from moldau.pipelines.hidden_settings import HiddenSettings
from moldau.pipelines.sink.batch_markers import common_settings
from moldau.pipelines.sink.sink_options import SinkError, SinkOptions
from moldau.pipelines.sink.sink_rows import BODY_BYTES, RowSettings
from moldau.pipelines.sink.sink_tasks import WriterSettings
from moldau.records.compression import Codec

FIRST_ANSWER_MS_MAX = 8_000
HEADROOM_BYTES = 1024
"""A batch is a little larger than its records."""


class TopicFacts(NamedTuple):
    partitions: int
    message_bytes_max: int


def check_topic(settings: Mapping[str, str], topic: str) -> TopicFacts:
    """SinkError if no broker answers, or the topic is not there."""
    bootstrap = settings["bootstrap.servers"]
    with Admin(common_settings(settings)) as admin:
        try:
            found = admin.describe_topics(
                [topic], raise_errors=False, timeout=FIRST_ANSWER_MS_MAX / 1000
            ).outcomes[topic]
        except KafkaError as fault:
            raise SinkError(
                f"No broker of {bootstrap} could be reached, check the address: {fault}"
            ) from None
        if isinstance(found, error_class(Error.UNKNOWN_TOPIC_OR_PARTITION)):
            raise SinkError(
                f"There is no topic {topic} at {bootstrap}: create it, or correct the name"
            )
        if isinstance(found, KafkaError):
            raise SinkError(f"The topic {topic} at {bootstrap} cannot be written: {found}")
        return TopicFacts(len(found.partitions), _message_bytes_max(admin, topic))


def _message_bytes_max(admin: Admin, topic: str) -> int:
    """The limit of the topic; whoever may not ask gets the usual one."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        entries = admin.describe_configs(
            [resource], raise_errors=False, timeout=FIRST_ANSWER_MS_MAX / 1000
        ).outcomes[resource]
    except KafkaError:
        return 2 * BODY_BYTES
    if isinstance(entries, KafkaError):
        return 2 * BODY_BYTES
    entry = entries.get("max.message.bytes")
    return 2 * BODY_BYTES if entry is None or entry.value is None else int(entry.value)


def plan(
    chosen: SinkOptions,
    *,
    facts: TopicFacts | None = None,
    writers_max: int = 1,
) -> WriterSettings:
    config = chosen.producer
    codec = Codec[config.compression_type.upper()]
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    body_bytes = chosen.body_bytes or BODY_BYTES
    if facts is not None:
        body_bytes = max(1024, min(body_bytes, facts.message_bytes_max - HEADROOM_BYTES))
    rows = RowSettings(
        chosen.topic, int(codec), levels.get(codec), chosen.has_timestamps, body_bytes
    )
    partitions = {}
    writers = writers_max
    if chosen.topic is not None and facts is not None:
        partitions = {chosen.topic: facts.partitions}
        writers = max(1, min(writers_max, facts.partitions))
    return WriterSettings(rows, HiddenSettings(chosen.settings), writers, partitions)
