"""Requested changes of configuration, checked and turned into the overrides they lead to.

Handlers use it for AlterConfigs and IncrementalAlterConfigs. A refusal is an ApiError with the
code that Kafka gives: INVALID_CONFIG for a topic's value, INVALID_REQUEST for a broker's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from moldau.config.broker import LISTENER_PREFIX, BrokerConfig
from moldau.config.changes import DEFAULT_BROKER, ConfigChange, ResourceType
from moldau.config.definition import ConfigError, Kind, Scope, Setting
from moldau.config.sources import BrokerLayers
from moldau.config.topic import TopicConfig, validate_topic_overrides
from moldau.model.errors import ApiError, Error


class Operation(IntEnum):
    """What an incremental change does to a key, numbered as in the protocol."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class KeyChange(NamedTuple):
    key: str
    operation: int
    value: str | None


STORES = (
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""Keys and certificates: while the broker runs they change per listener only."""


def topic_change(
    topic: str,
    changes: Iterable[KeyChange],
    overrides: Mapping[str, str],
    broker: BrokerConfig,
    *,
    replace_all: bool = False,
) -> ConfigChange:
    """`overrides` are the topic's present ones, `broker` gives the values under them."""

    def inherited(row: Setting) -> tuple[str, ...]:
        name = row.name if row.synonym is None else BrokerConfig.rows[row.synonym].name
        value: tuple[str, ...] = row.default if row.synonym is None else getattr(broker, name)
        return value

    changed: dict[str, str | None] = {}
    for change in _without_duplicates(changes):
        key = TopicConfig.aliases.get(change.key, change.key)
        row = TopicConfig.rows.get(key)
        changed[key] = _new_value(change, row, overrides.get(key), inherited)
    try:
        validate_topic_overrides(_result(overrides, changed, replace_all), broker)
    except ConfigError as error:
        raise ApiError(Error.INVALID_CONFIG, str(error)) from None
    return ConfigChange(ResourceType.TOPIC, topic, changed, replace_all)


def broker_change(
    name: str, changes: Iterable[KeyChange], layers: BrokerLayers, *, replace_all: bool = False
) -> ConfigChange:
    """`name` is a broker's id or DEFAULT_BROKER."""
    for_all = name == DEFAULT_BROKER
    overrides = layers.dynamic_default if for_all else layers.dynamic
    current = layers.current()

    def inherited(row: Setting) -> tuple[str, ...]:
        value: tuple[str, ...] | None = getattr(current, row.name)
        return value or ()

    changed: dict[str, str | None] = {}
    for change in _without_duplicates(changes):
        key = BrokerConfig.aliases.get(change.key, change.key)
        changed[key] = _new_value(change, BrokerConfig.rows.get(key), overrides.get(key), inherited)
    _check_scopes({key for key, text in changed.items() if text is not None}, for_all)
    result = _result(overrides, changed, replace_all)
    merged = {**layers.dynamic_default, **(result if for_all else layers.dynamic)}
    try:
        layers.static.with_overrides({**merged, **result})
    except ConfigError as error:
        raise ApiError(Error.INVALID_REQUEST, str(error)) from None
    return ConfigChange(ResourceType.BROKER, name, changed, replace_all)


def _without_duplicates(changes: Iterable[KeyChange]) -> list[KeyChange]:
    listed = list(changes)
    if len({change.key for change in listed}) < len(listed):
        raise ApiError(Error.INVALID_REQUEST, "A config key appears more than once in the request")
    return listed


def _new_value(
    change: KeyChange,
    row: Setting | None,
    present: str | None,
    inherited: Callable[[Setting], tuple[str, ...]],
) -> str | None:
    key, operation, value = change
    if operation == Operation.DELETE:
        return None
    if operation not in (Operation.SET, Operation.APPEND, Operation.SUBTRACT):
        raise ApiError(Error.INVALID_REQUEST, f"Unknown operation {operation} for {key}")
    if value is None:
        raise ApiError(Error.INVALID_REQUEST, f"The value of {key} must not be null")
    if operation == Operation.SET:
        return value
    verb = Operation(operation).name
    if row is None or row.kind is not Kind.LIST:
        fault = f"{verb} is not possible for {key}: its type is not LIST"
        raise ApiError(Error.INVALID_CONFIG, fault)
    items = inherited(row) if present is None else _items(present)
    named = _items(value)
    if operation == Operation.APPEND:
        return ",".join(dict.fromkeys((*items, *named)))
    return ",".join(item for item in items if item not in named)


def _items(text: str) -> tuple[str, ...]:
    return tuple(item for item in (part.strip() for part in text.split(",")) if item)


def _result(
    overrides: Mapping[str, str], changed: Mapping[str, str | None], replace_all: bool
) -> dict[str, str]:
    result: dict[str, str | None] = {**({} if replace_all else overrides), **changed}
    return {key: text for key, text in result.items() if text is not None}


def _check_scopes(keys: set[str], for_all: bool) -> None:
    """Refuses keys that cannot change while the broker runs, or not for all brokers at once.
    Keys outside the table are allowed: they may belong to a plug-in."""
    rows = {key: BrokerConfig.rows[key] for key in keys if key in BrokerConfig.rows}
    fixed = sorted(key for key, row in rows.items() if row.scope is Scope.READ_ONLY)
    if fixed:
        raise ApiError(
            Error.INVALID_REQUEST, f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
        )
    stores = sorted(key for key in rows if key in STORES)
    if stores:
        raise ApiError(
            Error.INVALID_REQUEST,
            f"These configs change per listener only, with the prefix {LISTENER_PREFIX}<name>.: "
            f"[{', '.join(stores)}]",
        )
    own = sorted(key for key, row in rows.items() if row.scope is Scope.PER_BROKER)
    if for_all and own:
        raise ApiError(
            Error.INVALID_REQUEST,
            f"Cannot update these configs for the whole cluster, name a broker: [{', '.join(own)}]",
        )
