"""How `console-consumer` prints a record: the formatters of Kafka's tools under their Java names.

The old names of the formatters of internal topics print what Kafka printed up to 3.x; the new
ones the JSON of 4.x. A name that is none of these is a Python class with `configure(properties)`
and `format(record)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from moldau.cli.command_faults import CommandFault
from moldau.cli.files.group_texts import group_text
from moldau.cli.files.transaction_texts import transaction_text
from moldau.client.serialization.coordinator_records import (
    GROUP_METADATA,
    GROUP_RECORDS,
    OFFSET_COMMIT,
    OFFSET_COMMIT_OLD,
    TRANSACTION_RECORDS,
    CoordinatorRecord,
    Kinds,
    UnknownKind,
    as_json,
    compact_json,
    read_record,
)
from moldau.wire.primitives import DecodeError

if TYPE_CHECKING:
    from moldau.client.consumer.consumer_records import ConsumerRecord

OLD_PACKAGES = ("kafka.coordinator.", "kafka.server.")


class Formatter(Protocol):
    def format(self, record: ConsumerRecord) -> bytes: ...


class DefaultFormatter:
    """Fields in Kafka's order, separated by key.separator, ended by line.separator."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def is_on(name: str, default: str = "false") -> bool:
            return properties.get(name, default).strip().lower() == "true"

        self.null_literal = properties.get("null.literal", "null").encode()
        self.separator = properties.get("key.separator", "\t").encode()
        self.end = properties.get("line.separator", "\n").encode()
        self.headers_separator = properties.get("headers.separator", ",").encode()
        self.key_text = text_of(properties, "key", self.null_literal)
        self.value_text = text_of(properties, "value", self.null_literal)
        self.header_text = text_of(properties, "header", self.null_literal)
        parts: list[Callable[[ConsumerRecord], bytes]] = []
        if is_on("print.timestamp"):
            parts.append(timestamp_text)
        if is_on("print.partition"):
            parts.append(lambda record: b"Partition:%d" % record.partition)
        if is_on("print.offset"):
            parts.append(lambda record: b"Offset:%d" % record.offset)
        if is_on("print.epoch"):
            parts.append(epoch_text)
        if is_on("print.headers"):
            parts.append(self._headers)
        if is_on("print.key"):
            parts.append(lambda record: self.key_text(record.topic, record.key))
        if is_on("print.value", "true"):
            parts.append(lambda record: self.value_text(record.topic, record.value))
        self.parts = parts

    def format(self, record: ConsumerRecord) -> bytes:
        return self.separator.join(part(record) for part in self.parts) + self.end

    def _headers(self, record: ConsumerRecord) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self.headers_separator.join(
            name.encode() + b":" + self.header_text(record.topic, value)
            for name, value in record.headers
        )


def timestamp_text(record: ConsumerRecord) -> bytes:
    names = {0: "CreateTime", 1: "LogAppendTime"}
    name = names.get(record.timestamp_type)
    return b"NO_TIMESTAMP" if name is None else f"{name}:{record.timestamp}".encode()


def epoch_text(record: ConsumerRecord) -> bytes:
    return b"Epoch:%d" % record.leader_epoch if record.leader_epoch >= 0 else b"Epoch:NOT_PRESENT"


def text_of(
    properties: Mapping[str, str], role: str, null_literal: bytes
) -> Callable[[str, bytes | None], bytes]:
    """Bytes as they are, or what the deserializer of that role makes of them."""
    name = properties.get(f"{role}.deserializer")
    if not name:
        return lambda topic, content: null_literal if content is None else content
    from moldau.client.serialization.serializers import deserializer

    try:
        prefix = f"{role}.deserializer."
        own = {
            key.removeprefix(prefix): value
            for key, value in properties.items()
            if key.startswith(prefix)
        }
        read = deserializer(name, {**properties, **own}, is_key=role == "key")
    except (ImportError, AttributeError, TypeError, ValueError) as fault:
        raise CommandFault(f"{name} cannot be loaded as a deserializer: {fault}") from None
    if read is None:
        return lambda topic, content: null_literal if content is None else content

    def text(topic: str, content: bytes | None) -> bytes:
        value = read(topic, content)
        return null_literal if value is None else str(value).encode()

    return text


