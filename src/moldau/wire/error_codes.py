"""The errors in an answer, found without encoding it."""

from __future__ import annotations

from typing import NamedTuple

from moldau.wire.schema import Struct

ERROR_CODE = "error_code"


class _Places(NamedTuple):
    """Where errors may be in a struct."""

    has_own: bool
    rows: tuple[str, ...]
    """Arrays of structs with nothing below them but an error of their own."""
    deeper: tuple[str, ...]
    """Arrays of structs that have to be looked into."""


_PLACES: dict[type[Struct], _Places] = {}


def error_codes(message: Struct) -> list[int]:
    """Each as often as it occurs; empty if all went well."""
    found: list[int] = []
    _find(message, found)
    return found


def _find(struct: Struct, found: list[int]) -> None:
    places = _PLACES.get(type(struct))
    if places is None:
        places = _PLACES[type(struct)] = _places_of(type(struct))
    if places.has_own and struct.error_code:  # type: ignore[attr-defined]
        found.append(int(struct.error_code))  # type: ignore[attr-defined]
    for name in places.rows:
        rows = getattr(struct, name) or ()
        found += [int(row.error_code) for row in rows if row.error_code]
    for name in places.deeper:
        for row in getattr(struct, name) or ():
            _find(row, found)


def _places_of(cls: type[Struct]) -> _Places:
    rows, deeper = [], []
    for field in cls.__fields__:
        if field.is_array and field.struct is not None:
            below = _places_of(field.struct)
            if below.rows or below.deeper:
                deeper.append(field.name)
            elif below.has_own:
                rows.append(field.name)
    has_own = any(field.name == ERROR_CODE for field in cls.__fields__)
    return _Places(has_own, tuple(rows), tuple(deeper))
