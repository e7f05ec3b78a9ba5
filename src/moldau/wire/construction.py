"""Compiles a struct's constructor: keyword-only, every field with its default.

The standard dataclass decorator would do the same for every class at import, which costs more
than a broker's whole start may take; here a class pays when it is first constructed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.wire.schema import MISSING, Field, Struct


def compile_constructor(cls: type[Struct]) -> Callable[..., None]:
    names: dict[str, Any] = {"MISSING": MISSING}
    parameters = ["self"]
    body = []
    for field in cls.__fields__:
        parameters.append(f"{field.name}={default_expression(field, names, 'MISSING')}")
        value = field.name
        if field.default is MISSING:
            fresh = default_expression(field, names, "")
            value = f"{fresh} if {field.name} is MISSING else {field.name}"
        body.append(f"    self.{field.name} = {value}")
    if cls.__fields__:
        parameters.insert(1, "*")
    source = f"def __init__({', '.join(parameters)}):\n" + "\n".join(body or ["    pass"])
    exec(compile(source, f"<constructor of {cls.__name__}>", "exec"), names)
    made: Callable[..., None] = names["__init__"]
    return made


def default_expression(field: Field, names: dict[str, Any], missing: str) -> str:
    """Source text of a field's default; `missing` replaces what must be made afresh."""
    if field.default is not MISSING:
        return repr(field.default)
    if missing:
        return missing
    if field.is_array:
        return "[]"
    factory = f"new_{field.name}"
    names[factory] = field.kind
    return f"{factory}()"
