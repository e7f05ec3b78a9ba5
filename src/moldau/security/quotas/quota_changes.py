"""Rules for changing quotas, with Apache Kafka's errors and words (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from moldau.model.errors import ApiError, Error
from moldau.security.quotas.quota_entities import (
    IP,
    LARGEST,
    TYPES,
    Number,
    QuotaEntity,
    entity_of,
    keys_of,
    value_text,
)

FRACTION_MAX = 1e-6
IP_COMBINED = (
    "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
)
"""Apache Kafka's words, without a blank in the middle."""
ARTICLES = {Number.LONG: "a LONG", Number.INT: "an INT"}

AskedEntity = tuple[tuple[str, str | None], ...]
"""As the request says it: in any order, and perhaps no entity at all."""


class AskedChange(NamedTuple):
    entity: AskedEntity
    values: Sequence[tuple[str, float | None]]
    """None removes a quota."""


class QuotaChange(NamedTuple):
    """What changes for one entity, once it has been found good."""

    entity: QuotaEntity
    values: Mapping[str, float | None]

    def apply(self, settings: Mapping[str, str]) -> dict[str, str]:
        """All settings of the entity afterwards; what is no quota stays as it is."""
        keys = keys_of(self.entity)
        after = dict(settings)
        for key, value in self.values.items():
            if value is not None:
                after[key] = value_text(keys[key], value)
            elif key in keys:
                after.pop(key, None)
        return after


class Judged(NamedTuple):
    good: list[QuotaChange]
    refused: dict[AskedEntity, ApiError]
    """An entity that is named again is told so, though its first change is made."""


def hosts_of(changes: Iterable[AskedChange]) -> set[str]:
    """The addresses that are named: whoever judges has to know which of them are none."""
    return {name for change in changes for kind, name in change.entity if kind == IP and name}


def judged(changes: Iterable[AskedChange], unknown_hosts: frozenset[str]) -> Judged:
    rows = Judged([], {})
    named: set[AskedEntity] = set()
    for asked in changes:
        values = dict(asked.values)
        entity = tuple(sorted(asked.entity))
        if len(values) < len(asked.values) or entity in named:
            sentence = f"Ignoring duplicate entity {_entity_text(asked.entity)}"
            rows.refused[asked.entity] = ApiError(Error.INVALID_REQUEST, sentence)
        else:
            fault = _fault_of(asked.entity, unknown_hosts) or _fault_among(asked.entity, values)
            if fault is None:
                rows.good.append(QuotaChange(entity_of(dict(asked.entity)), values))
            else:
                rows.refused[asked.entity] = ApiError(Error.INVALID_REQUEST, fault)
        named.add(entity)
    return rows


def _fault_of(entity: AskedEntity, unknown_hosts: frozenset[str]) -> str | None:
    if not entity:
        return "Invalid empty client quota entity"
    parts = dict(entity)
    for kind, name in entity:
        if kind not in TYPES:
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    if IP in parts and len(parts) > 1:
        return IP_COMBINED
    host = parts.get(IP)
    if host in unknown_hosts:
        return f"{host} is not a valid IP or resolvable host."
    return None


def _fault_among(entity: AskedEntity, values: Mapping[str, float | None]) -> str | None:
    keys = keys_of(entity_of(dict(entity)))
    for key, value in values.items():
        if value is None:
            continue
        number = keys.get(key)
        if number is None:
            return f"Invalid configuration key {key}"
        if not value > 0:
            return f"Quota {key} must be greater than 0"
        if number is Number.DOUBLE:
            continue
        if value > LARGEST[number]:
            return f"Proposed value for {key} is too large for {ARTICLES[number]}."
        if value % 1.0 > FRACTION_MAX:
            return f"{key} cannot be a fractional value."
    return None


def _entity_text(entity: AskedEntity) -> str:
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{parts}}})"
