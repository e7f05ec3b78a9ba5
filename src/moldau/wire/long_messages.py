"""How much there is in a message, found without encoding it."""

from __future__ import annotations

from moldau.wire.schema import Struct

_ARRAYS: dict[type[Struct], tuple[tuple[str, bool], ...]] = {}
"""Names of the arrays of a struct, and whether their items may hold more."""


def is_long(message: Struct, rows_max: int) -> bool:
    """Whether all its arrays together have more items than that. Looks at no more than so many."""
    return _rows_left(message, rows_max) < 0


def _rows_left(struct: Struct, left: int) -> int:
    cls = type(struct)
    arrays = _ARRAYS.get(cls)
    if arrays is None:
        arrays = _ARRAYS[cls] = _arrays_of(cls)
    for name, has_more in arrays:
        items = getattr(struct, name)
        if items:
            left -= len(items)
            if left < 0:
                return left
            if has_more:
                for item in items:
                    left = _rows_left(item, left)
                    if left < 0:
                        return left
    return left


def _arrays_of(cls: type[Struct]) -> tuple[tuple[str, bool], ...]:
    return tuple(
        (field.name, field.struct is not None and bool(_arrays_of(field.struct)))
        for field in cls.__fields__
        if field.is_array
    )
