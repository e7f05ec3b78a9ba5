"""Whom a quota is for, and which quotas there are.

An entity is a user, a client id, both together, or an address. A name that is None stands for
the default of its type: everybody for whom nothing else is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Type and name of each part, in the order of TYPES."""


class Number(Enum):
    LONG = "LONG"
    INT = "INT"
    DOUBLE = "DOUBLE"


LARGEST: Mapping[Number, int] = {Number.LONG: 2**63 - 1, Number.INT: 2**31 - 1}

CLIENT_KEYS: Mapping[str, Number] = {
    PRODUCER_BYTE_RATE: Number.LONG,
    CONSUMER_BYTE_RATE: Number.LONG,
    REQUEST_PERCENTAGE: Number.DOUBLE,
    CONTROLLER_MUTATION_RATE: Number.DOUBLE,
}
"""Of users, client ids and pairs."""
IP_KEYS: Mapping[str, Number] = {CONNECTION_CREATION_RATE: Number.INT}


def entity_of(parts: Mapping[str, str | None]) -> QuotaEntity:
    return tuple((kind, parts[kind]) for kind in TYPES if kind in parts)


def is_address(entity: QuotaEntity) -> bool:
    return entity[0][0] == IP


def keys_of(entity: QuotaEntity) -> Mapping[str, Number]:
    return IP_KEYS if is_address(entity) else CLIENT_KEYS


def value_text(number: Number, value: float) -> str:
    """As Apache Kafka stores it: its own reading of a whole number takes no fraction."""
    if number is Number.DOUBLE:
        return repr(float(value)) if value < float("inf") else "Infinity"
    return str(int(value + 1e-6))


def parse_values(entity: QuotaEntity, settings: Mapping[str, str]) -> dict[str, float]:
    """Of what stands with an entity only its quotas: a user's node holds credentials as well.
    Raises ValueError."""
    keys = keys_of(entity)
    return {key: _number(text) for key, text in settings.items() if key in keys}


def _number(text: str) -> float:
    value = float(text)
    if not value >= 0:
        raise ValueError("a quota is a number that is not negative")
    return value
