"""Reads OTLP's `MetricsData`: what clients push, as plain points.

The numbers of fields are those of opentelemetry.proto.metrics.v1. Of a histogram and of a summary
the count and the sum are taken. Whoever reads says how many points are enough; how much one point
may say of itself is bounded here, since every point has what its resource says of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from moldau.metrics.otlp.protobuf_fields import (
    ProtobufError,
    double_of,
    fields,
    message_of,
    number_of,
    signed_of,
    text_of,
    unsigned_of,
)

DELTA = 1
"""Of aggregation temporalities: what has come since the last time."""
GAUGE, SUM, HISTOGRAM, EXPONENTIAL_HISTOGRAM, SUMMARY = 5, 7, 9, 10, 11
POINTS_MAX = 10_000
NAME_LENGTH_MAX = 255
ATTRIBUTES_MAX = 32
"""Of a point, those of its resource among them."""
CHARACTERS_MAX = 2_048
"""Of all of these together."""

Attributes = tuple[tuple[str, str], ...]


class Point(NamedTuple):
    name: str
    attributes: Attributes
    value: float
    is_counter: bool
    """Only grows; otherwise it is what it is now."""
    is_delta: bool
    """The value is to be added to what was there."""


def read_points(data: bytes | memoryview, points_max: int = POINTS_MAX) -> list[Point]:
    """Raises ValueError if it is no MetricsData, or has more points than that."""
    points: list[Point] = []
    for resource_metrics in _messages(memoryview(data), 1):
        shared: Attributes = ()
        for resource in _messages(resource_metrics, 1):
            shared = _attributes(resource, 1, shared)
        for scope_metrics in _messages(resource_metrics, 2):
            for metric in _messages(scope_metrics, 2):
                points += _metric(metric, shared)
                if len(points) > points_max:
                    raise ValueError(f"more than {points_max} points")
    return points


def _messages(data: memoryview, number: int) -> Iterator[memoryview]:
    for field in fields(data):
        if field[0] == number:
            yield message_of(field)


def _metric(metric: memoryview, shared: Attributes) -> Iterator[Point]:
    name, kinds = "", []
    for field in fields(metric):
        if field[0] == 1:
            name = text_of(field)
        elif GAUGE <= field[0] <= SUMMARY:
            kinds.append((field[0], message_of(field)))
    if not name or len(name) > NAME_LENGTH_MAX:
        raise ProtobufError(f"a metric's name of {len(name)} characters, not 1 to 255")
    for kind, content in kinds:
        yield from _points(name, kind, content, shared)


def _points(name: str, kind: int, content: memoryview, shared: Attributes) -> Iterator[Point]:
    temporality, is_monotonic, rows = 0, False, []
    for field in fields(content):
        if field[0] == 1:
            rows.append(message_of(field))
            if len(rows) > POINTS_MAX:
                raise ProtobufError(f"more than {POINTS_MAX} points")
        elif field[0] == 2 and kind != GAUGE:
            temporality = number_of(field)
        elif field[0] == 3 and kind == SUM:
            is_monotonic = bool(number_of(field))
    is_delta = temporality == DELTA
    for row in rows:
        if kind in (GAUGE, SUM):
            attributes = _attributes(row, 7, shared)
            for field in fields(row):
                if field[0] == 4:
                    yield Point(name, attributes, double_of(field), is_monotonic, is_delta)
                elif field[0] == 6:
                    yield Point(name, attributes, signed_of(field), is_monotonic, is_delta)
        else:
            number = {HISTOGRAM: 9, EXPONENTIAL_HISTOGRAM: 1, SUMMARY: 7}[kind]
            attributes = _attributes(row, number, shared)
            for field in fields(row):
                if field[0] == 4:
                    count = unsigned_of(field)
                    yield Point(f"{name}.count", attributes, count, True, is_delta)
                elif field[0] == 5:
                    yield Point(f"{name}.sum", attributes, double_of(field), False, is_delta)


def _attributes(data: memoryview, number: int, shared: Attributes) -> Attributes:
    """`shared` and those that stand here."""
    found: list[tuple[str, str]] = list(shared)
    for pair in _messages(data, number):
        key, value = "", None
        for field in fields(pair):
            if field[0] == 1:
                key = text_of(field)
            elif field[0] == 2:
                value = _value(message_of(field))
        if key and value is not None:
            found.append((key, value))
    if len(found) > ATTRIBUTES_MAX:
        raise ProtobufError(f"{len(found)} attributes, more than {ATTRIBUTES_MAX}")
    characters = sum(len(key) + len(value) for key, value in found)
    if characters > CHARACTERS_MAX:
        raise ProtobufError(f"attributes of {characters} characters, more than {CHARACTERS_MAX}")
    return tuple(found) if len(found) > len(shared) else shared


def _value(data: memoryview) -> str | None:
    """As text; None of lists and the like."""
    for field in fields(data):
        if field[0] == 1:
            return text_of(field)
        if field[0] == 2:
            return "true" if number_of(field) else "false"
        if field[0] == 3:
            value = number_of(field)
            return str(value - (1 << 64) if value >> 63 else value)
        if field[0] == 4:
            return repr(double_of(field))
    return None
