"""What can be said to the sink, and whether a frame can be written at all.

Options and columns are those of Spark's Kafka connector: `topic`, `kafka.*` for the producer, and
the columns key, value, headers, topic, partition. What cannot work is refused before a query
starts, in one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.config.client_settings.producer_settings import ProducerConfig
from moldau.config.setting_definition import ConfigError, suggestion
from moldau.pipelines.hidden_settings import HiddenSettings

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAMES = ("topic", "includeHeaders", "includeTimestamp", "batchBytes", "checkpointLocation")
REFUSED = {
    "key.serializer": "keys are bytes or text already",
    "value.serializer": "values are bytes or text already",
    "transactional.id": "transactions are what Kafka.to(..., guarantee='exactly_once') is for",
    "interceptor.classes": "rows go to the broker as they are",
    "acks": "a row counts as written when all replicas in sync have it",
    "enable.idempotence": "without it a retry could write a row twice",
}
SETTINGS = {
    # Bodies come ready and large: nothing is gained by waiting for more.
    "linger.ms": "0",
    "max.request.size": str(8 << 20),
    "buffer.memory": str(64 << 20),
}
COLUMN_TYPES = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
NUMBERS = ("bigint", "int", "smallint", "tinyint", "double", "float", "boolean")
"""What `Kafka.to` writes as well, in the bytes of Java's serializers."""


class SinkError(Exception):
    """What a user can mend, in one sentence."""


class ContinuationError(SinkError):
    """Checkpoint and markers do not fit together; trying again does not help."""


class SinkOptions(NamedTuple):
    settings: dict[str, str]
    """The producer's, without the prefix."""
    topic: str | None
    has_timestamps: bool = False
    body_bytes: int | None = None

    @property
    def bootstrap(self) -> str:
        return self.settings["bootstrap.servers"]

    @property
    def producer(self) -> ProducerConfig:
        return ProducerConfig.parse(self.settings)[0]


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    given = {name.lower(): str(value) for name, value in options.items()}
    settings = {**SETTINGS}
    known = {name.lower(): name for name in NAMES}
    for name, value in given.items():
        if name.startswith("kafka."):
            settings[name.removeprefix("kafka.")] = value
        elif name not in known and name != "path":
            raise SinkError(f"The format moldau has no option {name}{suggestion(name, known)}")
    if not settings.get("bootstrap.servers"):
        raise SinkError(
            "The option kafka.bootstrap.servers is missing: name at least one broker as host:port"
        )
    for name, reason in REFUSED.items():
        if name in settings:
            raise SinkError(f"The option kafka.{name} cannot be set: {reason}")
    try:
        ProducerConfig.parse(settings)
    except ConfigError as fault:
        raise SinkError(f"The option kafka.{fault.key} is wrong: {fault}") from None
    return SinkOptions(
        HiddenSettings(settings),
        given.get("topic") or given.get("path") or None,
        given.get("includetimestamp", "false").lower() == "true",
        _bytes(given.get("batchbytes")),
    )


def check_columns(schema: StructType, topic: str | None, *, numbers: bool = False) -> list[str]:
    """The columns that are written, of those there are; SinkError if they cannot be."""
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in kinds:
        raise SinkError(
            "The column value is missing: name the column to be written, for instance with "
            f"select(col.alias('value')); there are {', '.join(kinds) or 'none'}"
        )
    if topic is None and "topic" not in kinds:
        raise SinkError("Nothing says which topic to write: set the option topic or a column topic")
    for name, allowed in COLUMN_TYPES.items():
        kind = kinds.get(name)
        if numbers and name in ("key", "value"):
            allowed = (*allowed, *NUMBERS)
        if kind is not None and kind != "void" and not _fits(kind, allowed):
            if name == "timestamp":
                continue
            raise SinkError(
                f"The column {name} is {kind}, and must be {' or '.join(allowed)}: cast or encode "
                "it before writing"
            )
    return [name for name in COLUMN_TYPES if name in kinds and kinds[name] != "void"]


def _fits(kind: str, allowed: tuple[str, ...]) -> bool:
    # Strings may say their collation.
    return kind in allowed or (kind.startswith("string") and "string" in allowed)


def _bytes(text: Any) -> int | None:
    if text is None:
        return None
    if not str(text).isdecimal() or int(text) < 1024:
        raise SinkError(f"The option batchBytes cannot be {text!r}: give at least 1024 bytes")
    return int(text)
