"""What is known of an answer before it is encoded: its errors, and whether it is long.

Each answer is walked, so the walk of a message is compiled when its first one is answered: one
call with plain loops, however deep the message is, as its encoder is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.wire.schema import Field, Struct

ERROR_CODE = "error_code"
ROWS_ENDLESS = 1 << 62

Walk = Callable[[Any, int], "list[int] | None"]

_WALKS: dict[type[Struct], Walk] = {}


def errors_unless_long(message: Struct, rows_max: int) -> list[int] | None:
    """Each error in the answer, as often as it occurs. None if all its arrays together have more
    items than that: no more than so many are looked at."""
    walk = _WALKS.get(message.__class__)
    if walk is None:
        walk = _WALKS[message.__class__] = _compile_walk(message.__class__)
    return walk(message, rows_max)


def error_codes(message: Struct) -> list[int]:
    """Each as often as it occurs, however long the answer is; empty if all went well."""
    return errors_unless_long(message, ROWS_ENDLESS) or []


def _compile_walk(cls: type[Struct]) -> Walk:
    lines = [
        "def walk(row0, left):",
        "    found = []",
        *_lines_of(cls, 0, "    "),
        "    return found",
    ]
    names: dict[str, Any] = {}
    exec(compile("\n".join(lines), f"<walk of {cls.__name__}>", "exec"), names)
    made: Walk = names["walk"]
    return made


def _lines_of(cls: type[Struct], depth: int, pad: str) -> list[str]:
    """Look into `row<depth>`."""
    row = f"row{depth}"
    lines = []
    for field in cls.__fields__:
        if field.name == ERROR_CODE:
            lines += [
                f"{pad}if {row}.{ERROR_CODE}:",
                f"{pad}    found.append(int({row}.{ERROR_CODE}))",
            ]
        elif field.is_array:
            lines += _array_lines(field, depth, pad)
    return lines


def _array_lines(field: Field, depth: int, pad: str) -> list[str]:
    items = f"items{depth}"
    lines = [
        f"{pad}{items} = row{depth}.{field.name}",
        f"{pad}if {items}:",
        f"{pad}    left -= len({items})",
        f"{pad}    if left < 0:",
        f"{pad}        return None",
    ]
    below = _lines_of(field.struct, depth + 1, f"{pad}        ") if field.struct else []
    if below:
        lines += [f"{pad}    for row{depth + 1} in {items}:", *below]
    return lines