class JsonLines:
    """A line of JSON for each record; bytes that are no text are escaped by their numbers."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.key_text = text_of(properties, "key", b"")
        self.value_text = text_of(properties, "value", b"")

    def format(self, record: ConsumerRecord) -> bytes:
        def shown(text: bytes | None) -> str | None:
            return None if text is None else text.decode(errors="backslashreplace")

        row = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "headers": [[name, shown(value)] for name, value in record.headers],
            "key": None if record.key is None else shown(self.key_text(record.topic, record.key)),
            "value": (
                None if record.value is None else shown(self.value_text(record.topic, record.value))
            ),
        }
        return compact_json(row).encode() + b"\n"


class NoOutput:
    def format(self, record: ConsumerRecord) -> bytes:
        return b""


class CoordinatorFormatter:
    """Records of an internal topic; others are passed over."""

    def __init__(self, kinds: Kinds, wanted: tuple[int, ...], *, is_old: bool) -> None:
        self.kinds = kinds
        self.wanted = wanted
        self.is_old = is_old

    def format(self, record: ConsumerRecord) -> bytes:
        if record.key is None:
            return b""
        try:
            read = read_record(self.kinds, record.key, record.value)
        except UnknownKind:
            return b""
        except DecodeError as fault:
            raise ValueError(f"the record at offset {record.offset}: {fault}") from None
        if read.kind not in self.wanted:
            return b""
        return (old_text(read) if self.is_old else json_text(read)).encode()


def json_text(read: CoordinatorRecord) -> str:
    """Kafka 4.x; it puts nothing between two records either."""
    value: dict[str, Any] | None = None
    if read.value is not None:
        value = {
            "version": read.value_version,
            "data": as_json(read.value, read.value_version),
        }
    key = {"type": read.kind, "data": as_json(read.key, read.kind)}
    return compact_json({"key": key, "value": value})


def old_text(read: CoordinatorRecord) -> str:
    key: Any = read.key
    value: Any = read.value
    if read.kind in (OFFSET_COMMIT, OFFSET_COMMIT_OLD) and hasattr(key, "partition"):
        text = "NULL"
        if value is not None:
            epoch = (
                f"Optional[{value.leader_epoch}]" if value.leader_epoch >= 0 else "Optional.empty"
            )
            expiry = f"Some({value.expire_timestamp})" if value.expire_timestamp >= 0 else "None"
            text = (
                f"OffsetAndMetadata(offset={value.offset}, leaderEpoch={epoch},"
                f" metadata={value.metadata}, commitTimestamp={value.commit_timestamp},"
                f" expireTimestamp={expiry})"
            )
        return f"[{key.group},{key.topic},{key.partition}]::{text}\n"
    if hasattr(key, "transactional_id"):
        return f"{key.transactional_id}::{transaction_text(key.transactional_id, value)}\n"
    return f"{key.group}::{group_text(key.group, value)}\n"


def formatter_of(name: str, properties: Mapping[str, str]) -> Formatter:
    is_old = name.startswith(OLD_PACKAGES)
    match name.replace("$", ".").rpartition(".")[2]:
        case "DefaultMessageFormatter" | "LoggingMessageFormatter":
            return DefaultFormatter(properties)
        case "JsonLines":
            return JsonLines(properties)
        case "NoOpMessageFormatter":
            return NoOutput()
        case "OffsetsMessageFormatter":
            wanted = (OFFSET_COMMIT_OLD, OFFSET_COMMIT)
            return CoordinatorFormatter(GROUP_RECORDS, wanted, is_old=is_old)
        case "GroupMetadataMessageFormatter":
            return CoordinatorFormatter(GROUP_RECORDS, (GROUP_METADATA,), is_old=is_old)
        case "TransactionLogMessageFormatter":
            return CoordinatorFormatter(TRANSACTION_RECORDS, (0,), is_old=is_old)
    return python_formatter(name, properties)


def python_formatter(name: str, properties: Mapping[str, str]) -> Formatter:
    from moldau.client.shared.configured_classes import instance_of

    try:
        found: Any = instance_of(name)
    except (ImportError, AttributeError, TypeError, ValueError):
        raise CommandFault(f"{name} is not a formatter that can be found.") from None
    if hasattr(found, "configure"):
        found.configure(properties)
    return Encoded(found)


class Encoded:
    """A formatter of the user's, which may return text."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def format(self, record: ConsumerRecord) -> bytes:
        made = self.inner.format(record)
        return made.encode() if isinstance(made, str) else bytes(made)
