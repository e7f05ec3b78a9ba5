"""Users say seconds, Kafka's settings and requests milliseconds."""

from __future__ import annotations

from typing import overload


@overload
def milliseconds(seconds: float | None) -> int | None: ...
@overload
def milliseconds(seconds: float | None, default: int) -> int: ...
def milliseconds(seconds: float | None, default: int | None = None) -> int | None:
    """None is the default."""
    return default if seconds is None else round(seconds * 1000)
