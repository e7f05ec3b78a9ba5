"""The records of __consumer_offsets and __transaction_state, read for people.

Used by `dump-log` and by the formatters of `console-consumer`. Key and value begin with their
version as an int16; the key's version also says what kind of record it is.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.model.names import uuid_text
from moldau.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from moldau.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from moldau.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue
from moldau.wire.primitives import DecodeError
from moldau.wire.schema import Message, Struct, uuid

VERSION_BYTES = 2
KEY_VERSION = 0
"""All keys have but one; their int16 says the kind."""
OFFSET_COMMIT = 1
OFFSET_COMMIT_OLD = 0
GROUP_METADATA = 2
TRANSACTION_LOG = 0


class Schemas(NamedTuple):
    key: type[Message]
    value: type[Message]


Kinds = Mapping[int, Schemas]
GROUP_RECORDS: Kinds = {
    OFFSET_COMMIT_OLD: Schemas(OffsetCommitKey, OffsetCommitValue),
    OFFSET_COMMIT: Schemas(OffsetCommitKey, OffsetCommitValue),
    GROUP_METADATA: Schemas(GroupMetadataKey, GroupMetadataValue),
}
TRANSACTION_RECORDS: Kinds = {
    TRANSACTION_LOG: Schemas(TransactionLogKey, TransactionLogValue),
}


class CoordinatorRecord(NamedTuple):
    kind: int
    key: Message
    value: Message | None
    """None where the record deletes."""
    value_version: int


class UnknownKind(Exception):
    """A record that this table does not know; its number is the only argument."""


def read_record(kinds: Kinds, key: bytes, value: bytes | None) -> CoordinatorRecord:
    """UnknownKind, or DecodeError if the bytes do not fit."""
    if len(key) < VERSION_BYTES:
        raise DecodeError("the key is too short to hold its version")
    kind = version_of(key)
    if kind not in kinds:
        raise UnknownKind(kind)
    schemas = kinds[kind]
    decoded = schemas.key.decode(key, KEY_VERSION, VERSION_BYTES)
    if value is None:
        return CoordinatorRecord(kind, decoded, None, 0)
    version = version_of(value)
    if version not in schemas.value.__versions__:
        raise DecodeError(f"Can't read version {version} of {schemas.value.__name__}")
    return CoordinatorRecord(
        kind, decoded, schemas.value.decode(value, version, VERSION_BYTES), version
    )


def version_of(content: bytes) -> int:
    return int.from_bytes(content[:VERSION_BYTES], "big", signed=True)


def as_json(message: Struct, version: int) -> dict[str, Any]:
    """The fields under Kafka's names, as its tools write them: tagged ones only if they say
    something, bytes as base64, ids as text."""
    node: dict[str, Any] = {}
    for field in message.__fields__:
        value = getattr(message, field.name)
        if version not in field.versions:
            continue
        if field.is_tagged_in(version) and value in (field.default, None):
            continue
        node[camel(field.name)] = _json_value(value, version, is_uuid=field.kind is uuid)
    return node


def _json_value(value: Any, version: int, *, is_uuid: bool) -> Any:
    if isinstance(value, Struct):
        return as_json(value, version)
    if isinstance(value, list):
        return [_json_value(each, version, is_uuid=is_uuid) for each in value]
    if isinstance(value, bytes | memoryview):
        content = bytes(value)
        return uuid_text(content) if is_uuid else base64.b64encode(content).decode()
    return value


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def value_json(record: CoordinatorRecord) -> dict[str, Any] | None:
    """The value's fields; what consumers say inside a group's value is opened up too."""
    if record.value is None:
        return None
    node = as_json(record.value, record.value_version)
    if isinstance(record.value, GroupMetadataValue) and record.value.protocol_type == "consumer":
        for member, row in zip(record.value.members, node["members"], strict=True):
            _open(row, "subscription", member.subscription, ConsumerProtocolSubscription)
            _open(row, "assignment", member.assignment, ConsumerProtocolAssignment)
    return node


def _open(row: dict[str, Any], name: str, content: bytes, schema: type[Message]) -> None:
    content = bytes(content)
    if len(content) < VERSION_BYTES:
        return
    version = version_of(content)
    try:
        row[name] = as_json(schema.decode(content, version, VERSION_BYTES), version)
    except (DecodeError, KeyError):
        pass  # somebody's own protocol: the bytes stay as they are


def compact_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
