"""Fields of nodes, checked when they are read: what passes has the form that it should have.

Pure. Each raises ValueError for anything else.
"""

from __future__ import annotations

from moldau.model.names import BrokerId


def number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"expected a number, found {value!r}")
    return value


def count(value: object) -> int:
    found = number(value)
    if found < 0:
        raise ValueError(f"expected a number from 0 on, found {value!r}")
    return found


def brokers(value: object) -> tuple[BrokerId, ...]:
    """Replicas, each of them once."""
    if not isinstance(value, list):
        raise ValueError(f"expected a list of brokers, found {value!r}")
    found = tuple(map(count, value))
    if len(set(found)) < len(found):
        raise ValueError(f"expected each broker once, found {value!r}")
    return found


def text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a text, found {value!r}")
    return value
