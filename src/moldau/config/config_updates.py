"""The four ways in which a request changes a key, turned into the overrides they lead to.

Handlers call it; whether the new values are allowed is for the controller to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from moldau.config.setting_definition import Kind, Setting, Settings
from moldau.model.errors import ApiError, Error


class Operation(IntEnum):
    """Numbered as in the protocol."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class KeyChange(NamedTuple):
    key: str
    operation: int
    value: str | None


Inherited = Callable[[Setting], tuple[str, ...]]
"""The list that a key has without an override of its own."""


def changed_overrides(
    table: type[Settings],
    changes: Iterable[KeyChange],
    present: Mapping[str, str],
    inherited: Inherited,
) -> dict[str, str | None]:
    """The keys that change, with None for those that lose their override."""
    changed: dict[str, str | None] = {}
    for change in changes:
        key = table.aliases.get(change.key, change.key)
        if key in changed:
            raise ApiError(Error.INVALID_REQUEST, f"The config key {key} appears more than once")
        changed[key] = _new_value(change, table.rows.get(key), present.get(key), inherited)
    return changed


def _new_value(
    change: KeyChange, row: Setting | None, present: str | None, inherited: Inherited
) -> str | None:
    key, operation, value = change
    if operation == Operation.DELETE:
        return None
    if operation not in (Operation.SET, Operation.APPEND, Operation.SUBTRACT):
        raise ApiError(Error.INVALID_REQUEST, f"Unknown operation {operation} on config key {key}")
    if value is None:
        raise ApiError(Error.INVALID_REQUEST, f"The value of config key {key} must not be null")
    if operation == Operation.SET:
        return value
    if row is None or row.kind is not Kind.LIST:
        name = Operation(operation).name
        fault = f"{name} needs a list, and config key {key} is none"
        raise ApiError(Error.INVALID_CONFIG, fault)
    items = inherited(row) if present is None else _items(present)
    named = _items(value)
    if operation == Operation.APPEND:
        return ",".join(dict.fromkeys((*items, *named)))
    return ",".join(item for item in items if item not in named)


def _items(text: str) -> tuple[str, ...]:
    return tuple(item for item in (part.strip() for part in text.split(",")) if item)
