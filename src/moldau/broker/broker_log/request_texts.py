"""A request and its response as Kafka's request log has them: JSON, records as sizes, no secrets.

Keys are those of Kafka's message definitions, in their order. What a version does not have is left
out, and so are tagged fields that nobody has set.
"""

from __future__ import annotations

import base64
import re
from functools import cache
from typing import Any

from moldau.config.broker_config import LISTENER_PREFIX, BrokerConfig
from moldau.wire.schema import Field, Message, Struct

HIDDEN = "Sensitive value hidden"
"""Kafka's words."""
SECRET_FIELDS = {"auth_bytes", "hmac", "salt", "salted_password"}
"""Whatever message they stand in."""
AS_SIZES = {"records", "metrics"}
"""Of records, Kafka has the size; what clients push as metrics is nobody's to read either."""
CONFIG_CHANGES = {33, 44}
"""AlterConfigs and IncrementalAlterConfigs: values may be passwords."""
OF_BROKERS = 4


@cache
def api_text(name: str) -> str:
    """ListOffsets as LIST_OFFSETS."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def request_node(request: Message, api_key: int, version: int) -> dict[str, Any]:
    node = message_node(request, version)
    if api_key in CONFIG_CHANGES:
        for resource in node["resources"]:
            if resource["resourceType"] == OF_BROKERS:
                for config in resource["configs"]:
                    if _may_be_secret(config["name"]):
                        config["value"] = HIDDEN
    return node


def message_node(message: Struct, version: int) -> dict[str, Any]:
    node: dict[str, Any] = {}
    for field in message.__fields__:
        if version not in field.versions:
            continue
        value = getattr(message, field.name)
        if field.is_tagged_in(version) and (value == field.default or value in (None, [])):
            continue
        if field.name in AS_SIZES and not isinstance(value, list):
            node[f"{_key(field.name)}SizeInBytes"] = 0 if value is None else len(value)
            continue
        node[_key(field.name)] = _value(field, value, version)
    return node


def _value(field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.name in SECRET_FIELDS:
        return HIDDEN
    if field.is_array:
        return [_one(field, each, version) for each in value]
    return _one(field, value, version)


def _one(field: Field, value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return message_node(value, version)
    if isinstance(value, (bytes, bytearray, memoryview)):
        kind = field.primitive
        if kind is not None and kind.name == "uuid":
            return base64.urlsafe_b64encode(value).decode().rstrip("=")
        return base64.b64encode(value).decode()
    return value


@cache
def _key(name: str) -> str:
    first, *words = name.split("_")
    return first + "".join(word.capitalize() for word in words)


def _may_be_secret(name: str) -> bool:
    """A password, or a key that nobody knows here: it may be the password of a plug-in."""
    if name.startswith(LISTENER_PREFIX):
        name = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    row = BrokerConfig.rows.get(name)
    return row is None or row.is_sensitive
