"""Which quotas a question is about, with Apache Kafka's errors and words (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from moldau.model.errors import ApiError, Error
from moldau.security.quotas.quota_entities import IP, TYPES, QuotaEntity

Quotas = Mapping[QuotaEntity, Mapping[str, float]]


class Match(IntEnum):
    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2
    """Any name, and the default too."""


class Component(NamedTuple):
    entity_type: str
    match: int
    name: str | None


class _Filter(NamedTuple):
    names: dict[str, str | None]
    types: set[str]

    def matches(self, entity: QuotaEntity, *, is_strict: bool) -> bool:
        parts = dict(entity)
        if is_strict and len(parts) != len(self.names) + len(self.types):
            return False
        return self.types <= parts.keys() and all(
            kind in parts and parts[kind] == name for kind, name in self.names.items()
        )


def described(
    quotas: Quotas, components: Iterable[Component], *, is_strict: bool
) -> Iterator[tuple[QuotaEntity, Mapping[str, float]]]:
    """`is_strict` leaves out entities with further parts. Raises ApiError."""
    asked = _filter_of(components)
    return (
        (entity, values)
        for entity, values in quotas.items()
        if asked.matches(entity, is_strict=is_strict)
    )


def _filter_of(components: Iterable[Component]) -> _Filter:
    asked = _Filter({}, set())
    for kind, match, name in components:
        if not kind:
            raise _bad("Invalid empty entity type.")
        if kind in asked.names or kind in asked.types:
            raise _bad(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in TYPES:
            raise ApiError(Error.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if match == Match.EXACT:
            if name is None:
                raise _bad("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            asked.names[kind] = name
        elif match not in (Match.DEFAULT, Match.SPECIFIED):
            raise _bad(f"Unknown match type {match}")
        elif name is not None:
            said = f"MATCH_TYPE_{Match(match).name}"
            raise _bad(f"Request specified {said}, but also specified a match string.")
        elif match == Match.DEFAULT:
            asked.names[kind] = None
        else:
            asked.types.add(kind)
    kinds = asked.names.keys() | asked.types
    if IP in kinds and len(kinds) > 1:
        raise _bad(
            "Invalid entity filter component combination. IP filter component should not be used"
            " with user or clientId filter component."
        )
    return asked


def _bad(sentence: str) -> ApiError:
    return ApiError(Error.INVALID_REQUEST, sentence)
