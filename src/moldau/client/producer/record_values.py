"""What `send` is given, as a record holds it: bytes, headers, a timestamp. Pure.

Whatever cannot be written into a batch is refused here, in the call of the user: later, on the
loop, it would cost others their batch.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from moldau.client.shared.client_errors import SerializationError
from moldau.records.batch_kernel import Headers

TIMESTAMP_MAX = (1 << 63) - 1


def cleaned_until(chunk: list[Any]) -> list[bytes | None]:
    """As bytes, up to the first value that cannot be: the batch must not be left without any."""
    cleaned: list[bytes | None] = []
    for value in chunk:
        try:
            cleaned.append(clean(value))
        except SerializationError:
            break
    return cleaned


def clean(data: Any, part: str = "value") -> bytes | None:
    return data if data is None or data.__class__ is bytes else as_bytes(data, part)


def cleaned(value: Any, key: Any, headers: Any) -> tuple[bytes | None, bytes | None, Headers]:
    return clean(value), clean(key, "key"), as_headers(headers) if headers else ()


def checked_timestamp(given: Any) -> int:
    """Numbers of other kinds are taken if they are whole."""
    try:
        timestamp_ms = operator.index(given)
    except TypeError:
        raise TypeError(
            f"The timestamp_ms of a record is a {type(given).__name__}, must be int"
        ) from None
    if not 0 <= timestamp_ms <= TIMESTAMP_MAX:
        raise ValueError(
            f"Invalid timestamp: {timestamp_ms}. It must be milliseconds from 0 to {TIMESTAMP_MAX}"
        )
    return timestamp_ms


def as_bytes(data: Any, part: str) -> bytes:
    """Text is sent as UTF-8; numbers and objects need a serializer."""
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise SerializationError(
        f"The {part} is a {type(data).__name__}, must be bytes or str unless {part}.serializer is "
        "set"
    )


def as_headers(headers: Any) -> Headers:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    rows = []
    for name, content in pairs:
        if not isinstance(name, str):
            raise SerializationError(f"A header key is a {type(name).__name__}, must be str")
        rows.append((name, None if content is None else as_bytes(content, "value of a header")))
    return tuple(rows)
